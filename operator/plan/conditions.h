/* Builds the conditions in a job's status.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

json_t *op_conditions_make(const struct op_world *w, const struct op_outlook *o);
