/* The run policy: what pods that failed or were taken away mean for their group, and what is due
 * when.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

/* What a failed pod means: the job fails or its group is restarted. */
void op_policy_failed(struct op_outlook *o, const struct op_world *w, const struct op_pod *pod);
/* A pod of the group was taken away while others run: a restart; else false. */
bool op_policy_lost(struct op_outlook *o, const struct op_world *w);
void op_policy_suspend(struct op_outlook *o, const struct op_world *w);
/* The job takes longer than it may: it fails. */
void op_policy_deadline(struct op_outlook *o, const struct op_world *w);
/* Puts into a status what restarts, suspension and deadline need to be remembered. */
void op_policy_remember(json_t *status, const struct op_world *w, const struct op_outlook *o);
/* Reads what was remembered of restarts into o. */
void op_policy_recall(struct op_outlook *o, const struct op_world *w);
/* A job whose pods still run though nobody waits for them any more. */
bool op_policy_stops_rest(const struct op_job *job);
