/* Flags of `paddle pserver` as Paddle 0.8 to 0.12 had them; rows in flags.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/flag.h"

struct pserver_options {
    int64_t port, ports_num, ports_num_for_sparse;
    int64_t num_gradient_servers; /* trainers */
    int64_t num_threads;
    const char *nics, *rdma_tcp, *comment;
    const char *log_dir; /* of glog, "" for stderr */
};

extern const struct co_flag pserver_flags[];
extern const size_t pserver_n_flags;
extern struct pserver_options pserver_options;

/* gflags also takes --noX and underscores only; turns argv's --noX into --X=false.  Edits the
 * array, not its strings. */
void pserver_argv(int argc, char **argv);
