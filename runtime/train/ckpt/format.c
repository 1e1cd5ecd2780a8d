/* Sizes and hashes that writer and reader of table files share (format.h has the layout). */
#include "runtime/train/ckpt/format.h"

/* Inlined from the header, because paddlerun reads checkpoints on hosts without the xxHash library.
 */
#define XXH_INLINE_ALL
#include <inttypes.h>

#include <xxhash.h>

#include "common/size.h"
#include "runtime/train/ckpt/fields.h"

const struct ckpt_field ckpt_fields[CKPT_FIELDS] = {
    CKPT_FIELD(ckpt_table, "name", TEXT, name),
    CKPT_FIELD_EITHER(ckpt_table, "kind", sparse, "dense", "sparse"),
    CKPT_FIELD(ckpt_table, "size", DECIMAL, size),
    CKPT_FIELD(ckpt_table, "dim", DECIMAL, dim),
    CKPT_FIELD(ckpt_table, "state", DECIMAL, state),
    CKPT_FIELD(ckpt_table, "seed", HEX, seed),
    CKPT_FIELD(ckpt_table, "optimizer", TEXT, optimizer),
    CKPT_FIELD(ckpt_table, "init", TEXT, init),
    CKPT_FIELD_OPTIONAL(ckpt_table, "keeps", TEXT, keeps),
    CKPT_FIELD_OPTIONAL(ckpt_table, "zeros", DECIMAL, zeros),
    CKPT_FIELD_OPTIONAL(ckpt_table, "lr", TEXT, lr),
    CKPT_FIELD_OPTIONAL(ckpt_table, "steps", DECIMAL, steps),
    CKPT_FIELD(ckpt_table, "items", DECIMAL, items),
    CKPT_FIELD(ckpt_table, "bytes", DECIMAL, bytes),
    CKPT_FIELD(ckpt_table, "hash", HEX, hash),
    CKPT_FIELD(ckpt_table, "file", TEXT, file),
    CKPT_FIELD_OPTIONAL(ckpt_table, "adds", DECIMAL, adds),
};

int ckpt_table_check(const struct ckpt_table *t, struct co_err *err) {
    uint64_t values = t->sparse ? t->dim : t->size;
    uint64_t most = t->sparse ? CKPT_DIM_MAX : CKPT_SIZE_MAX;
    if (t->file[0] == '.') {
        return co_err_set(err, CO_DAMAGED, "table \"%s\": file \"%s\" is hidden", t->name, t->file);
    }
    if (values < 1 || values > most) {
        return co_err_set(err, CO_DAMAGED, "table \"%s\": %s %" PRIu64 ", expected 1 to %" PRIu64,
            t->name, t->sparse ? "dim" : "size", values, most);
    }
    most = co_size_mul(co_size_add(values, 1), CKPT_STATE_MAX);
    if (t->state > most) {
        return co_err_set(err, CO_DAMAGED,
            "table \"%s\": %" PRIu64 " floats of state for %" PRIu64 " values, at most %" PRIu64,
            t->name, t->state, values, most);
    }
    return 0;
}

uint64_t ckpt_hash(const void *data, size_t len) {
    return XXH3_64bits(data, len);
}

uint64_t ckpt_hash_more(uint64_t so_far, uint64_t next) {
    unsigned char both[16];
    co_put_u64(both, so_far);
    co_put_u64(both + 8, next);
    return ckpt_hash(both, sizeof(both));
}

static const unsigned char magic[8] = {'P', 'D', 'L', 'R', 'T', 'C', 'K', 'P'};

void ckpt_head(const struct ckpt_table *t, unsigned char ret_head[CKPT_HEAD]) {
    memset(ret_head, 0, CKPT_HEAD);
    memcpy(ret_head, magic, sizeof(magic));
    co_put_u32(ret_head + 8, CKPT_VERSION);
    co_put_u32(ret_head + 12, t->sparse);
    co_put_u64(ret_head + 16, t->size);
    co_put_u32(ret_head + 24, t->dim);
    co_put_u64(ret_head + 32, t->state);
    co_put_u64(ret_head + 40, ckpt_hash(ret_head, 40));
}

void ckpt_chunk_head(
    uint32_t items, uint32_t bytes, uint64_t hash, unsigned char ret_head[CKPT_CHUNK_HEAD]) {
    co_put_u32(ret_head, items);
    co_put_u32(ret_head + 4, bytes);
    co_put_u64(ret_head + 8, hash);
    co_put_u64(ret_head + 16, ckpt_hash(ret_head, 16));
}

uint64_t ckpt_data_bytes(const struct ckpt_table *t, uint32_t items) {
    return t->sparse ? ckpt_rows_bytes(t, items) : co_size_mul(items, sizeof(float));
}

uint64_t ckpt_rows_bytes(const struct ckpt_table *t, uint64_t n) {
    uint64_t floats = co_size_mul(co_size_add(t->dim, t->state), sizeof(float));
    return co_size_mul(n, co_size_add(sizeof(uint64_t), floats));
}

/* The state is some planes of `size` floats each, then fewer floats than that for the whole. */
uint64_t ckpt_dense_bytes(const struct ckpt_table *t, uint64_t n) {
    uint64_t size = t->size ? t->size : 1;
    uint64_t state =
        n == size ? t->state : co_size_add(co_size_mul(n, t->state / size), t->state % size);
    return co_size_mul(co_size_add(n, state), sizeof(float));
}
