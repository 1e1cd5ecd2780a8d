/* The front door of a parameter server: an acceptor (runtime/net/acceptor.h) with a thread of its
 * own.  It accepts connections and hands on those whose peer has proved the job's token, so bytes
 * from strangers reach no other code. */
#pragma once

#include <stdint.h>

#include "runtime/train/rpc/connect.h"

struct rpc_front;

struct rpc_front_ops {
    /* The callee owns fd, which is non-blocking, and tls, whose handshake is complete (NULL: no
     * encryption). peer: "host:port". pass: what the connection is for. */
    void (*enter)(void *arg, int fd_own, struct co_tls *tls_own, const char *peer,
        const struct rpc_pass *pass);
    void (*refuse)(void *arg, const char *peer, const struct co_err *why);
};

/* fd listens; the door owns it. auth is copied. prove_ms: how long a peer may take for the
 * handshake, that of TLS included; 0: 10 s. Callbacks run on the door's thread. */
CO_MUST_CHECK int rpc_front_open(int fd_own, const struct rpc_peer_auth *auth, int prove_ms,
    const struct rpc_front_ops *ops, void *arg, struct rpc_front **ret, struct co_err *err);
/* Must not be called from a callback. NULL is allowed. No callback runs after it returns. */
void rpc_front_close(struct rpc_front *f);
