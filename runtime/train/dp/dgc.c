/* Compressed gradients (deep gradient compression).  All ranks send the same number of pairs for a
 * bucket.  A rank that selects fewer fills up with zeros for the bucket's first float.
 *
 * u and v change only once all buckets of the step have been exchanged (step.c).  Until then the
 * pairs are selected from what v would be, and the gradients stay in the bucket.  A step that fails
 * and begins again then counts once, and nobody keeps a copy of u and v. */
#include <math.h>
#include <string.h>

#include "runtime/train/dp/dp.h"

static struct dp_slot *member(const struct rt_reducer *r, const struct dp_bucket *b, uint32_t i) {
    return &r->slots[r->order[b->first + i]];
}

/* The sparsity of this step.  The list is spread over rampup_step steps; after that its last entry
 * applies (as in Paddle's dgc_op.h, get_period_sparcity). */
static float sparsity_now(const struct rt_reducer *r) {
    uint64_t last = r->dgc.n_sparsity - 1, since = r->step - r->dgc.rampup_begin_step;
    uint64_t i = since >= r->dgc.rampup_step ? last : since * (last + 1) / r->dgc.rampup_step;
    return r->dgc.sparsity[i < last ? i : last];
}

/* How many entries of a gradient with n floats are sent. */
static size_t entries(size_t n, float sparsity) {
    size_t k = (size_t)((double)n * (1.0 - (double)sparsity));
    return k < 1 ? 1 : k;
}

static size_t pairs_of(const struct rt_reducer *r, const struct dp_bucket *b, float sparsity) {
    size_t k = 0;
    for (uint32_t i = 0; i < b->members; i++) {
        k += entries(member(r, b, i)->n, sparsity);
    }
    return k;
}

size_t dp_dgc_pairs_max(const struct rt_reducer *r, const struct dp_bucket *b) {
    size_t most = 0;
    for (size_t i = 0; i < r->dgc.n_sparsity; i++) {
        size_t k = pairs_of(r, b, r->dgc.sparsity[i]);
        most = k > most ? k : most;
    }
    return most;
}

bool dp_dgc_due(const struct rt_reducer *r, const struct dp_bucket *b) {
    return b->sparse && r->step >= r->dgc.rampup_begin_step;
}

/* The factor that limits a gradient's norm to the rank's share of clip_norm. */
static float clip(const struct rt_reducer *r, const float *g, size_t n) {
    if (!(r->dgc.clip_norm > 0)) {
        return 1;
    }
    double sum = 0, most = (double)r->dgc.clip_norm / sqrt(rt_group_size(r->g));
    for (size_t i = 0; i < n; i++) {
        sum += (double)g[i] * (double)g[i];
    }
    return sum > most * most ? (float)(most / sqrt(sum)) : 1;
}

/* Turns g into what is accumulated. */
static int prepare(struct rt_reducer *r, const struct dp_slot *s, float *g, struct co_err *err) {
    float scale = clip(r, g, s->n), l2 = r->dgc.l2;
    const float *w = l2 != 0 ? s->parameter : NULL;
    if (w && r->gpu) {
        float *copy = (float *)(void *)r->scratch;
        CO_TRY(rt_group_copy(r->g, copy, w, s->n * sizeof(*w), err));
        w = copy;
    }
    for (size_t i = 0; i < s->n; i++) {
        g[i] = scale * g[i] + (w ? l2 * w[i] : 0);
    }
    return 0;
}

static inline float next_u(const struct rt_dgc *d, float g, float u) {
    return d->nesterov ? d->momentum * (u + g) : d->momentum * u + g;
}

/* next: of u. */
static inline float next_v(const struct rt_dgc *d, float g, float next, float v) {
    return v + (d->nesterov ? next + g : next);
}

/* What v will be. */
static void foresee(const struct rt_dgc *d, const float *restrict g, const float *restrict u,
    const float *restrict v, size_t n, float *restrict ret_v) {
    for (size_t i = 0; i < n; i++) {
        ret_v[i] = next_v(d, g[i], next_u(d, g[i], u[i]), v[i]);
    }
}

static void accumulate(const struct rt_dgc *d, const float *restrict g, float *restrict u,
    float *restrict v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        u[i] = next_u(d, g[i], u[i]);
        v[i] = next_v(d, g[i], u[i], v[i]);
    }
}

int dp_dgc_encode(struct rt_reducer *r, struct dp_bucket *b, struct co_err *err) {
    float sparsity = sparsity_now(r);
    b->k = pairs_of(r, b, sparsity);
    b->own = rt_group_rank(r->g) * b->k;
    memset(b->pairs + b->own, 0, b->k * sizeof(*b->pairs));
    size_t to = b->own;
    for (uint32_t i = 0; i < b->members; i++) {
        struct dp_slot *s = member(r, b, i);
        float *g = dp_bucket_host(b) + s->at;
        size_t k = entries(s->n, sparsity);
        CO_TRY(prepare(r, s, g, err));
        foresee(&r->dgc, g, b->u + s->at, b->v + s->at, s->n, r->foreseen);
        s->sent = dp_top_k(r->foreseen, s->n, k, r->places, r->scratch);
        s->sent_at = to - b->own;
        for (size_t p = 0; p < s->sent; p++) {
            size_t at = r->places[p];
            b->pairs[to + p] =
                (struct dp_pair){.at = (uint32_t)(s->at + at), .value = r->foreseen[at]};
        }
        to += k;
    }
    return 0;
}

void dp_dgc_keep(const struct rt_reducer *r, struct dp_bucket *b) {
    for (uint32_t i = 0; i < b->members; i++) {
        const struct dp_slot *s = member(r, b, i);
        const struct dp_pair *sent = b->pairs + b->own + s->sent_at;
        const float *g = dp_bucket_host(b) + s->at;
        accumulate(&r->dgc, g, b->u + s->at, b->v + s->at, s->n);
        for (size_t p = 0; p < s->sent; p++) {
            b->u[sent[p].at] = b->v[sent[p].at] = 0;
        }
    }
}

int dp_dgc_check(const struct rt_reducer *r, const struct dp_bucket *b, struct co_err *err) {
    for (size_t i = 0; i < rt_group_size(r->g) * b->k; i++) {
        if (b->pairs[i].at >= b->n) {
            return co_err_set(err, CO_INVALID,
                "rank %zu sent an entry at %u of a bucket of %zu floats", i / b->k, b->pairs[i].at,
                b->n);
        }
    }
    return 0;
}

void dp_dgc_decode(const struct rt_reducer *r, struct dp_bucket *b) {
    uint32_t size = rt_group_size(r->g);
    float share = 1.0F / (float)size;
    float *values = dp_bucket_host(b);
    memset(values, 0, b->n * sizeof(float));
    for (size_t i = 0; i < size * b->k; i++) {
        values[b->pairs[i].at] += b->pairs[i].value * share;
    }
}
