/* The front door of a process: accepts connections, and hands on those whose peer has proved that
 * it knows the job's token (handshake.h).  Bytes from strangers reach no other code.
 *
 *     listener ---> pending connections, in slots ---> enter()
 *                     |    ^-- hello, answer, proof, welcome, [TLS handshake]
 *                     +--> refuse(), and the connection is closed
 *
 * Everything is bounded.  NET_PENDING connections may be pending at a time, each with a fixed
 * number of bytes and one deadline, which a trickle does not extend.  The kernel keeps back who
 * connects and says nothing (net_listen).  One more than there are slots displaces the oldest of
 * the address that has the most (slots.h), but none whose hello was right; when all are of those,
 * newcomers wait in the kernel.  64 of the process's descriptors stay free for everything else.
 *
 * A hello is answered in three steps: its form; `look`, which says what its bytes mean and may hand
 * the connection to another acceptor of the same listener; whether it was made with the token.
 * When the proof was right as well, `look` is asked again, because much may have changed meanwhile.
 *
 * On a unix socket the peer must be of the same user or root.
 *
 * An acceptor is its thread's, but for net_acceptor_hand. */
#pragma once

#include "runtime/net/handshake.h"
#include "runtime/net/net.h"

enum { NET_PENDING = 128 };

struct net_acceptor;

/* A connection whose peer has not proved the token yet. */
struct net_pending {
    int fd;        /* -1: free slot */
    uint32_t have; /* bytes of the hello, then of the proof */
    struct net_handshake shake;
    unsigned char proof[NET_PROOF_BYTES];
    struct co_tls *tls; /* owned; the token is proved, and the TLS handshake is in progress */
    struct net_peer from;
};

struct net_acceptor_ops {
    /* What the hello's bytes mean: NET_REFUSAL_NONE, one of the protocol's own, or NET_HANDED.
     * ret_answer, zeroes before, is what this end says of itself.  proved: its sender knows the
     * token.  If not, the connection is refused whatever is returned, but with the refusal. */
    enum net_refusal (*look)(void *arg, const struct net_pending *p, bool proved,
        unsigned char ret_answer[NET_CALLER_BYTES]);
    /* The callee owns fd, which is non-blocking, and tls, whose handshake is complete (NULL: no
     * encryption).  caller: of the hello. */
    void (*enter)(void *arg, int fd_own, struct co_tls *tls_own, const struct net_peer *from,
        const unsigned char caller[NET_CALLER_BYTES]);
    /* Is called for each refusal.  Peers that only hang up, as port probes do, are none.  caller:
     * of the hello, which anybody may have made; NULL: there is none of this version. */
    void (*refuse)(void *arg, const struct net_peer *from, const unsigned char *caller,
        enum net_refusal refusal, const struct co_err *why);
};

/* fd listens and is non-blocking; it stays the caller's, as do auth and ops.  prove_ms: how long a
 * peer may take for all; 0: 10 s.  Any number of acceptors may share a listener. */
CO_MUST_CHECK int net_acceptor_open(int fd, const struct net_auth *auth, int prove_ms,
    const struct net_acceptor_ops *ops, void *arg, struct net_acceptor **ret, struct co_err *err);
/* Closes pending connections.  NULL is allowed. */
void net_acceptor_close(struct net_acceptor *a);
/* Accepts until net_acceptor_stop is called (0), end_ms has passed (CO_TIMEOUT), or wake_fd is
 * readable (CO_CANCELED). */
CO_MUST_CHECK int net_acceptor_run(struct net_acceptor *a, int wake_fd, int64_t end_ms);
/* For callbacks of a. */
void net_acceptor_stop(struct net_acceptor *a);
/* For `look`: gives the connection to another acceptor, which must stay open meanwhile; then `look`
 * returns NET_HANDED.  False: it has no room. */
bool net_acceptor_hand(struct net_acceptor *to, const struct net_pending *p);

/* listener.c: an acceptor with a thread of its own, on which its callbacks run.  Owns fd. */
struct net_listener;
CO_MUST_CHECK int net_listener_open(int fd_own, const struct net_auth *auth, int prove_ms,
    const struct net_acceptor_ops *ops, void *arg, struct net_listener **ret, struct co_err *err);
/* Not for callbacks, none of which runs after it returns.  NULL is allowed. */
void net_listener_close(struct net_listener *l);
