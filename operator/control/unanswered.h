/* Status writes of one job that got no answer.  Such a write may have been applied: then the next
 * plan finds the new state stored, sees no transition, and would report none.  So what the write
 * was to report is kept until a version of the job shows which it is. */
#pragma once

#include "operator/plan/plan.h"

struct ctl_unanswered_write;

/* All of them were sent for the same stored version, so at most one was applied.  Zeroed: none. */
struct ctl_unanswered {
    struct ctl_unanswered_write *first; /* owned list */
    size_t n;
};

/* Notes the write of a plan's status for this version of the job; takes the status and the events
 * of the plan.  A status that is noted already is not noted twice. */
void ctl_unanswered_note(struct ctl_unanswered *u, const struct api_job *job, struct plan *plan);
/* True: the job's stored status is that of a noted write.  *ret gets its phase, status and events,
 * and *ret_from the phase before.  Forgets all writes then, and also if the job has changed
 * otherwise: they were not applied. */
bool ctl_unanswered_take(struct ctl_unanswered *u, const struct api_job *job, struct plan *ret,
    enum api_phase *ret_from);
void ctl_unanswered_clear(struct ctl_unanswered *u);
