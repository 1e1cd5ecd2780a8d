/* Ids that were erased, for the deltas of checkpoints: a list for each table, and a bound for all
 * lists of a shard.  With more ids than that a full checkpoint is less work.  Belongs to the
 * shard's thread. */
#pragma once

#include "runtime/train/ps/shard/save_chunk.h"
#include "runtime/train/ps/shard/shard.h"

enum { SHARD_ERASED_CHUNKS_MAX = 1024 }; /* of a list */

struct shard_erased {
    struct shard_save_chunk **chunks; /* of kind ERASED, held; ids are added to the last one */
    size_t n;
};

/* What all lists of a shard have of the memory for tables. */
struct shard_erased_room {
    struct table_budget *budget; /* NULL: no limit */
    size_t max, bytes;
};

struct shard_erased_room shard_erased_room(const struct shard_config *config);
/* False: there is no room. */
CO_MUST_CHECK bool shard_erased_add(struct shard_erased *e, struct shard_erased_room *room,
    uint32_t table, uint32_t shard, uint64_t id);
void shard_erased_clear(struct shard_erased *e, struct shard_erased_room *room);
/* Moves the ids of `other` to the end of e. */
void shard_erased_join(struct shard_erased *e, struct shard_erased *other);
