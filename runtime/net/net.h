/* Small socket helpers: is an endpoint reachable, what address to listen on.  Knows nothing of
 * what is spoken there.  Any thread; name resolution blocks as long as the resolver does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

int64_t net_now(void); /* monotonic milliseconds */

struct net_reached {
    bool ok;
    char address[64]; /* numeric "ip:port" that accepted */
};

/* Tries to connect to all endpoints ("host:port") at once, to each at up to four of its
 * addresses; ret[i] tells whether i accepted within timeout_ms, and where.  Returns the number
 * that did.  Connections are closed again. */
size_t net_probe(const char *const *endpoints, size_t n, int timeout_ms, struct net_reached *ret);

/* What a server that others reach as `endpoint` listens on: the same address when this machine
 * has it, else (the name of a Service, an address outside) all addresses of the machine. */
CO_MUST_CHECK int net_listen_address(
    const char *endpoint, char *ret_text, size_t size, struct co_err *err);
