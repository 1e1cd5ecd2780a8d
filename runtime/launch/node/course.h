/* The course of a job on this node: the nodes' meeting, rounds of processes, signals, and the end,
 * which is the launcher's exit code.  Blocks until all is over; call from the main thread of a
 * process without other children. */
#pragma once

#include "runtime/launch/job/offer.h"
#include "runtime/launch/node/say.h"
#include "runtime/launch/process/ports.h"
#include "runtime/launch/process/tail.h"

struct rl_course_options {
    const struct rl_job *job;
    const struct rl_say *say;
    const struct rl_offer *own; /* of this node; NULL: the job needs none */
    const char *value;          /* ... as the others are told; or NULL */
    struct rl_ports *ports;     /* released before processes start */
    int argc;                   /* of the command, for whoever starts other nodes */
    char *const *argv;
};

struct rl_course_end {
    int code;                  /* the exit code */
    int signo;                 /* told to stop by it; 0: ended otherwise */
    char why[CO_ERR_MAX];      /* where code is not 0 */
    char log[RL_TAIL_MAX + 1]; /* the last len bytes of the process that failed, if one did */
    size_t len;
};

/* *ret is written only when the course began: an error is of the options, or of the machine. */
CO_MUST_CHECK int rl_course_run(
    const struct rl_course_options *options, struct rl_course_end *ret, struct co_err *err);
