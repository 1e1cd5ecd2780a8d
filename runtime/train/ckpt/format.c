#include "runtime/train/ckpt/format.h"

#include <xxhash.h>

uint64_t rt_ckpt_hash(const void *data, size_t len) {
    return XXH3_64bits(data, len);
}

uint64_t rt_ckpt_hash_more(uint64_t so_far, uint64_t next) {
    unsigned char both[16];
    co_put_u64(both, so_far);
    co_put_u64(both + 8, next);
    return rt_ckpt_hash(both, sizeof(both));
}

static const unsigned char magic[8] = {'P', 'D', 'L', 'R', 'T', 'C', 'K', 'P'};

void rt_ckpt_head(const struct rt_ckpt_table *t, unsigned char ret_head[RT_CKPT_HEAD]) {
    memset(ret_head, 0, RT_CKPT_HEAD);
    memcpy(ret_head, magic, sizeof(magic));
    co_put_u32(ret_head + 8, RT_CKPT_VERSION);
    co_put_u32(ret_head + 12, t->sparse);
    co_put_u64(ret_head + 16, t->size);
    co_put_u32(ret_head + 24, t->dim);
    co_put_u64(ret_head + 32, t->state);
    co_put_u64(ret_head + 40, rt_ckpt_hash(ret_head, 40));
}

void rt_ckpt_chunk_head(
    uint32_t items, uint32_t bytes, uint64_t hash, unsigned char ret_head[RT_CKPT_CHUNK_HEAD]) {
    co_put_u32(ret_head, items);
    co_put_u32(ret_head + 4, bytes);
    co_put_u64(ret_head + 8, hash);
    co_put_u64(ret_head + 16, rt_ckpt_hash(ret_head, 16));
}

uint64_t rt_ckpt_data_bytes(const struct rt_ckpt_table *t, uint32_t items) {
    uint64_t each = t->sparse ? 8 + ((uint64_t)t->dim + t->state) * 4 : 4;
    return each * items;
}
