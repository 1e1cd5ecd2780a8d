/* What the start gate says to the pods of a job.  All pods of a job are told the same, so it is
 * found out once and kept until something of the job changes.  Owned by the loop's thread. */
#pragma once

#include "operator/control/store.h"

/* An entry's; zeroed: to be found out. */
struct op_verdict {
    bool known, open, over;
    const char *why; /* static */
    char uid[64];    /* the job's */
};

/* By the entry's job; for one that is not at hand whoever reads it settles this. */
void op_verdict_settle(struct op_verdict *v, const struct op_entry *e, const struct op_job *job,
    const struct op_settings *settings);
/* For a pod of the verdict's entry, whose job exists: 1 go, 0 wait (*ret_why: static), -1 the pod
 * of that uid is not known, -2 its job is over.  What is known may be behind, and a gate that is
 * refused fails its pod: another uid is most likely a newer pod's, as one that has a successor is
 * gone and asks no more; that a job is over never changes, and counts for its own pods only. */
int op_verdict_for(struct op_verdict *v, const struct op_stored *pod, const char *uid,
    const struct op_settings *settings, const char **ret_why);
