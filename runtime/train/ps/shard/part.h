/* Internal functions of a shard's tables.  tables.c dispatches a frame to dense.c or
 * sparse.c; the other files below do a part of their work.  All of it runs on the shard's
 * thread. */
#pragma once

#include "runtime/train/ps/shard/tables.h"

static inline struct ps_shard_position shard_here(const struct shard_config *c) {
    return (struct ps_shard_position){c->server, c->servers, c->index, c->shards};
}

/* dense.c */
CO_MUST_CHECK int shard_dense_init(
    struct shard_tables *t, struct shard_table *st, struct co_err *err);
void shard_dense_done(struct shard_table *st);
CO_MUST_CHECK int shard_dense_do(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const struct rpc_frame *f, struct rpc_frame **ret, struct co_err *err);
/* Sync: a step with the gradients sum / n, for which all blocks are due afterwards. */
void shard_dense_step(struct shard_table *st, uint32_t n);
/* Applies the last step to all blocks that are still due. */
void shard_dense_settle(struct shard_table *st);

/* sparse.c */
CO_MUST_CHECK int shard_sparse_init(
    struct shard_tables *t, struct shard_table *st, struct co_err *err);
void shard_sparse_done(struct shard_table *st);
CO_MUST_CHECK int shard_sparse_do(struct shard_tables *t, struct shard_table *st, uint32_t trainer,
    const struct rpc_frame *f, struct rpc_frame **ret, struct co_err *err);

/* push.c */
CO_MUST_CHECK int shard_sparse_push(struct shard_tables *t, struct shard_table *st,
    uint32_t trainer, const struct rpc_frame *f, struct co_err *err);
/* Sync: applies the gradients of a step, sum / by.  CO_INTERNAL, CO_NORESOURCE: some rows could not
 * be read from disk; they are left out, the others are applied. */
CO_MUST_CHECK int shard_sparse_step(struct shard_table *st, uint32_t by, struct co_err *err);

/* Id i of a frame that begins with ids. */
uint64_t shard_id(const struct rpc_frame *f, size_t i);
/* The rows of a frame while it is handled.  Admission and checks remove rows from it. */
struct shard_rows {
    size_t n;
    uint64_t *ids;
    uint32_t *from;      /* their indexes in the frame */
    const float *clicks; /* pairs of show and click, by index in the frame; NULL: one show each */
    uint32_t *slots;     /* in the table's store */
    bool *fresh;         /* shard_rows_make created the row */
};
void shard_rows_init(struct shard_rows *r, const struct rpc_frame *f);
void shard_rows_done(struct shard_rows *r);
/* Checks that all ids belong to this shard; CO_INVALID: one does not. */
CO_MUST_CHECK int shard_rows_owned(
    const struct shard_tables *t, const struct shard_rows *r, struct co_err *err);
/* Handles rows with NaN or infinite values: removes them from r or fails, as the server's policy
 * says.  g: the values, `floats` a row. */
CO_MUST_CHECK int shard_rows_finite(struct shard_tables *t, struct shard_table *st,
    uint32_t trainer, const float *g, size_t floats, struct shard_rows *r, struct co_err *err);
/* Creates the missing rows with their initial values.  If memory does not suffice, creates none. */
CO_MUST_CHECK int shard_rows_make(struct shard_table *st, struct shard_rows *r, struct co_err *err);

/* cold.c: cold rows, those on disk.  Unless said otherwise these do nothing for a table that
 * is held in memory as a whole. */

/* Prepares a new table for cold rows; tables with lfu eviction always stay in memory. */
void shard_cold_init(struct shard_tables *t, struct shard_table *st);
void shard_cold_done(struct shard_table *st);
/* From now on the table's snapshot is notified of rows that move between memory and disk. */
void shard_cold_watch(struct shard_table *st);
/* Brings the rows of these ids into memory, where they stay until the next call, and makes room for
 * rows that do not exist yet.  CO_NORESOURCE, CO_INTERNAL: as table_cold_bring, with the table's
 * name. */
CO_MUST_CHECK int shard_cold_bring(
    struct shard_table *st, const uint64_t *ids, size_t n, struct co_err *err);
/* A part of a save, and a part of a shrink.  Only for tables with cold rows. */
CO_MUST_CHECK int shard_cold_scan(struct shard_table *st, const struct rpc_frame *f, size_t most,
    struct rpc_frame **ret, struct co_err *err);
CO_MUST_CHECK int shard_cold_shrink(struct shard_table *st, const struct rpc_frame *f, uint32_t now,
    struct rpc_frame **ret, struct co_err *err);
/* ttl: looks for expired cold rows and erases them; n: how many more it may look at. */
CO_MUST_CHECK int shard_cold_sweep(
    struct shard_table *st, size_t n, uint32_t now, struct co_err *err);

/* rate.c */
void shard_rate_init(struct shard_table *st);
void shard_rate_set(struct shard_table *st, uint64_t steps, double lr);
/* All trainers have made a step: moves the schedules on. */
void shard_rates_step(struct shard_tables *t);
/* GET_RATE, SET_RATE, SET_STEPS and TICK. */
CO_MUST_CHECK int shard_rate_do(struct shard_tables *t, struct shard_table *st,
    const struct rpc_frame *f, struct rpc_frame **ret, struct co_err *err);

/* row_policy.c */

/* Admission: removes from r the ids that get no row yet. */
void shard_rows_admit(struct shard_table *st, struct shard_rows *r);
/* Eviction: erases rows to make room for the new ones of r. */
CO_MUST_CHECK int shard_rows_evict(const struct shard_tables *t, struct shard_table *st,
    const struct shard_rows *r, struct co_err *err);
/* Records for eviction that these rows were pushed to. */
void shard_rows_seen(struct shard_table *st, const struct shard_rows *r);
CO_MUST_CHECK int shard_shrink(struct shard_tables *t, struct shard_table *st,
    const struct rpc_frame *f, struct rpc_frame **ret, struct co_err *err);

/* A row in a checkpoint: values, optimizer state and the eviction policy's counts; all are floats.
 * body: the row's (table_store_body), in memory or read from disk. */
size_t shard_row_floats(const struct shard_table *st);
bool shard_row_saves(const struct shard_table *st, const void *body, enum rt_save_mode mode);
/* now: when the row had that age, by the policy's clock; of a snapshot, its instant. */
void shard_row_save(
    const struct shard_table *st, void *body, enum rt_save_mode mode, uint32_t now, float *ret);
uint32_t shard_row_clock(const struct shard_table *st); /* now */
void shard_row_erase(struct shard_table *st, uint32_t slot);
void shard_row_load(struct shard_table *st, uint32_t slot, const float *from);

/* part.c */

/* The payload from offset on, as floats.  Payloads are aligned; on big-endian hosts the floats are
 * converted in place. */
float *shard_floats(const struct rpc_frame *f, size_t offset);
/* Whether values of the current frame may be NaN or infinite.  Those of a load may, which had been
 * in a server: refused, tables would be loaded in part, and no other save be there any more. */
bool shard_takes_nonfinite(const struct shard_tables *t);
/* Counts a value or row that is not finite, and logs a warning once a trainer.  Returns 0 when the
 * policy is to skip such values, else the error to refuse the request with. */
CO_MUST_CHECK int shard_note_nonfinite(struct shard_tables *t, struct shard_table *st,
    uint32_t trainer, const char *what, uint64_t which, struct co_err *err);
/* Counts n values or rows that finite gradients have made infinite or NaN, as they do in Paddle;
 * the first of a table is logged. */
void shard_note_overflow(struct shard_table *st, const char *what, uint64_t which, uint64_t n);
