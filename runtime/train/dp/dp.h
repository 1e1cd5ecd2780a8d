/* Data parallel training: what the files of this folder share.
 *
 *     layout.c     assigns gradients to buckets
 *     reducer.c    open, close, rebuild: memory, and the check that all ranks agree
 *     alike.c      what they must agree on
 *     step.c       ready, wait: a training step
 *     topk.c       selects the entries that a compressed gradient sends; pure
 *     dgc.c        compressed buckets
 *     local_sgd.c  local SGD                norm.c     batch normalisation
 *     fleet_metrics.c metrics, their group     values.c   checks and choices of ranks
 *     optimizer.c, rates.c: optimizers and schedules on one rank; pure
 *
 *     a step of four gradients in two buckets; the backward pass yields gradient 0 first:
 *
 *         bucket 0 [ gradient 0 | gradient 1 | gradient 2 ]   starts when the third is ready
 *         bucket 1 [ gradient 3 ]                             the first layer, small
 *
 *     where a bucket's data is: [main memory], (GPU memory)
 *
 *         in main memory                   [own] -> [values] =====> sent
 *         ... f16, bf16                    [own] -> [values] -> [halves] =====> sent
 *         on a GPU                         (own) -> (values) =====> sent by NCCL
 *         ... merge_steps                  (own) -> [mirror + sums] -> (values) =====> sent by NCCL
 *         ... f16, bf16, dgc               (own) -> [mirror] -> [halves, pairs] =====> sent
 *
 * Only the group's thread (rt_coll_start) runs beside the caller, and only on buckets that have
 * been started. */
#pragma once

#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/coll/reduce.h"
#include "runtime/train/coll/use.h"

enum {
    DP_DGC_MIN = 16384, /* floats of a gradient that is compressed, as in Paddle */
    DP_ALIGN = 16,      /* floats: gradients begin at cache lines */
    DP_ALIKE = 22,      /* numbers that ranks compare */
};

/* ---- layout.c ---- */

/* One gradient.  Sparse and dense ones do not share buckets. */
struct dp_layout_item {
    size_t floats;
    bool sparse;
    uint32_t bucket; /* out */
    size_t at;       /* out: floats from the bucket's beginning */
};
/* Fills in bucket and at, and returns the number of buckets.  Goes from the last item to the first,
 * and closes a bucket when the next item would exceed the limit: last_floats for the first bucket,
 * which is the last one that becomes ready, else bucket_floats. */
uint32_t dp_layout(
    struct dp_layout_item *items, size_t n, size_t bucket_floats, size_t last_floats);

/* ---- the reducer ---- */

/* An entry of a compressed gradient, as it is sent. */
struct dp_pair {
    uint32_t at; /* floats from the bucket's beginning */
    float value;
};

struct dp_bucket {
    size_t n; /* floats, padding included */
    bool sparse;
    uint32_t first, members; /* in reducer->order */
    uint32_t unready;
    float *values;    /* [n]; the group's, or owned with `halves` in main memory */
    float *mirror;    /* owned [n]: a copy of GPU values, for the CPU to use; NULL: not needed */
    uint16_t *halves; /* [n]: f16 or bf16, as sent; the group's or, with a GPU, owned; NULL:
                       * f32 is sent */
    float *sums;      /* owned [n], of merged steps; NULL: steps are not merged */
    float *lost;      /* owned [n]: what rounding to halves took; NULL: it is not fed back */
    float *u, *v;     /* owned [n]; sparse */
    size_t k;         /* pairs that each rank sends in this step */
    size_t own;       /* where this rank's are */
    struct dp_pair *pairs; /* owned [P][k]; sparse */
    bool compressed;       /* in this step */
    struct rt_work *work;
};

struct dp_slot {
    char *name; /* owned */
    size_t n, at;
    uint32_t bucket;
    float *own;             /* borrowed; the caller's memory, on the CPU or a GPU */
    const float *parameter; /* borrowed; likewise */
    bool ready;
    size_t sent, sent_at; /* compressed: how many pairs, from the bucket's own ones on */
};

struct rt_reducer {
    struct rt_group *g;
    bool gpu; /* gradients are in GPU memory */
    size_t n;
    struct dp_slot *slots;     /* owned [n] */
    struct dp_bucket *buckets; /* owned [n_buckets] */
    uint32_t *order;           /* owned [n]: gradients by bucket */
    uint32_t n_buckets, started;
    uint32_t merge_steps, merged; /* merged: how many steps are in the sums */
    float merge_factor;
    enum rt_dtype wire;
    bool error_feedback;
    bool dgc_on;
    struct rt_dgc dgc;          /* sparsity owned */
    uint64_t step;              /* reductions made */
    uint32_t *places, *scratch; /* owned [m], [2][m], m: floats of the largest compressed one */
    float *foreseen;            /* owned [m] */
    /* All buckets of a step were started, and what this rank keeps of it (u, v, lost) is not in
     * there: if the step fails, the gradients stay in the buckets until it is known whether it
     * ended on another rank. */
    bool undecided;
    bool moved;               /* to this group, and local SGD has not compared its steps there */
    uint64_t alike[DP_ALIKE]; /* must be equal on all ranks */
};

/* The bucket changes what this rank keeps for later steps. */
static inline bool dp_bucket_keeps(const struct dp_bucket *b) {
    return b->compressed || b->lost;
}

/* The bucket in main memory. */
static inline float *dp_bucket_host(const struct dp_bucket *b) {
    return b->mirror ? b->mirror : b->values;
}
static inline bool dp_group_on_gpu(const struct rt_group *g) {
    return rt_group_stream(g);
}

/* values.c: whether all values are finite; in main memory or on the group's GPU. */
CO_MUST_CHECK int dp_finite(
    struct rt_group *g, const float *values, size_t n, bool *ret_finite, struct co_err *err);

CO_DEFINE_CLEANUP(struct rt_reducer *, rt_reducer_close)

/* step.c: waits for running calls, and resets the step. */
void dp_reducer_drain(struct rt_reducer *r);
/* The step counts: changes what this rank keeps.  The buckets have their gradients still. */
void dp_reducer_keep(struct rt_reducer *r);

/* alike.c: sums of the list and of the options (with their defaults) that ranks compare. */
void dp_alike_fill(
    const struct rt_reducer *r, const struct rt_reducer_options *o, uint64_t ret[DP_ALIKE]);
/* What differs, by its name; NULL: nothing. */
const char *dp_alike_differs(const uint64_t a[DP_ALIKE], const uint64_t b[DP_ALIKE]);

/* dgc.c */
/* The most pairs that a rank ever sends for bucket b. */
size_t dp_dgc_pairs_max(const struct rt_reducer *r, const struct dp_bucket *b);
/* Whether this step compresses the bucket. */
bool dp_dgc_due(const struct rt_reducer *r, const struct dp_bucket *b);
/* Selects this rank's pairs from the gradients in main memory, and writes them to b->pairs. */
CO_MUST_CHECK int dp_dgc_encode(struct rt_reducer *r, struct dp_bucket *b, struct co_err *err);
/* Adds the gradients to u and v, which lose what was sent. */
void dp_dgc_keep(const struct rt_reducer *r, struct dp_bucket *b);
/* CO_INVALID: a pair that came is outside of the bucket. */
CO_MUST_CHECK int dp_dgc_check(
    const struct rt_reducer *r, const struct dp_bucket *b, struct co_err *err);
/* Averages all ranks' pairs into main memory, in the place of the gradients. */
void dp_dgc_decode(const struct rt_reducer *r, struct dp_bucket *b);

/* ---- topk.c ---- */

/* Indexes, ascending, of the k entries of v [n] that are largest by magnitude.  NaN counts as the
 * largest; of equal entries the first ones win.  Returns how many it found, which may be fewer than
 * k: candidates must pass a threshold that is estimated from a sample.  scratch [2][n]. */
size_t dp_top_k(const float *v, size_t n, size_t k, uint32_t *ret_at, uint32_t *scratch);
