/* When the stored status came into the state that an Event reports.  An Event is written after the
 * status, so a lease holder that dies in between leaves a status that nobody reports.  The next
 * holder reports the latest states again: the Event's name is made from job, reason and time, so
 * that the API server rejects it where it exists.  Pure. */
#pragma once

#include "operator/plan/children.h"

struct plan_transition {
    const char *reason;  /* of the Event */
    const char *message; /* of the condition; "" when absent */
    int64_t at;          /* seconds */
    uint64_t id;         /* the same as long as the status says the same */
};

/* What an Event with this reason reports of a status; false: nothing, or it has no time. */
bool plan_transition_of(const struct api_job *job, const json_t *status, const char *reason,
    struct plan_transition *ret);
/* The states that were stored shortly before this lease holder began, and that it has not reported
 * yet, the oldest first; returns how many. */
enum { PLAN_TRANSITIONS_MAX = 16 };
size_t plan_transitions_unreported(
    const struct plan_children *w, struct plan_transition ret[PLAN_TRANSITIONS_MAX]);
