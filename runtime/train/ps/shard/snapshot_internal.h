/* What snapshot.c (when something is written) and snapshot_write.c (what is written) share. */
#pragma once

#include "runtime/train/ps/shard/snapshot.h"

/* Ends the running snapshot.  The saver is not notified: it knows if the part has failed. */
void shard_snapshot_give_up(struct shard_snapshot *s);

/* Hands a chunk to the saver; gives up if it takes none. */
void shard_snapshot_add(struct shard_snapshot *s, struct shard_save_chunk *c_own);
/* A row, from where it lies or from its slot, as the mode says. */
void shard_snapshot_write_body(struct shard_snapshot *s, uint32_t table, uint64_t id, void *body);
void shard_snapshot_write_row(struct shard_snapshot *s, uint32_t table, size_t slot);
/* n values of a block from `from` on, with their state. */
void shard_snapshot_write_values(
    struct shard_snapshot *s, uint32_t table, size_t block, size_t from, size_t n);
void shard_snapshot_write_rate(struct shard_snapshot *s, uint32_t table);
/* What a trainer keeps here for its restart. */
void shard_snapshot_write_kept(
    struct shard_snapshot *s, uint32_t trainer, const struct shard_kept *k);
/* Hands over the chunk of rows that is being filled, if any. */
void shard_snapshot_flush(struct shard_snapshot *s, uint32_t table);
