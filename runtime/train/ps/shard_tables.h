/* The tables of one shard and what a frame does to them; no threads, no queue.  Belongs to the
 * shard's thread. */
#pragma once

#include "runtime/train/ps/shard.h"
#include "runtime/train/ps/sparse.h"

struct rt_dense_block {
    size_t n, n_state;
    float *w;     /* [n] */
    float *state; /* [n_state], NULL when the rule has none */
    float *sum;   /* sync: [n], gradients of this step */
    bool pushed;  /* sync: sum holds something */
};

struct rt_shard_table {
    const struct rt_table *table;
    uint64_t pulls, pushes;
    uint64_t nonfinite; /* rows and values that were NaN or infinite */
    bool *warned;       /* by trainer: of that */
    /* dense */
    struct rt_dense_block *blocks;
    uint32_t n_blocks;
    /* sparse */
    size_t dim, n_state;
    struct rt_sparse *rows; /* stride dim + n_state */
    struct rt_sparse *sums; /* sync: stride dim, gradients of this step */
    size_t promised;        /* rows of sums that rows lacks, and has room for */
};

struct rt_shard_tables {
    struct rt_shard_config config;
    struct rt_shard_table *tables; /* config.n_tables */
    size_t dense_bytes;            /* taken from the budget */
};

CO_MUST_CHECK int rt_shard_tables_init(
    struct rt_shard_tables *t, const struct rt_shard_config *config, struct co_err *err);
void rt_shard_tables_done(struct rt_shard_tables *t);

/* Does what the frame of that trainer asks; one with something wrong in it, or for which
 * memory is lacking, changes nothing. *ret_answer is NULL when the answer has no payload. */
CO_MUST_CHECK int rt_shard_tables_do(struct rt_shard_tables *t, uint32_t trainer,
    const struct rt_frame *f, struct rt_frame **ret_answer, struct co_err *err);

/* Sync: applies sum / n for everything pushed since the last time. */
CO_MUST_CHECK int rt_shard_tables_step(struct rt_shard_tables *t, uint32_t n, struct co_err *err);
