/* What a container's first process owes: run one program, hand signals on to its process group,
 * reap whoever becomes its child, end when the program has ended and leave nobody behind, and
 * pass its exit code on.  `paddlerun exec -- PROGRAM...`
 *
 * Also says why: when the program fails, the last lines of its stderr go into the container's
 * termination log, which Kubernetes shows in the pod's status.  Knows nothing of training. */
#pragma once

#include <stdint.h>

#include "common/err.h"

struct rl_first_options {
    int64_t grace_ms;            /* SIGTERM -> SIGKILL for those left behind; 0: 5 s */
    const char *termination_log; /* NULL: RL_TERMINATION_LOG; used when it is there and empty */
};

/* Blocks until the program and its children are gone.  *ret_code: its exit code, 128 + signal
 * when it was killed, 127 or 126 when it could not be started, which *err then tells, too.
 * Leaves all signals blocked: the caller ends. */
void rl_first_run(
    char *const argv[], const struct rl_first_options *options, int *ret_code, struct co_err *err);
