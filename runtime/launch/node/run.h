/* Runs a job on this node from beginning to end: the rendezvous of the nodes, rounds of
 * processes, signals, and the exit code.  It decides; processes.h has the processes, rendezvous.h
 * the other nodes, log_lines.h the log lines.
 *
 * It blocks until the job is over.  Call it from the main thread of a process without other
 * children. */
#pragma once

#include "runtime/launch/job/offer.h"
#include "runtime/launch/node/launcher_log.h"
#include "runtime/launch/process/ports.h"
#include "runtime/launch/process/tail.h"

struct node_run_options {
    const struct job *job;
    const struct node_log *say;
    const struct job_offer *own; /* this node's endpoints; NULL: the job needs none */
    const char *value;           /* the same as the JSON for other nodes; or NULL */
    struct proc_ports *ports;    /* released before processes start */
    int argc;                    /* of the command, to be printed for the user's other nodes */
    char *const *argv;
};

struct node_run_end {
    int code;                    /* the exit code */
    int signo;                   /* the signal that stopped the job; 0: it ended otherwise */
    char why[CO_ERR_MAX];        /* set when code is not 0 */
    char log[PROC_TAIL_MAX + 1]; /* the last whole lines of the failed process, if one failed */
    size_t len;
};

/* Returns an error when the job could not begin, because of the options or the machine; *ret is not
 * written then. */
CO_MUST_CHECK int node_run_job(
    const struct node_run_options *options, struct node_run_end *ret, struct co_err *err);
