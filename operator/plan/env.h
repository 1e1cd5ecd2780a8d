/* The environment of a job's containers: the data of its ConfigMap (addresses), and the variables
 * in each pod's body.  Pure. */
#pragma once

#include "operator/plan/children.h"

/* The data of the ConfigMap; NULL while an address is missing.  The caller owns it. */
json_t *plan_env_data(const struct plan_children *w);
/* Whether the ConfigMap has the data that it should have.  For one of an earlier version only the
 * addresses count: running containers have read the rest, and those that restart must read the
 * same.
 */
bool plan_env_published(const struct plan_children *w, const json_t *env);
/* Every pod in the spec exists, is not being deleted, and has an address. */
bool plan_env_addressed(const struct plan_children *w);
/* Appends a reference to the job's token, if the job has one and the list does not. */
void plan_env_token(const struct api_job *job, json_t *env);
/* Appends the direct variables to a container's env list; some go by the pod's spec. */
void plan_env_direct(const struct api_job *job, enum api_role role, int32_t index,
    const struct plan_settings *settings, const json_t *pod_spec, json_t *env);
/* The list ends with the direct variables of another pod of the role: replaces them by this pod's.
 */
void plan_env_direct_again(const struct api_job *job, enum api_role role, int32_t index,
    const struct plan_settings *settings, const json_t *pod_spec, json_t *env);
