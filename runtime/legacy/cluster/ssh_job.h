/* A `cluster_train` job from start to end: one ssh session a host, all of them at once.
 *
 * Copies the package, starts all servers, then all trainers, and ends when training has: with 0
 * when every trainer ended well, else with the first failure's exit code, the host's name and
 * the last lines of its log.  SIGINT and SIGTERM stop the job on every host; so does the death
 * of this process, as the sessions then end.  Says on stdout what happens. */
#pragma once

#include "runtime/legacy/cluster/host_script.h"

/* Blocks.  Call from the main thread; changes the disposition of SIGPIPE. */
CO_MUST_CHECK int cluster_run(const struct cluster_conf *conf,
    const struct cluster_options *options, int *ret_code, struct co_err *err);
