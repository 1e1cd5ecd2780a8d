/* Opening a trainer's side without a struct rt_job: what rt_client_open does after it has read
 * who it is.  For tests and for the in-process server. */
#pragma once

#include "runtime/rt.h"

struct psc_client_config {
    uint32_t trainer, trainers, servers;
    const char *const *endpoints; /* [servers] */
    const char *job, *token;
    bool encrypt;   /* all connections; with a token only */
    size_t window;  /* bytes asked of a server and not yet answered; 0: 32 MiB */
    size_t backlog; /* see rpc_options */
};

CO_MUST_CHECK int psc_client_connect(const struct psc_client_config *config,
    const struct rt_client_options *options, const struct rt_table_spec *specs, size_t n_specs,
    struct rt_client **ret_client, struct co_err *err);
