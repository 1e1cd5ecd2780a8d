/* The tables of one shard, and what a frame does to them.  Knows no threads and no queue, so the
 * fuzzer can call it directly.  Belongs to the shard's thread. */
#pragma once

#include <stdatomic.h>

#include "runtime/train/ps/shard/shard.h"
#include "runtime/train/table/cold.h"
#include "runtime/train/table/policy.h"
#include "runtime/train/table/store.h"

/* A block of a dense table: a contiguous part of it.  A frame reads or changes one block. */
struct rt_dense_block {
    size_t n, n_state;
    float *w;     /* [n] */
    float *state; /* [n_state], NULL when the rule has none */
    float *sum;   /* sync: [n], gradients of this step */
    bool pushed;  /* sync: sum holds something */
};

struct rt_snapshot;

struct rt_shard_table {
    const struct rt_table *table;
    struct rt_snapshot *snapshot; /* is told before a row changes; NULL: none */
    uint32_t index;               /* among the tables */
    enum rt_mode mode;
    uint64_t pulls, pushes;
    uint64_t late;      /* rows and values left out since they came after their step */
    uint64_t nonfinite; /* rows and values that were NaN or infinite */
    bool *warned;       /* by trainer: a warning about nonfinite was logged */
    /* rate.c */
    struct rt_optim optim; /* the table's, with the current learning rate */
    double lr;             /* the base rate that the schedule starts from */
    uint64_t steps;        /* the argument of the schedule */
    /* dense */
    struct rt_dense_block *blocks;
    uint32_t n_blocks;
    /* sparse */
    size_t dim, n_state;
    float *row;           /* [dim], scratch for one row's values */
    struct rt_gate *gate; /* NULL: every id gets a row */
    uint32_t hand;        /* the slot that eviction looks at next, as in the clock algorithm */
    uint64_t evicted;     /* lfu: rows that were evicted so far */
    struct rt_store *rows;
    struct rt_cold *cold;   /* NULL: all rows are in memory */
    uint64_t shrunk[2];     /* cold: where the last part of a shrink began and ended */
    uint64_t sweep, credit; /* cold, ttl: where the next sweep begins, rows it may look at */
    struct rt_store *sums;  /* sync: sums of this step's gradients; all their ids have rows */
};

struct rt_shard_tables {
    struct rt_shard_config config;
    struct rt_shard_table *tables; /* config.n_tables */
    uint8_t kind;                  /* enum rt_frame_kind of the current frame */
    size_t dense_bytes;            /* taken from the budget */
    struct rt_cold_shard cold;     /* shared by all tables with cold rows */
    uint32_t ticks;                /* async: TICKs since the schedules last advanced */
    const atomic_bool *stop;       /* once it is set, a load ends; NULL: it never is */
};

CO_MUST_CHECK int rt_shard_tables_init(
    struct rt_shard_tables *t, const struct rt_shard_config *config, struct co_err *err);
void rt_shard_tables_done(struct rt_shard_tables *t);

/* From now on the snapshot (NULL: none) is told before a row or a block changes. */
void rt_shard_tables_watch(struct rt_shard_tables *t, struct rt_snapshot *snapshot);

/* Handles a frame of that trainer.  If it fails, because the frame is invalid or memory is lacking,
 * the tables are unchanged.  *ret_answer is NULL when the answer has no payload. */
CO_MUST_CHECK int rt_shard_tables_do(struct rt_shard_tables *t, uint32_t trainer,
    const struct rt_frame *f, struct rt_frame **ret_answer, struct co_err *err);

/* The answer to a part of a shrink that came a second time: the shrink is not repeated. */
CO_MUST_CHECK int rt_shard_shrunk(const struct rt_shard_tables *t, const struct rt_frame *f,
    struct rt_frame **ret_answer, struct co_err *err);

/* Sync: applies the mean, sum / n, of all gradients since the last step. */
CO_MUST_CHECK int rt_shard_tables_step(struct rt_shard_tables *t, uint32_t n, struct co_err *err);
