/* What a snapshot writes: chunks of rows, of dense values with their state, learning rates, what
 * trainers keep.  Runs on the shard's thread. */
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/snapshot_internal.h"

enum { CHUNK = 60 << 10 }; /* bytes of rows; malloc need not ask the kernel for so little */

void shard_snapshot_add(struct shard_snapshot *s, struct shard_save_chunk *c_own) {
    if (shard_saver_add(s->saver, s->ticket, c_own, NULL) < 0) {
        shard_snapshot_give_up(s);
    }
}

void shard_snapshot_flush(struct shard_snapshot *s, uint32_t table) {
    struct shard_save_chunk *c = co_steal_ptr(s->tracks[table].open);
    if (c) {
        shard_snapshot_add(s, c);
    }
}

void shard_snapshot_write_body(struct shard_snapshot *s, uint32_t table, uint64_t id, void *body) {
    struct shard_track *k = &s->tracks[table];
    struct shard_table *st = &s->tables->tables[table];
    if (!shard_row_saves(st, body, s->mode)) {
        return;
    }
    if (!k->open) {
        size_t n = CHUNK / k->row_bytes;
        k->open = shard_save_chunk_new(CKPT_PART_ROWS, (n ? n : 1) * k->row_bytes);
        k->open->head.table = table;
        k->open->head.shard = s->tables->config.index;
    }
    struct shard_save_chunk *c = k->open;
    unsigned char *to = c->data + c->head.bytes; /* aligned for floats, as all rows before */
    co_put_u64(to, id);
    shard_row_save(st, body, s->mode, k->now, (float *)(void *)(to + 8));
    co_copy_f32(to + 8, to + 8, (k->row_bytes - 8) / sizeof(float));
    s->bytes += k->row_bytes;
    c->head.bytes += (uint32_t)k->row_bytes;
    c->head.items++;
    if (c->room - c->head.bytes < k->row_bytes) {
        shard_snapshot_flush(s, table);
    }
}

void shard_snapshot_write_row(struct shard_snapshot *s, uint32_t table, size_t slot) {
    const struct table_store *rows = s->tables->tables[table].rows;
    shard_snapshot_write_body(
        s, table, table_store_id(rows, (uint32_t)slot), table_store_body(rows, (uint32_t)slot));
}

void shard_snapshot_write_values(
    struct shard_snapshot *s, uint32_t table, size_t block, size_t from, size_t n) {
    const struct shard_config *c = &s->tables->config;
    const struct shard_table *st = &s->tables->tables[table];
    const struct shard_dense_block *b = &st->blocks[block];
    size_t planes = st->table->optim.rule->planes, scalars = st->table->optim.rule->scalars;
    const struct ps_shard_position here = shard_here(c);
    struct ps_range part = ps_dense_share(st->table, &here);
    struct shard_save_chunk *chunk =
        shard_save_chunk_new(CKPT_PART_DENSE, (n * (1 + planes) + scalars) * sizeof(float));
    chunk->head.table = table;
    chunk->head.shard = c->index;
    chunk->head.begin = ps_dense_chunk(part, (uint32_t)block).begin + from;
    chunk->head.items = (uint32_t)n;
    chunk->head.bytes = chunk->room;
    s->bytes += chunk->room;
    unsigned char *to = chunk->data;
    co_copy_f32(to, b->w + from, n);
    for (size_t p = 0; p < planes; p++) {
        co_copy_f32(to += n * sizeof(float), b->state + p * b->n + from, n);
    }
    if (scalars > 0) {
        co_copy_f32(to + n * sizeof(float), b->state + planes * b->n, scalars);
    }
    shard_snapshot_add(s, chunk);
}

void shard_snapshot_write_rate(struct shard_snapshot *s, uint32_t table) {
    const struct shard_table *st = &s->tables->tables[table];
    struct shard_save_chunk *c = shard_save_chunk_new(CKPT_PART_RATE, CKPT_RATE_BYTES);
    uint64_t bits;
    memcpy(&bits, &st->lr, sizeof(bits));
    co_put_u64(c->data, st->steps);
    co_put_u64(c->data + 8, bits);
    c->head.table = table;
    c->head.shard = s->tables->config.index;
    c->head.items = 1;
    c->head.bytes = CKPT_RATE_BYTES;
    shard_snapshot_add(s, c);
}

void shard_snapshot_write_kept(
    struct shard_snapshot *s, uint32_t trainer, const struct shard_kept *k) {
    struct shard_save_chunk *c = shard_save_chunk_new(CKPT_PART_POSITION, 8 + (size_t)k->bytes);
    co_put_u64(c->data, k->step);
    memcpy(c->data + 8, k->data, k->bytes);
    c->head.begin = trainer;
    c->head.shard = s->tables->config.index;
    c->head.items = 1;
    c->head.bytes = 8 + k->bytes;
    shard_snapshot_add(s, c);
}
