/* What is told of a job as events.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

void op_events_phase(struct op_plan *plan, const struct op_world *w, const struct op_outlook *o);
