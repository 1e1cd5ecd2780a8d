/* A part of a checkpoint: the one file that a server writes.
 *
 *     head  (48) "PDLRTPRT" u32 version u32 server u32 servers u32 shards u64 number u64 0 u64 hash
 *     chunk (48) u32 kind u32 table u32 shard u32 items u64 begin u32 bytes u32 0
 *                u64 hash of the data u64 hash of these 40 bytes; then the data
 *     tail  (48) a chunk of kind CKPT_PART_TAIL whose hash of the data is that of all chunks'
 * such hashes, in order
 *
 *     kind         items  begin             data, little-endian
 *     ROWS         rows   0                 items times: u64 id, f32[dim + state]
 *     ERASED       ids    0                 u64[items]
 *     DENSE        values of its first one  f32[items] values, f32[items] of each plane of the
 *                                           optimizer's state, then its scalars
 *     RATE         1      0                 u64 steps that the table's schedule has seen, f64 lr
 *     POSITION     1      of which trainer  u64 step, then what that trainer gave: up to 64 KiB
 *
 * All little-endian. In a delta an id may be among ERASED and ROWS: the row was erased and created
 * again. This file knows bytes only. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/mem.h"

enum ckpt_part_kind {
    CKPT_PART_TAIL,
    CKPT_PART_ROWS,
    CKPT_PART_ERASED,
    CKPT_PART_DENSE,
    CKPT_PART_RATE,
    CKPT_PART_POSITION,
    CKPT_PART_KINDS,
};

enum {
    CKPT_PART_VERSION = 1,
    CKPT_PART_HEAD = 48,
    CKPT_PART_CHUNK = 48,
    CKPT_PART_BYTES_MAX = 64 << 20, /* of a chunk */
    CKPT_RATE_BYTES = 16,
    CKPT_POSITION_MAX = 64 << 10,
};

struct ckpt_table;

struct ckpt_part_chunk {
    uint32_t kind, table, shard, items;
    uint64_t begin;
    uint32_t bytes;
};

/* Which server's part of which checkpoint; from its head. */
struct ckpt_part_origin {
    uint64_t number;
    uint32_t server, servers, shards;
};

/* Known when the part is complete. */
struct ckpt_part_sum {
    uint64_t bytes; /* of the file */
    uint64_t hash;  /* of the chunks' hashes */
};

/* ---- writing ---- */

struct ckpt_part_writer;

CO_MUST_CHECK int ckpt_part_create(const char *path, const struct ckpt_part_origin *place,
    struct ckpt_part_writer **ret, struct co_err *err);
CO_MUST_CHECK int ckpt_part_add(struct ckpt_part_writer *w, const struct ckpt_part_chunk *chunk,
    const void *data, struct co_err *err);
/* Completes the part and syncs it. The writer must still be closed. */
CO_MUST_CHECK int ckpt_part_finish(
    struct ckpt_part_writer *w, struct ckpt_part_sum *ret, struct co_err *err);
/* Frees w and leaves the file as it is. */
void ckpt_part_close(struct ckpt_part_writer *w);
CO_DEFINE_CLEANUP(struct ckpt_part_writer *, ckpt_part_close)

/* ---- reading ---- */

struct ckpt_part_reader;

/* place and sum: as in the manifest. CO_DAMAGED names the file. */
CO_MUST_CHECK int ckpt_part_open(const char *path, const struct ckpt_part_origin *place,
    const struct ckpt_part_sum *sum, struct ckpt_part_reader **ret, struct co_err *err);
CO_MUST_CHECK int ckpt_part_from(FILE *stream_own, const char *name,
    const struct ckpt_part_origin *place, const struct ckpt_part_sum *sum,
    struct ckpt_part_reader **ret, struct co_err *err);
/* The head of the next chunk. 1: the end of the part, whose tail was right. */
CO_MUST_CHECK int ckpt_part_next(
    struct ckpt_part_reader *r, struct ckpt_part_chunk *ret, struct co_err *err);
/* The chunk's data, its hash checked; valid until the next call. A chunk whose data is not asked
 * for is skipped. */
CO_MUST_CHECK int ckpt_part_data(
    struct ckpt_part_reader *r, const unsigned char **ret_data, struct co_err *err);
/* From now on ckpt_part_next refuses chunks that are not such as rows, ids, values and rates of
 * these tables [n] have: CO_DAMAGED says what was expected.  They must outlive the reader. */
void ckpt_part_expect(struct ckpt_part_reader *r, const struct ckpt_table *tables, uint32_t n);
void ckpt_part_reader_close(struct ckpt_part_reader *r);
CO_DEFINE_CLEANUP(struct ckpt_part_reader *, ckpt_part_reader_close)

/* ---- bytes, for both and for tests ---- */

void ckpt_part_head_put(
    const struct ckpt_part_origin *place, unsigned char ret_head[CKPT_PART_HEAD]);
void ckpt_part_chunk_put(
    const struct ckpt_part_chunk *chunk, uint64_t hash, unsigned char ret_head[CKPT_PART_CHUNK]);
