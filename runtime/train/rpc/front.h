/* The front door: accepts connections and hands on those whose peer has proved that it knows the
 * job's token (greeting.h).  What strangers send reaches nothing else.
 *
 * Bounds: so many connections at a time may be unproven, each for a short while; when there are
 * more, the oldest one of the address that has the most goes.  Some of the process's descriptors
 * are left to others.  One thread of its own. */
#pragma once

#include <stdint.h>

#include "common/err.h"

struct rt_front;

struct rt_front_ops {
    /* fd is the callee's, non-blocking.  peer: "host:port". */
    void (*enter)(void *arg, int fd_own, const char *peer);
    void (*refuse)(void *arg, const char *peer, const struct co_err *why);
};

/* fd listens; it becomes the door's.  token is copied; NULL: none, which is as good as empty.
 * prove_ms: how long a peer may take; 0: 10 s.  Callbacks run on the door's thread. */
CO_MUST_CHECK int rt_front_open(int fd_own, const char *token, int prove_ms,
    const struct rt_front_ops *ops, void *arg, struct rt_front **ret, struct co_err *err);
/* Not from a callback; NULL allowed.  No callback runs any more. */
void rt_front_close(struct rt_front *f);
