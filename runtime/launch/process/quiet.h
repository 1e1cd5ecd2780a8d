/* Reports when no client has been connected to some TCP ports of this machine for a while.  When
 * launchers have no rendezvous, that is the only sign that the workers of other nodes do not need
 * this node's servers any more. */
#pragma once

#include "common/loop.h"

struct proc_quiet;

/* quiet(arg) runs once, when there has been no connection for quiet_ms.  used: a client was
 * connected before; else the wait begins only after the first connection.  ports is copied. */
struct proc_quiet *proc_quiet_new(struct co_loop *l, const uint16_t *ports, size_t n,
    int64_t quiet_ms, bool used, void (*quiet)(void *arg), void *arg);
void proc_quiet_free(struct proc_quiet *q); /* NULL allowed */
