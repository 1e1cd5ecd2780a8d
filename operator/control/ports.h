/* The ports of jobs in Host mode: pods of different jobs may share a node, so no two live jobs of
 * an operator hold the same ones.  Owned by the loop's thread. */
#pragma once

#include "operator/control/shard.h"
#include "operator/control/store.h"

/* Settles what the entry's job holds, before each plan for it, and tells the planner what others
 * hold when it is to choose.  Returns what seen borrows then, to be freed after the plan; NULL:
 * nothing. */
uint16_t *op_ports_settle(const struct op_store *s, struct op_entry *e,
    const struct op_shard_id *shard, const struct op_job *job, struct op_seen *seen);
