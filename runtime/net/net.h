/* Small socket helpers: connections to many endpoints, what address to listen on.  Knows nothing of
 * what is spoken there.  Any thread; name resolution blocks as long as the resolver does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

int64_t net_now(void); /* monotonic milliseconds */

struct net_reached {
    int fd;           /* connected, non-blocking, the caller's; -1: nobody accepted */
    char address[64]; /* numeric "ip:port" that accepted */
};

/* Connects to all endpoints ("host:port") at once, to each at up to four of its addresses, of which
 * the first that accepts within timeout_ms is kept in ret[i].  Returns how many endpoints did. */
size_t net_connect(const char *const *endpoints, size_t n, int timeout_ms, struct net_reached *ret);

/* What a server that others reach as `endpoint` listens on: the same address when this machine
 * has it, else (the name of a Service, an address outside) all addresses of the machine. */
CO_MUST_CHECK int net_listen_address(
    const char *endpoint, char *ret_text, size_t size, struct co_err *err);

/* Who is at the other end of a connection; "" where that is not known. */
struct net_peer {
    char host[48]; /* numeric; an IPv4 address in its own form */
    char text[64]; /* "host:port" */
};
void net_peer_of(int fd, struct net_peer *ret);
