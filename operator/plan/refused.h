/* What the API server rejects of a job, and what the job does about it: two jobs that have taken
 * half of a quota each would wait for each other forever, so a job that cannot be completed gives
 * its pods back after a while.  The oldest of the namespace keeps them longest.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* The first rejected request whose effect is missing: there is no object, one of an earlier attempt
 * still exists, or the ConfigMap is out of date.  NULL: none. */
const struct plan_failure *plan_refused_first(const struct plan_children *w, const json_t *env);
/* The job gives its pods back now: none has started, and too much time went by since the last one
 * was created.  Begins the next attempt, whose pods are created some time later. */
bool plan_refused_give_back(
    struct plan_assessment *o, const struct plan_children *w, const json_t *env);
