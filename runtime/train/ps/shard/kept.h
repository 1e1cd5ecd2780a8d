/* The data that a trainer keeps with the servers for a restart (rt_keep): the last two pieces, each
 * of a step.  Two, because the newest step may never be completed, and the trainer then continues
 * from the one before.  Pure; belongs to the shard's thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHARD_KEPT_N = 2 };

struct shard_kept {
    uint64_t step;
    uint32_t bytes;
    unsigned char *data; /* owned; NULL: none */
};

/* Copies data.  Replaces the piece of the same step, else the older one. */
void shard_kept_put(
    struct shard_kept kept[SHARD_KEPT_N], uint64_t step, const unsigned char *data, uint32_t bytes);
/* The newest piece of that step or an earlier one; NULL: none. */
const struct shard_kept *shard_kept_find(const struct shard_kept kept[SHARD_KEPT_N], uint64_t step);
void shard_kept_clear(struct shard_kept kept[SHARD_KEPT_N]);
