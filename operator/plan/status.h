/* Builds the job's complete status.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* A pod that has succeeded is gone or being deleted, and the stored status does not record its
 * success yet. */
bool plan_status_is_urgent(const struct plan_children *w);
/* The complete status; *ret_differs: it differs from the stored one in something that users see. */
json_t *plan_status_make(
    const struct plan_children *w, const struct plan_assessment *o, bool *ret_differs);
