/* `paddlerun exec -- PROGRAM...`: a container's first process (PID 1).  It runs one program,
 * forwards signals to its process group, reaps orphaned processes, ends when the program has ended,
 * kills what is left, and exits with the program's code.
 *
 * When the program fails, the last lines of its stderr go into the container's termination log,
 * which Kubernetes shows in the pod's status; when it ended as a signal to this process asked, only
 * which signal.  A parameter server is ended when the operator reports that training is over
 * (training_end.h); that counts as success. */
#pragma once

#include <stdint.h>

#include "common/err.h"

struct proc_first_options {
    int64_t grace_ms;            /* SIGTERM -> SIGKILL for processes that are left */
    const char *termination_log; /* NULL: PROC_TERMINATION_LOG; used when it is there and empty */
    const char *training_end; /* where to ask, see training_end.h; NULL: the end is not reported */
};

/* Blocks until the program and its children have ended.  *ret_code: the program's exit code; 0 when
 * it was ended because training is over; 128 + signal when it was killed; 127 or 126 when it could
 * not be started, with the reason in *err.  Leaves all signals blocked, so the caller must exit. */
void proc_first_run(char *const argv[], const struct proc_first_options *options, int *ret_code,
    struct co_err *err);
