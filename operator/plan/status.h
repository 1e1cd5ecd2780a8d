/* The status that a plan writes.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

/* A pod that has succeeded goes or is gone, and the job's status does not say yet that it has. */
bool op_status_is_urgent(const struct op_world *w);
/* The complete status; *ret_differs: something a user sees is not as stored. */
json_t *op_status_make(const struct op_world *w, const struct op_outlook *o, bool *ret_differs);
