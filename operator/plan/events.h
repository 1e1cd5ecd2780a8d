/* Builds the events of a job: what was done, and how its state changed.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

/* Adds the events about changes of the job's state to the plan. */
void op_events_phase(struct op_plan *plan, const struct op_world *w, const struct op_outlook *o);
