/* The start gate's decision about a job: may its pods start?  It is the same for all pods of a job,
 * so it is computed once and cached until the job or its children change.  Owned by the loop's
 * thread.
 */
#pragma once

#include "operator/control/store.h"

/* One for each entry; zeroed: not computed yet. */
struct ctl_gate_state {
    bool known, open, over; /* computed; pods may start; the job has ended */
    const char *why;        /* what the pods wait for; static */
    char uid[64];           /* the job's */
};

/* Computes the decision from the entry and its decoded job. */
void ctl_gate_state_compute(struct ctl_gate_state *v, const struct ctl_entry *e,
    const struct api_job *job, const struct plan_settings *settings);
/* The answer for a pod of the decision's entry, whose job exists: 1 start, 0 wait (*ret_why:
 * static), -1 unknown uid, -2 the job is over.  Decodes the job if the decision is not known and
 * the text is in the cache; otherwise the answer is 0 until a reconcile has settled it.
 *
 * The store may lag, and -2 fails the pod, so it is given only where it cannot become wrong: to
 * pods owned by the very job that has ended.  A uid other than the stored one is most likely that
 * of a newer pod, and has to ask again. */
int ctl_gate_state_answer(struct ctl_gate_state *v, const struct ctl_stored *pod, const char *uid,
    const struct plan_settings *settings, const char **ret_why);
