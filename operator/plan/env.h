/* What a job's containers are told: the values of its ConfigMap, by address, and what a pod's body
 * says directly.  Pure. */
#pragma once

#include "operator/plan/world.h"

/* Data of the ConfigMap, NULL while an address is missing.  The caller owns it. */
json_t *op_env_data(const struct op_world *w);
/* True when the ConfigMap says what it should.  One that an earlier version made is right while its
 * addresses are: the containers of that job have read the rest of it, and those that start again
 * must read the same. */
bool op_env_published(const struct op_world *w, const json_t *env);
/* Every pod that is asked for is there, not dying, and has an address. */
bool op_env_addressed(const struct op_world *w);
/* Appends the job's token by reference, if there is to be one and the list has none. */
void op_env_token(const struct op_job *job, json_t *env);
/* Appends the direct variables to a container's env list. */
void op_env_direct(const struct op_job *job, enum op_role role, int32_t index,
    const struct op_settings *settings, json_t *env);
/* The list ends in those of another pod of the role: now they are this one's. */
void op_env_direct_again(const struct op_job *job, enum op_role role, int32_t index,
    const struct op_settings *settings, json_t *env);
