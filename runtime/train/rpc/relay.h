/* Encrypted connections for gRPC. gRPC wants a descriptor that it can read and write itself, so it
 * gets one end of a socket pair, and a thread here copies between the other end and TLS:
 *
 *     gRPC == pair of sockets == relay's thread == TLS == peer
 *
 * When gRPC closes its end, everything it wrote before is still sent (within LINGER_MS), and TLS
 * reports this end to the peer. When the peer closes, is cut off, or a byte was changed in transit,
 * gRPC reads end of file.
 *
 * Memory is bounded: nothing more is read from one side until the other side has taken what was
 * read before. */
#pragma once

#include "common/tls.h"

struct rpc_relay;

CO_MUST_CHECK int rpc_relay_open(struct rpc_relay **ret, struct co_err *err);
/* Waits until all connections have ended; after LINGER_MS it closes the rest. NULL is allowed. */
void rpc_relay_close(struct rpc_relay *r);

/* The relay owns fd_own and tls_own, even on failure. The caller owns *ret_fd, which is
 * non-blocking. Any thread may call it. */
CO_MUST_CHECK int rpc_relay_add(
    struct rpc_relay *r, int fd_own, struct co_tls *tls_own, int *ret_fd, struct co_err *err);
