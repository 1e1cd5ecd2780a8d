/* The few fields of a job that the store needs at every event, read without decoding the whole job:
 * the text of a job with a thousand pods is 200 KB.  Pure. */
#pragma once

#include "common/json/jdoc.h"
#include "operator/api/job.h"

struct api_job_head { /* strings are borrowed from the nodes */
    const char *ns;   /* "" when absent */
    const char *name;
    const char *version; /* or NULL */
    const char *uid;     /* "" when absent */
    int64_t created;     /* creationTimestamp, seconds; 0 when unknown */
    enum api_phase phase;
    bool started;   /* has a startTime */
    bool elsewhere; /* spec.managedBy names another controller */
    bool deleting;
    bool trained; /* its training is over: Completed, or those that decide are done */
};

/* CO_INVALID when it has no name. */
CO_MUST_CHECK int api_job_head_read(
    const struct co_jnode *job, struct api_job_head *ret, struct co_err *err);
