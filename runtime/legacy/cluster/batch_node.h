/* One process of a batch system's job as a node of an 0.8 to 0.12 cluster: the first on its host
 * starts a server, each runs the training program with PADDLE_INIT_* in its environment.
 *
 * Ends with the program's exit code; a server runs until the trainers of all nodes have finished,
 * which is what makes it end.  One whose only trainer has ended without a word to it, and so waits
 * for ever, is stopped. */
#pragma once

#include "runtime/legacy/cluster/ranks.h"

struct cluster_node {
    struct cluster_rank rank;
    const char *servers; /* hosts, joined by commas */
    int64_t port, ports_num, ports_num_for_sparse;
    const char *pserver; /* program */
    const char *log_dir; /* pserver.log and train.log; "": this process's output */
    int64_t grace_ms;    /* SIGTERM -> SIGKILL */
    int64_t linger_ms;   /* for a server whose only trainer has ended with 0 */
    char *const *argv;   /* the training program */
};

/* Blocks.  The signals of proc_signals stop both, a second one at once; *ret_code is then 128 + the
 * first.  SIGUSR1 and SIGUSR2 are for the program.  It is set with an error, too: 127 or 126 where
 * a program cannot be started, else 1. */
CO_MUST_CHECK int cluster_node_run(const struct cluster_node *n, int *ret_code, struct co_err *err);
