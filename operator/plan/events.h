/* Builds the events of a job: what was done, and how its state changed.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* Adds the events about changes of the job's state to the plan. */
void plan_events_phase(
    struct plan *plan, const struct plan_children *w, const struct plan_assessment *o);
