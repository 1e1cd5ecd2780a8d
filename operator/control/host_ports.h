/* Allocates the host ports of jobs in Host mode.  Pods of different jobs may share a node, so no
 * two live jobs of an operator have the same ports.  Owned by the loop's thread. */
#pragma once

#include "operator/control/shard.h"
#include "operator/control/store.h"

/* To be called before each plan: sets e->port to what the entry's job has or will get, and seen's
 * list of taken ports if the planner is to choose one.  Returns that list, which seen borrows and
 * the caller frees after the plan; or NULL. */
uint16_t *ctl_ports_settle(const struct ctl_store *s, struct ctl_entry *e,
    const struct ctl_shard_id *shard, const struct api_job *job, struct plan_seen *seen);
