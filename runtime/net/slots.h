/* The slots of a front door: connections whose peers have not proved yet who they are, so that
 * anybody may have opened them.  Decides whose slot a newcomer gets when all are taken, so that
 * strangers displace each other and not those that the door is for.
 *
 * Pure: no sockets, no clock.  The door keeps an array of slots, and beside each what it knows of
 * the connection there.  Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_slot {
    bool taken;
    bool known;       /* it has shown that it is no stranger, and is not displaced any more */
    uint32_t mates;   /* taken slots of the same address that are not known, itself included */
    int64_t since_ms; /* when it was taken */
    char host[48];    /* net_peer_of */
};

/* A free slot; else the one to take away: of the address with the most slots the oldest one.  n:
 * none, all are known; the newcomer has to wait. */
size_t net_slots_find(const struct net_slot *slots, size_t n);
/* Takes a slot, which must be free. */
void net_slots_take(struct net_slot *slots, size_t n, size_t i, const char *host, int64_t now_ms);
/* From now on the slot is not taken away.  The door bounds how long it may be kept. */
void net_slots_know(struct net_slot *slots, size_t n, size_t i);
void net_slots_leave(struct net_slot *slots, size_t n, size_t i);
