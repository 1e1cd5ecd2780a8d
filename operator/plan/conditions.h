/* Builds the conditions in a job's status.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

json_t *plan_conditions_make(const struct plan_children *w, const struct plan_assessment *o);
