#include "runtime/ckpt/format.h"

#include <xxhash.h>

uint64_t rt_ckpt_hash(const void *data, size_t len) {
    return XXH3_64bits(data, len);
}

uint64_t rt_ckpt_hash_more(uint64_t so_far, uint64_t next) {
    unsigned char both[16];
    rt_ckpt_put64(both, so_far);
    rt_ckpt_put64(both + 8, next);
    return rt_ckpt_hash(both, sizeof(both));
}

static const unsigned char magic[8] = {'P', 'D', 'L', 'R', 'T', 'C', 'K', 'P'};

void rt_ckpt_head(const struct rt_ckpt_table *t, unsigned char ret_head[RT_CKPT_HEAD]) {
    memset(ret_head, 0, RT_CKPT_HEAD);
    memcpy(ret_head, magic, sizeof(magic));
    rt_ckpt_put32(ret_head + 8, RT_CKPT_VERSION);
    rt_ckpt_put32(ret_head + 12, t->sparse);
    rt_ckpt_put64(ret_head + 16, t->size);
    rt_ckpt_put32(ret_head + 24, t->dim);
    rt_ckpt_put64(ret_head + 32, t->state);
    rt_ckpt_put64(ret_head + 40, rt_ckpt_hash(ret_head, 40));
}

void rt_ckpt_chunk_head(
    uint32_t items, uint32_t bytes, uint64_t hash, unsigned char ret_head[RT_CKPT_CHUNK_HEAD]) {
    rt_ckpt_put32(ret_head, items);
    rt_ckpt_put32(ret_head + 4, bytes);
    rt_ckpt_put64(ret_head + 8, hash);
    rt_ckpt_put64(ret_head + 16, rt_ckpt_hash(ret_head, 16));
}

uint64_t rt_ckpt_data_bytes(const struct rt_ckpt_table *t, uint32_t items) {
    uint64_t each = t->sparse ? 8 + ((uint64_t)t->dim + t->state) * 4 : 4;
    return each * items;
}
