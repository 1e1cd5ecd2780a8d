/* Jobs whose addresses are listed in the command or in the environment: reads the lists and finds
 * this node in them.  Each function sets the job's way, its hosts and their ports.  Pure.
 * CO_INVALID: a message of one line. */
#pragma once

#include "runtime/launch/job/job.h"

/* An address as it is, also of "[v6]", as people write it who write "[v6]:port" elsewhere.  The
 * caller frees it. */
char *job_host_bare(const char *host);
/* Sets JOB_DISCOVERY_ENDPOINTS; JOB_DISCOVERY_ALONE for one host; JOB_DISCOVERY_MEET for hosts
 * without ports.  text: the value of the variable `name`. */
CO_MUST_CHECK int job_discovery_endpoints(
    struct job *j, const char *name, const char *text, struct co_err *err);
/* Sets JOB_DISCOVERY_IPS.  text: the value of --ips, or of the variable `name`. */
CO_MUST_CHECK int job_discovery_ips(
    struct job *j, const char *name, const char *text, struct co_err *err);
/* Sets JOB_DISCOVERY_LISTS from --servers, trainers_id (OPTIONS_OPT_TRAINERS or
 * OPTIONS_OPT_WORKERS) and
 * --heter_workers. */
CO_MUST_CHECK int job_discovery_lists(
    struct job *j, enum options_option trainers_id, struct co_err *err);
