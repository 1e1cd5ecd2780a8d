/* A pod's body: its template, and what makes it one of the job.  Pure. */
#pragma once

#include "operator/plan/plan.h"

json_t *op_object_pod(
    const struct op_job *job, enum op_role role, int32_t index, const struct op_settings *settings);
/* The same from that of another index: what does not tell the index is shared between them. */
json_t *op_object_pod_like(const json_t *like, const struct op_job *job, enum op_role role,
    int32_t index, const struct op_settings *settings);
/* What a pod's body takes in memory, roughly. */
size_t op_object_pod_bytes(const struct op_job *job, enum op_role role);
