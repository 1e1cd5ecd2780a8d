/* The places of a front door: connections whose peers have not proved yet who they are, so that
 * anybody may have opened them.  Decides whose place a newcomer gets when all are taken, so that
 * strangers displace each other and not those that the door is for.
 *
 * Pure: no sockets, no clock.  The door keeps an array of places, and beside each what it knows of
 * the connection there.  Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_place {
    bool taken;
    bool known;       /* it has shown that it is no stranger, and is not displaced any more */
    uint32_t mates;   /* taken places of the same address that are not known, itself included */
    int64_t since_ms; /* when it was taken */
    char host[48];    /* net_peer_of */
};

/* A free place; else the one to take away: of the address with the most places the oldest one.  n:
 * none, all are known; the newcomer has to wait. */
size_t net_places_find(const struct net_place *places, size_t n);
/* Takes a place, which must be free. */
void net_places_take(
    struct net_place *places, size_t n, size_t i, const char *host, int64_t now_ms);
/* From now on the place is not taken away.  The door bounds how long it may be kept. */
void net_places_know(struct net_place *places, size_t n, size_t i);
void net_places_leave(struct net_place *places, size_t n, size_t i);
