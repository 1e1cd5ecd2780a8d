/* Builds the conditions in a job's status.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

json_t *plan_conditions_make(const struct plan_world *w, const struct plan_outlook *o);
