/* Asks the operator whether training is over, on behalf of a pod with a parameter server.
 * PADDLE_TRAINING_END says where to ask; the operator's side is operator/control/gate_server.h.
 * Real servers never end by themselves, and without this the operator could only delete their pods,
 * and their logs with them. */
#pragma once

#include "common/loop.h"

enum {
    PROC_TRAINING_END_LEAVE_MS = 5000, /* for servers that end by themselves, before `over` */
    PROC_TRAINING_END_STOP_MS =
        20000, /* SIGTERM -> SIGKILL after `over`; all is less than --server-grace */
};

struct proc_training_end;

/* where: "host:port,…/path", one address per replica of the operator.  Returns NULL when there is
 * nothing to ask: where is NULL or "", or it is malformed, which *err then says.  over(arg) runs
 * once, PROC_TRAINING_END_LEAVE_MS after the operator reported the end, and may free the object.
 *
 * One request waits at the operator and is answered once a minute at the latest.  An operator that
 * does not answer is asked every few seconds. */
struct proc_training_end *proc_training_end_new(
    struct co_loop *l, const char *where, void (*over)(void *arg), void *arg, struct co_err *err);
void proc_training_end_free(struct proc_training_end *t); /* NULL allowed */
