/* Sizes and hashes that writer and reader of table files share (format.h has the layout). */
#include "runtime/train/ckpt/format.h"

/* Inlined from the header, because paddlerun reads checkpoints on hosts without the xxHash library.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/train/ckpt/fields.h"

const struct rt_field rt_ckpt_fields[RT_CKPT_FIELDS] = {
    RT_FIELD(rt_ckpt_table, "name", TEXT, name),
    RT_FIELD_EITHER(rt_ckpt_table, "kind", sparse, "dense", "sparse"),
    RT_FIELD(rt_ckpt_table, "size", DECIMAL, size),
    RT_FIELD(rt_ckpt_table, "dim", DECIMAL, dim),
    RT_FIELD(rt_ckpt_table, "state", DECIMAL, state),
    RT_FIELD(rt_ckpt_table, "seed", HEX, seed),
    RT_FIELD(rt_ckpt_table, "optimizer", TEXT, optimizer),
    RT_FIELD(rt_ckpt_table, "init", TEXT, init),
    RT_FIELD_OPTIONAL(rt_ckpt_table, "lr", TEXT, lr),
    RT_FIELD_OPTIONAL(rt_ckpt_table, "steps", DECIMAL, steps),
    RT_FIELD(rt_ckpt_table, "items", DECIMAL, items),
    RT_FIELD(rt_ckpt_table, "bytes", DECIMAL, bytes),
    RT_FIELD(rt_ckpt_table, "hash", HEX, hash),
    RT_FIELD(rt_ckpt_table, "file", TEXT, file),
};

int rt_ckpt_table_check(const struct rt_ckpt_table *t, struct co_err *err) {
    if (t->state > 1U << 30 || (t->sparse ? t->dim < 1 : t->size < 1) || t->file[0] == '.') {
        return co_err_set(err, CO_INVALID, "table '%s' is not valid", t->name);
    }
    return 0;
}

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
