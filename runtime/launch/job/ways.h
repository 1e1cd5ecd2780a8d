/* Jobs whose addresses are listed, in the command or in the environment: who is where, and which of
 * them this node is.
 *
 * Each sets a job's way, its hosts and what goes with them.  Pure.  CO_INVALID: one line. */
#pragma once

#include "runtime/launch/job/job.h"

/* RL_WAY_ENDPOINTS; RL_WAY_ALONE for one host; RL_WAY_MEET for hosts without ports.  name: of the
 * variable whose value text is. */
CO_MUST_CHECK int rl_way_endpoints(
    struct rl_job *j, const char *name, const char *text, struct co_err *err);
/* RL_WAY_IPS, by --ips. */
CO_MUST_CHECK int rl_way_ips(struct rl_job *j, struct co_err *err);
/* RL_WAY_LISTS, by --servers, trainers_id (RL_OPT_TRAINERS or RL_OPT_WORKERS) and
 * --heter_workers. */
CO_MUST_CHECK int rl_way_lists(struct rl_job *j, enum rl_option trainers_id, struct co_err *err);
