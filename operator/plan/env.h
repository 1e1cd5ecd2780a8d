/* The environment of a job's containers: the data of its ConfigMap (addresses), and the variables
 * in each pod's body.  Pure. */
#pragma once

#include "operator/plan/world.h"

/* The data of the ConfigMap; NULL while an address is missing.  The caller owns it. */
json_t *op_env_data(const struct op_world *w);
/* Whether the ConfigMap has the data that it should have.  For one of an earlier version only the
 * addresses count: running containers have read the rest, and those that restart must read the
 * same.
 */
bool op_env_published(const struct op_world *w, const json_t *env);
/* Every pod in the spec exists, is not being deleted, and has an address. */
bool op_env_addressed(const struct op_world *w);
/* Appends a reference to the job's token, if the job has one and the list does not. */
void op_env_token(const struct op_job *job, json_t *env);
/* Appends the direct variables to a container's env list; some go by the pod's spec. */
void op_env_direct(const struct op_job *job, enum op_role role, int32_t index,
    const struct op_settings *settings, const json_t *pod_spec, json_t *env);
/* The list ends with the direct variables of another pod of the role: replaces them by this pod's.
 */
void op_env_direct_again(const struct op_job *job, enum op_role role, int32_t index,
    const struct op_settings *settings, const json_t *pod_spec, json_t *env);
