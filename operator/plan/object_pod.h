/* Builds the body of a pod: its role's template, and what the operator adds.  Pure. */
#pragma once

#include "operator/plan/plan.h"

/* tmpl: the role's template, or the one that the attempt began with. */
json_t *plan_object_pod(const struct api_job *job, const json_t *tmpl, enum api_role role,
    int32_t index, const struct plan_settings *settings);
/* The same, made from the body of another index.  Parts that do not depend on the index are shared,
 * which saves time and memory. */
json_t *plan_object_pod_like(const json_t *like, const struct api_job *job, enum api_role role,
    int32_t index, const struct plan_settings *settings);
/* An estimate of the memory that a body with this template takes, in bytes. */
size_t plan_object_pod_bytes(const json_t *tmpl);
