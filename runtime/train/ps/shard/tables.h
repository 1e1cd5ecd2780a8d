/* The tables of one shard, and what a frame does to them.  Knows no threads and no queue, so the
 * fuzzer can call it directly.  Belongs to the shard's thread. */
#pragma once

#include <stdatomic.h>

#include "runtime/train/ps/shard/shard.h"
#include "runtime/train/table/cold.h"
#include "runtime/train/table/policy.h"
#include "runtime/train/table/store.h"

/* What a block's `known` holds: nothing, the values before the last step, or those after it. */
enum shard_known { SHARD_KNOWN_NOT, SHARD_KNOWN_OLD, SHARD_KNOWN_NEW };

/* A block of a dense table: a contiguous part of it.  A frame reads or changes one block. */
struct shard_dense_block {
    size_t n, n_state;
    float *w;       /* [n] */
    float *state;   /* [n_state], NULL when the rule has none */
    float *sum;     /* sync: [n], gradients of this step */
    uint64_t begin; /* of its values, in the vector */
    bool pushed;    /* sync: sum holds something */
    bool due;       /* sync: the last step is not applied to it yet */
    /* int8: the values that trainers have, and how they came from those of a step before.  A
     * trainer names its version, so that one that missed a step or a restore gets all values. */
    float *known;         /* [n] */
    unsigned char *delta; /* table_int8_bytes(n): from version - 1 to version */
    uint32_t version;     /* never 0, which a trainer without values says; random at first */
    enum shard_known knows;
};

struct shard_snapshot;

struct shard_table {
    const struct ps_table *table;
    struct shard_snapshot *snapshot; /* is notified before a row changes; NULL: none */
    uint32_t index;                  /* among the tables */
    enum rt_mode mode;
    uint64_t pulls, pushes;
    uint64_t late;      /* rows and values left out since they came after their step */
    uint64_t nonfinite; /* rows and values that were NaN or infinite, or became so */
    bool *warned;       /* by trainer: a warning about nonfinite was logged */
    bool large;      /* gradients were so large that an update may overflow; sync: of this step */
    bool overflowed; /* a warning about such an update was logged */
    /* rate.c */
    struct optim optim; /* the table's, with the current learning rate */
    double lr;          /* the base rate that the schedule starts from */
    uint64_t steps;     /* the argument of the schedule */
    /* dense */
    unsigned char *dense; /* the memory of all blocks */
    size_t dense_bytes;
    struct shard_dense_block *blocks;
    uint32_t n_blocks;
    uint32_t n_due;          /* blocks that are due */
    uint32_t step_by;        /* what the last step divides by */
    bool step_large;         /* as `large` was then */
    struct optim step_optim; /* as `optim` was in the last step */
    /* sparse */
    size_t dim, n_state;
    float *row;                        /* [dim], scratch for one row's values */
    struct table_admission *admission; /* NULL: every id gets a row */
    uint32_t hand;    /* the slot that eviction looks at next, as in the clock algorithm */
    uint64_t evicted; /* lfu: rows that were evicted so far */
    struct table_store *rows;
    struct table_cold *cold;  /* NULL: all rows are in memory */
    uint64_t shrunk[2];       /* cold: where the last part of a shrink began and ended */
    uint64_t sweep, credit;   /* cold, ttl: where the next sweep begins, rows it may look at */
    struct table_store *sums; /* sync: sums of this step's gradients; all their ids have rows */
};

struct shard_tables {
    struct shard_config config;
    struct shard_table *tables;   /* config.n_tables */
    uint8_t kind;                 /* enum rpc_frame_kind of the current frame */
    size_t dense_bytes;           /* taken from the budget */
    struct table_cold_shard cold; /* shared by all tables with cold rows */
    uint32_t ticks;               /* async: TICKs since the schedules last advanced */
    const atomic_bool *stop;      /* once it is set, a load ends; NULL: it never is */
};

CO_MUST_CHECK int shard_tables_init(
    struct shard_tables *t, const struct shard_config *config, struct co_err *err);
void shard_tables_done(struct shard_tables *t);

/* From now on the snapshot (NULL: none) is notified before a row or a block changes. */
void shard_tables_watch(struct shard_tables *t, struct shard_snapshot *snapshot);

/* Handles a frame of that trainer.  If it fails, because the frame is invalid or memory is lacking,
 * the tables are unchanged, but for rows that were evicted to make room.  *ret_answer is NULL when
 * the answer has no payload. */
CO_MUST_CHECK int shard_tables_do(struct shard_tables *t, uint32_t trainer,
    const struct rpc_frame *f, struct rpc_frame **ret_answer, struct co_err *err);

/* The answer to a part of a shrink that came a second time: the shrink is not repeated. */
CO_MUST_CHECK int shard_shrunk(const struct shard_tables *t, const struct rpc_frame *f,
    struct rpc_frame **ret_answer, struct co_err *err);

/* Sync: applies the mean, sum / n, of all gradients since the last step.  Blocks of dense tables
 * are only due afterwards.  The step is applied to a block when the next frame for it comes, which
 * usually asks for its values: they are in a cache then, and on their way while the next block is
 * computed. */
CO_MUST_CHECK int shard_tables_step(struct shard_tables *t, uint32_t n, struct co_err *err);
/* Applies the last step to all blocks that are still due. */
void shard_tables_settle(struct shard_tables *t);
