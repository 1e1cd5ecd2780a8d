/* Builds the body of a pod: its role's template, and what the operator adds.  Pure. */
#pragma once

#include "operator/plan/plan.h"

/* tmpl: the role's template, or the one that the attempt began with. */
json_t *op_object_pod(const struct op_job *job, const json_t *tmpl, enum op_role role,
    int32_t index, const struct op_settings *settings);
/* The same, made from the body of another index.  Parts that do not depend on the index are shared,
 * which saves time and memory. */
json_t *op_object_pod_like(const json_t *like, const struct op_job *job, enum op_role role,
    int32_t index, const struct op_settings *settings);
/* An estimate of the memory that a body with this template takes, in bytes. */
size_t op_object_pod_bytes(const json_t *tmpl);
