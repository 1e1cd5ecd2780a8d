/* Jobs whose addresses are listed, in the command or in the environment: who is where, and which of
 * them this node is.
 *
 * Each sets a job's way, its hosts and what goes with them.  Pure.  CO_INVALID: one line. */
#pragma once

#include "runtime/launch/job/job.h"

/* RT_WAY_ENDPOINTS; RT_WAY_ALONE for one host; RT_WAY_MEET for hosts without ports.  name: of the
 * variable whose value text is. */
CO_MUST_CHECK int rt_way_endpoints(
    struct rt_job *j, const char *name, const char *text, struct co_err *err);
/* RT_WAY_IPS, by --ips. */
CO_MUST_CHECK int rt_way_ips(struct rt_job *j, struct co_err *err);
/* RT_WAY_LISTS, by --servers, trainers_id (RT_OPT_TRAINERS or RT_OPT_WORKERS) and
 * --heter_workers. */
CO_MUST_CHECK int rt_way_lists(struct rt_job *j, enum rt_option trainers_id, struct co_err *err);
