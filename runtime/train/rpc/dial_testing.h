/* Connections to a parameter server, as trainers open them. */
#pragma once

#include "runtime/net/dial.h"
#include "runtime/net/net.h"
#include "runtime/train/rpc/rpc.h"

/* Proves the token on a connection that was just made; the result's err and fd say how that ended.
 */
static inline struct net_dial rpc_prove(
    int fd_own, const struct net_auth *auth, const struct rpc_pass *pass, int timeout_ms) {
    struct net_dial d = {.fd = fd_own};
    rpc_pass_write(pass, d.hello);
    net_dial_all(auth, &d, 1, co_now_ms() + timeout_ms, -1);
    return d;
}

/* Connects, proves the token, and opens a stream. */
static inline int rpc_dial(struct rpc *r, const struct net_auth *auth, const char *endpoint,
    int timeout_ms, struct rpc_stream **ret_stream, struct co_err *err) {
    struct net_reached reached;
    if (net_connect(&endpoint, 1, timeout_ms, &reached) == 0) {
        return co_err_set(err, CO_PEERLOST, "nothing listens at %s", endpoint);
    }
    struct rpc_pass pass = {RPC_FOR_STREAM, 0, 0, 0};
    struct net_dial d = rpc_prove(reached.fd, auth, &pass, timeout_ms);
    if (d.err.code) {
        return co_err_set(err, d.err.code, "%s: %s", endpoint, co_err_text(&d.err));
    }
    return rpc_adopt(r, d.fd, d.tls, endpoint, NULL, ret_stream, err);
}
