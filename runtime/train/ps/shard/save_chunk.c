#include "runtime/train/ps/shard/save_chunk.h"

#include <string.h>

#include "common/mem.h"

struct shard_save_chunk *shard_save_chunk_new(uint32_t kind, size_t room) {
    struct shard_save_chunk *c = co_xmalloc(sizeof(*c) + room);
    memset(c, 0, sizeof(*c));
    c->head.kind = kind;
    c->room = (uint32_t)room;
    c->holders = 1;
    return c;
}

struct shard_save_chunk *shard_save_chunk_hold(struct shard_save_chunk *c) {
    (void)__atomic_fetch_add(&c->holders, 1, __ATOMIC_RELAXED);
    return c;
}

void shard_save_chunk_drop(struct shard_save_chunk *c) {
    if (c && __atomic_fetch_sub(&c->holders, 1, __ATOMIC_ACQ_REL) == 1) {
        free(c);
    }
}
