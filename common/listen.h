/* Opens listening TCP sockets. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"
#include "common/mem.h"

/* addr: "0.0.0.0:8080", "[::1]:8080", "localhost:8080"; ":8080" is all families in one socket; port
 * 0 is any.  The caller owns the socket, which is non-blocking and CLOEXEC.  CO_UNAVAILABLE: the
 * address is in use, by whom where that can be found out; CO_INVALID: it is not an address; the
 * message names it.  Resolving a host name blocks, and who has a port takes a walk over /proc: with
 * err NULL nobody is looked for. */
CO_MUST_CHECK int co_listen(const char *addr, int *ret_fd, struct co_err *err);
/* For ports that others know already: they may lie among those that the kernel gives to outgoing
 * connections, most of which end soon.  Tries again for so long, and blocks meanwhile. */
CO_MUST_CHECK int co_listen_within(const char *addr, int64_t ms, int *ret_fd, struct co_err *err);
enum { CO_LISTEN_MS = 5000 };
/* Whether the address, whatever its port, is one of this machine's: only then a socket can be bound
 * to it. */
bool co_listen_is_local(const struct sockaddr *addr, socklen_t len);
uint16_t co_listen_port(int fd);
