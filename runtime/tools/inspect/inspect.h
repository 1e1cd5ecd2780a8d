/* Reads what is in a checkpoint, for people and tools, without a server. It knows both formats
 * (ckpt.h: saved by a trainer; chain.h: written by servers) and shows them as a load would, piece
 * by piece.
 *
 * A sparse table is walked in batches of rows, each id once, in the order of the files. In a chain
 * the newest version of a row counts. For that the ids of the deltas are remembered, one part at a
 * time; if they exceed the memory limit, the part is read several times. A dense table is one f32
 * vector: `size` values, then `state` floats of the optimizer's state.
 *
 * Everything that is read is checked; CO_DAMAGED names the file, other codes are of files that
 * could not be read (chain.h). One thread at a time. */
#pragma once

#include "common/bytes.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ckpt/ckpt.h"

struct inspect_view {
    char *path; /* for messages */
    /* one of them: */
    struct ckpt *saved;
    struct ckpt_chain *chain;
    bool newer_save; /* beside the chain, which was the newest */
    size_t memory;   /* limit in bytes, about, of walks and comparisons; the caller may change it */
};

enum { INSPECT_VIEW_MEMORY = 256 << 20, INSPECT_VIEW_MEMORY_MIN = 1 << 16 };

/* path: a directory of rt_save; a directory of servers' checkpoints, of which the newest complete
 * one is opened; or one of those, "DIR/ckpt-12". skip: as in ckpt_chain_newest; NULL is allowed.
 * CO_NOTFOUND: there is no checkpoint. */
CO_MUST_CHECK int inspect_view_open(
    const char *path, ckpt_skip_fn *skip, void *arg, struct inspect_view **ret, struct co_err *err);
void inspect_view_close(struct inspect_view *v); /* NULL allowed */
CO_DEFINE_CLEANUP(struct inspect_view *, inspect_view_close)

/* The number in a path that ends with "ckpt-N"; 0: it does not. *ret_dir is the directory of the
 * checkpoints, or the path itself if the number is 0; the caller frees it. */
uint64_t inspect_view_split(const char *path, char **ret_dir);

uint32_t inspect_view_tables(const struct inspect_view *v);
const struct ckpt_table *inspect_view_table(const struct inspect_view *v, uint32_t i);
/* Whether a load could take a table of this description, whose limits were checked by the reader:
 * its optimizer, with the state that this has, initialiser and learning rate.  CO_INVALID: no. */
CO_MUST_CHECK int inspect_view_table_check(const struct ckpt_table *t, struct co_err *err);
/* -1: none of that name. */
int inspect_view_find(const struct inspect_view *v, const char *name);
/* Floats of a row, or of the whole vector. */
uint64_t inspect_view_floats(const struct ckpt_table *t);
size_t inspect_view_row_bytes(const struct ckpt_table *t); /* sparse; without the id */
/* The learning rate and the steps that its schedule has seen. *ret_lr NaN: the rule's own rate. */
CO_MUST_CHECK int inspect_view_rate(const struct inspect_view *v, uint32_t table, double *ret_lr,
    uint64_t *ret_steps, struct co_err *err);

/* What the newest checkpoint of the chain itself contains of a table. Reads the heads of chunks
 * only. */
struct inspect_view_sum {
    uint64_t rows, erased; /* sparse */
    uint64_t values;       /* dense */
};
CO_MUST_CHECK int inspect_view_sum(
    const struct inspect_view *v, uint32_t table, struct inspect_view_sum *ret, struct co_err *err);

/* ---- rows ---- */

struct inspect_view_rows {
    uint32_t n;
    const uint64_t *ids;       /* [n] */
    const unsigned char *rows; /* [n] rows of f32[dim + state], little-endian */
};
/* Returns 0 to continue, 1 to stop. */
typedef int inspect_view_rows_fn(
    void *arg, const struct inspect_view_rows *rows, struct co_err *err);

/* Share `one` of n, from 0, of all ids; n 0: all ids. */
struct inspect_view_share {
    uint32_t n, i;
};

CO_MUST_CHECK int inspect_view_sparse(const struct inspect_view *v, uint32_t table,
    struct inspect_view_share share, inspect_view_rows_fn *take, void *arg, struct co_err *err);
/* Counts the rows by reading all of them. */
CO_MUST_CHECK int inspect_view_count(
    const struct inspect_view *v, uint32_t table, uint64_t *ret, struct co_err *err);

/* ---- values ---- */

enum { INSPECT_VIEW_WINDOW = 4 << 20 }; /* floats that callers ask for at a time */

/* Reads n floats from index `from` on into ret [n], in the host's byte order. Values that are in no
 * file are 0. */
CO_MUST_CHECK int inspect_view_dense(const struct inspect_view *v, uint32_t table, uint64_t from,
    size_t n, float *ret, struct co_err *err);

static inline float inspect_view_f32(const unsigned char *p) {
    uint32_t bits = co_get_u32(p);
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* ---- what is made of it ---- */

struct inspect_diff {
    uint64_t before, after; /* rows, or values */
    uint64_t added, erased, changed;
    double max_abs;  /* the largest difference of a value; infinite where one is NaN */
    uint64_t max_at; /* its id (sparse) or index (dense) */
};
/* Compares values, not the optimizer's state. CO_INVALID: the tables have different shapes. */
CO_MUST_CHECK int inspect_view_diff(const struct inspect_view *a, uint32_t table_a,
    const struct inspect_view *b, uint32_t table_b, struct inspect_diff *ret, struct co_err *err);

/* Which tables are exported, and which part of them. */
struct inspect_export {
    int table;      /* -1: all; *.npz only */
    bool one;       /* only the row or value of: */
    uint64_t key;   /*   CO_NOTFOUND: it does not exist */
    bool state;     /* also the optimizer's state */
    uint64_t items; /* set by the export: rows and values written */
};
/* The name's ending chooses the format: NumPy's .npz and .npy (docs/checkpoints.md), otherwise
 * text. The file appears only when it is complete. */
CO_MUST_CHECK int inspect_view_export(const struct inspect_view *v, struct inspect_export *what,
    const char *file, struct co_err *err);
/* The same as text, to an open stream. */
CO_MUST_CHECK int inspect_view_print(
    const struct inspect_view *v, struct inspect_export *what, FILE *to, struct co_err *err);
/* Writes the whole checkpoint as a directory of rt_save, which any number of servers can load. */
CO_MUST_CHECK int inspect_view_merge(
    const struct inspect_view *v, const char *to_dir, struct co_err *err);
