/* What the files of this folder share.
 *
 *     layout.c     which gradient is in which bucket, where
 *     reducer.c    open, close, rebuild: memory and agreement
 *     step.c       ready, wait: what a step does
 *     topk.c       which entries a compressed gradient sends: pure
 *     dgc.c        compressed buckets
 *     local.c      local SGD                norm.c     batch normalisation
 *     metrics.c    metrics, their group     values.c   values that ranks have in common
 *     optimizer.c, rates.c: one rank's part; pure
 *
 *     a step of four gradients in two buckets; backward makes gradient 0 first:
 *
 *         bucket 0 [ gradient 0 | gradient 1 | gradient 2 ]   starts when the third is ready
 *         bucket 1 [ gradient 3 ]                             the first layer, small
 *
 * Only the group's thread (rt_coll_start) runs beside the caller, and only on buckets that have
 * been started. */
#pragma once

#include "runtime/rt.h"
#include "runtime/train/coll/reduce.h"

enum {
    RT_DGC_MIN = 16384, /* floats of a gradient that is compressed, as in Paddle */
    RT_ALIGN = 16,      /* floats: gradients begin at cache lines */
};

/* ---- layout.c ---- */

/* Gradient i of n has floats[i]; kinds do not share buckets. */
struct rt_layout_item {
    size_t floats;
    bool sparse;
    uint32_t bucket; /* out */
    size_t at;       /* out: floats from the bucket's beginning */
};
/* Fills bucket and at; number of buckets.  From the last item to the first: a bucket is closed
 * when the next item would lead over the limit, last_floats for the first one so made. */
uint32_t rt_layout(
    struct rt_layout_item *items, size_t n, size_t bucket_floats, size_t last_floats);

/* ---- the reducer ---- */

/* A sent entry: as it travels. */
struct rt_pair {
    uint32_t at; /* floats from the bucket's beginning */
    float value;
};

struct rt_bucket {
    size_t n; /* floats, padding included */
    bool sparse;
    uint32_t first, members; /* in reducer->order */
    uint32_t unready;
    float *values;         /* [n]; the group's, or owned with `halves` */
    uint16_t *halves;      /* [n], the group's: f16 or bf16 as they travel; NULL: f32 travels */
    float *sums;           /* owned [n], merged steps; NULL: none are */
    float *u, *v;          /* owned [n]; sparse */
    size_t k;              /* pairs of a rank this step */
    struct rt_pair *pairs; /* owned [P][k]; sparse */
    bool compressed;       /* this step */
    struct rt_work *work;
};

struct rt_slot {
    char *name; /* owned */
    size_t n, at;
    uint32_t bucket;
    float *own;             /* borrowed; the caller's memory */
    const float *parameter; /* borrowed */
    bool ready;
};

struct rt_reducer {
    struct rt_group *g;
    size_t n;
    struct rt_slot *slots;     /* owned [n] */
    struct rt_bucket *buckets; /* owned [n_buckets] */
    uint32_t *order;           /* owned [n]: gradients by bucket */
    uint32_t n_buckets, started;
    uint32_t merge_steps, merged; /* how many of them are in the sums */
    float merge_factor;
    enum rt_dtype wire;
    const struct rt_kernels *kernels; /* from f32 to the wire's halves and back */
    bool dgc_on;
    struct rt_dgc dgc;          /* sparsity owned */
    uint64_t step;              /* reductions made */
    uint32_t *places, *scratch; /* owned [m], [2][m], m: floats of the largest compressed one */
    uint64_t hash;              /* of list and options: the same on all ranks */
};

/* values.c */
bool rt_finite(const float *values, size_t n);

/* step.c: waits for what is under way and forgets the step. */
void rt_reducer_drain(struct rt_reducer *r);

/* dgc.c */
/* The most pairs a rank ever sends of bucket b. */
size_t rt_dgc_pairs_max(const struct rt_reducer *r, const struct rt_bucket *b);
/* Whether this step compresses it. */
bool rt_dgc_due(const struct rt_reducer *r, const struct rt_bucket *b);
/* Own pairs out of the gradients, to their place in b->pairs. */
void rt_dgc_encode(struct rt_reducer *r, struct rt_bucket *b);
/* Averages of all ranks' pairs into b->values.  CO_INVALID: a pair outside of the bucket. */
CO_MUST_CHECK int rt_dgc_decode(struct rt_reducer *r, struct rt_bucket *b, struct co_err *err);

/* ---- topk.c ---- */

/* Places of the k entries of v [n] that are largest by magnitude, ascending, NaN before all; of
 * equal ones the first.  May find fewer: candidates are what passes a threshold that a sample
 * gives.  scratch [2][n].  Number of places. */
size_t rt_top_k(const float *v, size_t n, size_t k, uint32_t *ret_at, uint32_t *scratch);
