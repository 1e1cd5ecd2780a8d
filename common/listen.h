/* A TCP socket that listens. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

#include <stdint.h>

/* addr: "0.0.0.0:8080", "[::1]:8080", "localhost:8080", ":8080" = all families in one socket; port
 * 0 = any.  The socket is the caller's, non-blocking and CLOEXEC.  CO_UNAVAILABLE when the address
 * is taken, CO_INVALID when it is none, named in the message.  A host name that is no address is
 * looked up, blocking. */
CO_MUST_CHECK int co_listen(const char *addr, int *ret_fd, struct co_err *err);
uint16_t co_listen_port(int fd);
