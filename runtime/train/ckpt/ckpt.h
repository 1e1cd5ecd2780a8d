/* Checkpoints that a trainer saves to its own disk: one file per table, and a manifest, written
 * last, that names them. (chain.h has those that servers write.)
 *
 *     dir/MANIFEST                    text; its last line is the hash of all before it
 *     dir/<table>.<generation>.rtt    head, chunks, tail; each with its own hash
 *
 * Files of a new generation are written beside the old ones. A rename replaces the manifest, and
 * only then the old files are removed. This file knows rows as bytes: no servers, no optimizers.
 * One thread at a time; one writer per directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    CKPT_NAME_MAX = 64,
    CKPT_TABLES_MAX = 256,
    CKPT_CHUNK_MAX = 64 << 20,
    /* What a table may have.  Writers keep to it, and readers refuse anything else. */
    CKPT_DIM_MAX = 65536,
    CKPT_STATE_MAX = 64, /* floats of state per value, and as many that belong to a whole row */
    CKPT_READS_MAX = 16, /* how often a load begins again, as its checkpoint was replaced */
};
#define CKPT_SIZE_MAX (1ULL << 34)

struct ckpt_table {
    char name[CKPT_NAME_MAX];
    bool sparse;
    uint64_t size;  /* dense: values */
    uint32_t dim;   /* sparse: values a row */
    uint64_t state; /* optimizer floats: a row's (sparse), all (dense) */
    uint64_t seed;
    char optimizer[256]; /* no spaces */
    char init[128];      /* no spaces */
    char keeps[16]; /* sparse: what the last floats of a row mean, which its evict policy keeps:
                     * "seconds" or "steps" since it was pushed to, "pushes", "ctr"; "": there
                     * are none, or an earlier version wrote it */
    uint32_t zeros; /* 1: an id without a row reads as zeros, since the table has an admit policy;
                     * 0: as its first values */
    char lr[32];    /* the learning rate, if it was changed since; "": as in optimizer */
    uint64_t steps; /* steps that its learning-rate schedule has seen */
    /* filled by the writer: */
    uint64_t items; /* rows (sparse), floats (dense) */
    uint64_t bytes; /* of the file */
    uint64_t hash;  /* of its chunks' hashes */
    char file[CKPT_NAME_MAX + 32];
    uint32_t adds; /* 1: only rows that have changed, which a load adds to those that are there */
};

/* Bytes of n rows with their ids, or of n values with their state; UINT64_MAX: more than there can
 * be. */
uint64_t ckpt_rows_bytes(const struct ckpt_table *t, uint64_t n);
uint64_t ckpt_dense_bytes(const struct ckpt_table *t, uint64_t n);

/* ---- writing ---- */

struct ckpt_writer;

/* Creates dir if it is absent.  Fails if what is there cannot be read: it may be a save. CO_EXISTS:
 * another writer is there.  CO_INVALID: its MANIFEST is of something else. */
CO_MUST_CHECK int ckpt_create(const char *dir, struct ckpt_writer **ret, struct co_err *err);
CO_MUST_CHECK int ckpt_begin(
    struct ckpt_writer *w, const struct ckpt_table *table, struct co_err *err);
/* Sparse: u64[items] ids, then f32[items][dim + state]; dense: f32[items]; little-endian. */
CO_MUST_CHECK int ckpt_chunk(
    struct ckpt_writer *w, uint32_t items, const void *data, size_t bytes, struct co_err *err);
CO_MUST_CHECK int ckpt_end(struct ckpt_writer *w, struct co_err *err);
/* Makes the new checkpoint the one in dir, and then removes the old one. After an error the old one
 * is still whole, and which of the two counts is not known if the error was one of the last sync.
 * Frees w, also on failure. */
CO_MUST_CHECK int ckpt_commit(struct ckpt_writer *w_own, struct co_err *err);
void ckpt_abort(struct ckpt_writer *w); /* removes what was written; NULL allowed */
CO_DEFINE_CLEANUP(struct ckpt_writer *, ckpt_abort)

/* ---- reading ---- */

struct ckpt;
struct ckpt_file;

/* CO_NOTFOUND: no manifest in dir.  CO_DAMAGED: torn or corrupt, with file and place.  Others: it
 * cannot be read. */
CO_MUST_CHECK int ckpt_open(const char *dir, struct ckpt **ret, struct co_err *err);
void ckpt_close(struct ckpt *c);
CO_DEFINE_CLEANUP(struct ckpt *, ckpt_close)
/* Whether dir has another checkpoint by now: then files that are missing are no damage, and a load
 * begins again, with the new one. */
bool ckpt_is_replaced(const struct ckpt *c);
uint32_t ckpt_tables(const struct ckpt *c);
const struct ckpt_table *ckpt_table(const struct ckpt *c, uint32_t i);
/* -1: none of that name. */
int ckpt_find(const struct ckpt *c, const char *name);
/* Checks that all files are there in the size that the manifest says. CO_DAMAGED names the file. */
CO_MUST_CHECK int ckpt_check(const struct ckpt *c, struct co_err *err);
/* Reads the table's file to its end. */
CO_MUST_CHECK int ckpt_verify_table(const struct ckpt *c, uint32_t table, struct co_err *err);
/* Reads every file to its end, as a load would. */
CO_MUST_CHECK int ckpt_verify(const struct ckpt *c, struct co_err *err);

CO_MUST_CHECK int ckpt_file_open(
    const struct ckpt *c, uint32_t table, struct ckpt_file **ret, struct co_err *err);
void ckpt_file_close(struct ckpt_file *f);
CO_DEFINE_CLEANUP(struct ckpt_file *, ckpt_file_close)
/* The next chunk, its hash checked; data is valid until the next call. 1: the end of the file,
 * whose tail was right. */
CO_MUST_CHECK int ckpt_next(struct ckpt_file *f, uint32_t *ret_items, const void **ret_data,
    size_t *ret_bytes, struct co_err *err);

/* ---- parts, for tests ---- */

CO_MUST_CHECK int ckpt_manifest_parse(const char *text, size_t len, struct ckpt_table *ret_tables,
    uint32_t *ret_n, uint64_t *ret_generation, struct co_err *err);
/* Takes the stream. */
CO_MUST_CHECK int ckpt_file_from(FILE *stream_own, const char *name, const struct ckpt_table *table,
    struct ckpt_file **ret, struct co_err *err);
