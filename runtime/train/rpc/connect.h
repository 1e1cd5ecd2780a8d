/* The dialling side of the front door: proves the token on connections that were just made. */
#pragma once

#include <stddef.h>

#include "runtime/train/rpc/greeting.h"

struct rpc_connect {
    int fd; /* connected, non-blocking; -1: skip this one, or it failed */
    /* NULL before the call. Afterwards, if the job encrypts and the server let us in: TLS with its
     * handshake complete, owned by the caller. */
    struct co_tls *tls;
    struct rpc_pass pass;
    /* The result. Code 0: let in. CO_PERMISSION: the tokens differ. CO_INVALID: the peer is no
     * parameter server, has another version, or does not agree about encryption. CO_TIMEOUT,
     * CO_PEERLOST: worth another try. */
    struct co_err err;
};

/* Greets all servers at the same time; returns within timeout_ms. Connections that fail are closed.
 */
void rpc_connect_all(
    struct rpc_connect *attempts, size_t n, const struct rpc_peer_auth *auth, int timeout_ms);
