#include "runtime/train/ps/shard/erased.h"

#include "common/bytes.h"
#include "runtime/train/ckpt/part.h"

enum {
    CHUNK_BYTES = 32 << 10,
    /* All lists of all shards have 1 / SHARE of the budget.  So many chunks of a table are always
     * allowed: */
    SHARE = 32,
    CHUNKS_FEW = 4,
};

struct shard_erased_room shard_erased_room(const struct shard_config *config) {
    size_t few = (size_t)CHUNKS_FEW * CHUNK_BYTES * config->n_tables;
    size_t share = config->budget ? config->budget->max / SHARE / config->shards : SIZE_MAX;
    return (struct shard_erased_room){.budget = config->budget, .max = share > few ? share : few};
}

static bool take_room(struct shard_erased_room *room) {
    bool fits = CHUNK_BYTES <= room->max - room->bytes;
    if (fits) {
        table_budget_count(room->budget, CHUNK_BYTES);
        room->bytes += CHUNK_BYTES;
    }
    return fits;
}

void shard_erased_clear(struct shard_erased *e, struct shard_erased_room *room) {
    for (size_t i = 0; i < e->n; i++) {
        shard_save_chunk_drop(e->chunks[i]);
        table_budget_give(room->budget, CHUNK_BYTES);
        room->bytes -= CHUNK_BYTES;
    }
    free(e->chunks);
    *e = (struct shard_erased){0};
}

static void push_chunk(struct shard_erased *e, struct shard_save_chunk *c) {
    e->chunks = co_xrealloc(e->chunks, e->n + 1, sizeof(struct shard_save_chunk *));
    e->chunks[e->n++] = c;
}

void shard_erased_join(struct shard_erased *e, struct shard_erased *other) {
    for (size_t i = 0; i < other->n; i++) {
        push_chunk(e, other->chunks[i]);
    }
    free(other->chunks);
    *other = (struct shard_erased){0};
}

bool shard_erased_add(struct shard_erased *e, struct shard_erased_room *room, uint32_t table,
    uint32_t shard, uint64_t id) {
    struct shard_save_chunk *c = e->n > 0 ? e->chunks[e->n - 1] : NULL;
    /* A chunk that the saver may still read must not change. */
    if (!c || c->head.bytes == c->room || __atomic_load_n(&c->holders, __ATOMIC_ACQUIRE) > 1) {
        if (e->n == SHARD_ERASED_CHUNKS_MAX || !take_room(room)) {
            return false;
        }
        c = shard_save_chunk_new(CKPT_PART_ERASED, CHUNK_BYTES);
        c->head.table = table;
        c->head.shard = shard;
        push_chunk(e, c);
    }
    co_put_u64(c->data + c->head.bytes, id);
    c->head.bytes += sizeof(id);
    c->head.items++;
    return true;
}
