/* The end of the handshake (handshake.h) that dials, on connections that were just made: with many
 * peers at the same time, in one poll loop, with one deadline for all.  Any thread. */
#pragma once

#include "runtime/net/handshake.h"

struct net_dial {
    int fd; /* connected, non-blocking; -1: skip this one, or it failed */
    unsigned char hello[NET_CALLER_BYTES];  /* what this end says of itself */
    unsigned char answer[NET_CALLER_BYTES]; /* what the other end has said */
    /* NULL before the call.  Afterwards, if the job encrypts and the other end let us in: TLS with
     * its handshake complete, owned by the caller. */
    struct co_tls *tls;
    enum net_refusal refusal; /* NET_REFUSAL_NONE: let in, or err says what else failed */
    /* The result.  Code 0: let in.  With a refusal, its sentence.  CO_TIMEOUT, CO_PEERLOST: worth
     * another try. */
    struct co_err err;
};

/* Returns at end_ms (co_now_ms) at the latest, or as soon as wake_fd is readable (-1: none), or
 * the program ends the wait (common/interrupt.h).  Connections that fail are closed. */
void net_dial_all(
    const struct net_auth *auth, struct net_dial *dials, size_t n, int64_t end_ms, int wake_fd);
