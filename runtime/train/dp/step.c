/* A training step: gradients become ready, buckets start in order, and at the end the caller's
 * gradients are averages.  All ranks start buckets in the same order, as collective calls need. */
#include <math.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/train/dp/dp.h"

static struct dp_slot *member(const struct rt_reducer *r, const struct dp_bucket *b, uint32_t i) {
    return &r->slots[r->order[b->first + i]];
}

/* Whether this step reduces; with merge_steps, the steps before it only add to the sums. */
static bool reducing(const struct rt_reducer *r) {
    return r->merged + 1 == r->merge_steps;
}

static void add(float *restrict sums, const float *restrict values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        sums[i] += values[i];
    }
}

static void add_scaled(float *values, const float *own, const float *sums, float factor, size_t n) {
    for (size_t i = 0; i < n; i++) {
        values[i] = (own[i] + sums[i]) * factor;
    }
}

static int copy(
    const struct rt_reducer *r, float *to, const float *from, size_t n, struct co_err *err) {
    return to == from ? 0 : rt_group_copy(r->g, to, from, n * sizeof(float), err);
}

/* Where the step writes a gradient. */
static const float *made_at(const struct dp_bucket *b, const struct dp_slot *s) {
    return s->own ? s->own : b->values + s->at;
}

/* Takes a gradient that is ready: copies it to where it is merged or reduced.  A step that failed
 * before does not count from now on. */
static int take(struct rt_reducer *r, const struct dp_slot *s, struct co_err *err) {
    const struct dp_bucket *b = &r->buckets[s->bucket];
    r->undecided = false;
    float *values = dp_bucket_host(b) + s->at;
    const float *made = made_at(b, s);
    if (b->mirror) {
        CO_TRY(copy(r, values, made, s->n, err));
        made = values;
    }
    if (!reducing(r)) {
        return 0;
    }
    if (b->sums) {
        add_scaled(values, made, b->sums + s->at, r->merge_factor, s->n);
        return 0;
    }
    return copy(r, values, made, s->n, err);
}

/* Adds a step's gradients to the sums.  Only at its end: a step that fails begins again, and must
 * not count twice. */
static void merge(struct rt_reducer *r) {
    for (size_t i = 0; i < r->n; i++) {
        const struct dp_slot *s = &r->slots[i];
        const struct dp_bucket *b = &r->buckets[s->bucket];
        if (s->ready) {
            add(b->sums + s->at, b->mirror ? b->mirror + s->at : made_at(b, s), s->n);
        }
    }
}

/* A gradient that was not made ready counts as zero. */
static int take_none(struct rt_reducer *r, const struct dp_slot *s, struct co_err *err) {
    const struct dp_bucket *b = &r->buckets[s->bucket];
    float *values = dp_bucket_host(b) + s->at;
    r->undecided = false;
    if (!reducing(r)) {
        return 0;
    }
    if (r->gpu && !b->mirror) {
        CO_AUTOFREE float *zeros = co_xcalloc(s->n, sizeof(*zeros));
        return copy(r, values, zeros, s->n, err);
    }
    memset(values, 0, s->n * sizeof(float));
    if (b->sums) {
        add_scaled(values, values, b->sums + s->at, r->merge_factor, s->n);
    }
    return 0;
}

/* What rounding takes is added to the next step's gradients; an overflow, whose step the caller
 * skips, leaves nothing behind. */
static void keep_lost(const struct rt_reducer *r, struct dp_bucket *b) {
    enum { BLOCK = 2048 };
    enum co_half half = coll_half(r->wire);
    const float *values = dp_bucket_host(b);
    uint16_t sent[BLOCK]; /* again: the bucket's halves are the average by now */
    for (size_t from = 0; from < b->n; from += BLOCK) {
        size_t n = b->n - from < BLOCK ? b->n - from : BLOCK;
        co_half_narrow(half, sent, values + from, n);
        co_half_widen(half, b->lost + from, sent, n);
    }
    for (size_t i = 0; i < b->n; i++) {
        float lost = values[i] - b->lost[i];
        b->lost[i] = isfinite(lost) ? lost : 0;
    }
}

/* Rounds the bucket for sending, with what rounding took in the step before. */
static void round_bucket(const struct rt_reducer *r, struct dp_bucket *b) {
    float *values = dp_bucket_host(b);
    if (b->lost) {
        add(values, b->lost, b->n);
    }
    co_half_narrow(coll_half(r->wire), b->halves, values, b->n);
}

void dp_reducer_keep(struct rt_reducer *r) {
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        struct dp_bucket *b = &r->buckets[k];
        if (b->compressed) {
            dp_dgc_keep(r, b);
        } else if (b->lost) {
            keep_lost(r, b);
        }
    }
    r->undecided = false;
}

static int bucket_start(struct rt_reducer *r, struct dp_bucket *b, struct co_err *err) {
    struct rt_coll c = {.kind = RT_ALL_REDUCE, .op = RT_AVG, .n = b->n};
    b->compressed = dp_dgc_due(r, b);
    if (b->compressed) {
        CO_TRY(dp_dgc_encode(r, b, err));
        c = (struct rt_coll){.kind = RT_ALL_GATHER,
            .op = (enum rt_op)COLL_USE_COMPRESSED,
            .dtype = RT_I32,
            .in = b->pairs + rt_group_rank(r->g) * b->k,
            .out = b->pairs,
            .n = b->k * sizeof(*b->pairs) / sizeof(int32_t)};
    } else if (b->halves) {
        round_bucket(r, b);
        c.dtype = r->wire;
        c.in = c.out = b->halves;
    } else {
        CO_TRY(copy(r, b->values, dp_bucket_host(b), b->n, err));
        c.dtype = RT_F32;
        c.in = c.out = b->values;
    }
    return b->compressed ? coll_use_start(r->g, &c, &b->work, err)
                         : rt_coll_start(r->g, &c, &b->work, err);
}

/* Starts buckets in order, up to the first one that is not full. */
static int start_full(struct rt_reducer *r, struct co_err *err) {
    while (r->started < r->n_buckets && r->buckets[r->started].unready == 0) {
        CO_TRY(bucket_start(r, &r->buckets[r->started++], err));
    }
    r->undecided = r->started == r->n_buckets;
    return 0;
}

/* Begins the next step. */
static void begin(struct rt_reducer *r) {
    for (size_t i = 0; i < r->n; i++) {
        r->slots[i].ready = false;
    }
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        r->buckets[k].unready = r->buckets[k].members;
    }
    r->started = 0;
}

void dp_reducer_drain(struct rt_reducer *r) {
    for (uint32_t k = 0; k < r->started; k++) {
        struct dp_bucket *b = &r->buckets[k];
        if (b->work) {
            (void)!rt_work_wait(co_steal_ptr(b->work), NULL);
        }
    }
    begin(r);
}

static int failed(struct rt_reducer *r, int rc) {
    dp_reducer_drain(r);
    return rc;
}

static int check_unready(const struct rt_reducer *r, size_t i, struct co_err *err) {
    if (i >= r->n || r->slots[i].ready) {
        return co_err_set(err, CO_INVALID, "gradient %zu of %zu%s%s: ready %s", i, r->n,
            i < r->n ? ", " : "", i < r->n ? r->slots[i].name : "",
            i < r->n ? "twice in a step" : "though there is none");
    }
    return 0;
}

int rt_reducer_ready(struct rt_reducer *r, size_t i, struct co_err *err) {
    CO_TRY(check_unready(r, i, err));
    struct dp_slot *s = &r->slots[i];
    int rc = take(r, s, err);
    s->ready = true;
    r->buckets[s->bucket].unready--;
    rc = rc == 0 && reducing(r) ? start_full(r, err) : rc;
    return rc < 0 ? failed(r, rc) : 0;
}

int rt_reducer_put(struct rt_reducer *r, const size_t *which, const float *const *from, size_t n,
    struct co_err *err) {
    for (size_t k = 0; k < n; k++) {
        CO_TRY(check_unready(r, which[k], err));
        if (from[k]) {
            float *to = rt_reducer_values(r, which[k]);
            int rc = copy(r, to, from[k], r->slots[which[k]].n, err);
            if (rc < 0) {
                return failed(r, rc);
            }
        }
        CO_TRY(rt_reducer_ready(r, which[k], err));
    }
    return 0;
}

int rt_reducer_get(const struct rt_reducer *r, const size_t *which, float *const *to, size_t n,
    struct co_err *err) {
    for (size_t k = 0; k < n; k++) {
        if (which[k] >= r->n) {
            return co_err_set(
                err, CO_INVALID, "gradient %zu of %zu: there is none", which[k], r->n);
        }
        CO_TRY(copy(r, to[k], rt_reducer_values(r, which[k]), r->slots[which[k]].n, err));
    }
    return 0;
}

static int start_rest(struct rt_reducer *r, struct co_err *err) {
    for (size_t i = 0; i < r->n; i++) {
        if (!r->slots[i].ready) {
            CO_TRY(take_none(r, &r->slots[i], err));
            r->slots[i].ready = true;
            r->buckets[r->slots[i].bucket].unready--;
        }
    }
    return start_full(r, err);
}

/* Converts a bucket's result, and copies the averages to the caller's memory. */
static int bucket_finish(struct rt_reducer *r, struct dp_bucket *b, struct co_err *err) {
    float *host = dp_bucket_host(b);
    int rc = 0;
    if (b->compressed) {
        dp_dgc_decode(r, b);
    } else if (b->halves) {
        co_half_widen(coll_half(r->wire), host, b->halves, b->n);
    }
    if (b->compressed || b->halves) {
        rc = copy(r, b->values, host, b->n, err);
    }
    for (uint32_t i = 0; i < b->members && rc == 0; i++) {
        const struct dp_slot *s = member(r, b, i);
        rc = s->own ? copy(r, s->own, b->values + s->at, s->n, err) : 0;
    }
    return rc;
}

/* Waits for the results of all buckets.  Those that change what this rank keeps are finished only
 * when all have come: a step that fails until then has changed nothing. */
static int finish(struct rt_reducer *r, struct co_err *err) {
    for (uint32_t k = 0; k < r->started; k++) {
        struct dp_bucket *b = &r->buckets[k];
        CO_TRY(rt_work_wait(co_steal_ptr(b->work), err));
        CO_TRY(b->compressed ? dp_dgc_check(r, b, err) : 0);
        CO_TRY(dp_bucket_keeps(b) ? 0 : bucket_finish(r, b, err));
    }
    dp_reducer_keep(r);
    for (uint32_t k = 0; k < r->started; k++) {
        struct dp_bucket *b = &r->buckets[k];
        CO_TRY(dp_bucket_keeps(b) ? bucket_finish(r, b, err) : 0);
    }
    return 0;
}

int rt_reducer_wait(struct rt_reducer *r, bool *ret_due, struct co_err *err) {
    bool due = reducing(r);
    int rc = due ? start_rest(r, err) : 0;
    rc = rc == 0 && due ? finish(r, err) : rc;
    if (rc < 0) {
        return failed(r, rc);
    }
    if (!due) {
        merge(r);
    }
    for (uint32_t k = 0; k < r->n_buckets && due; k++) {
        if (r->buckets[k].sums) {
            memset(r->buckets[k].sums, 0, r->buckets[k].n * sizeof(float));
        }
    }
    r->merged = due ? 0 : r->merged + 1;
    r->step += due;
    begin(r);
    if (ret_due) {
        *ret_due = due;
    }
    return 0;
}

int rt_reducer_run(struct rt_reducer *r, bool *ret_due, struct co_err *err) {
    for (size_t i = 0; i < r->n; i++) {
        CO_TRY(rt_reducer_ready(r, i, err));
    }
    return rt_reducer_wait(r, ret_due, err);
}

bool rt_reducer_finite(const struct rt_reducer *r) {
    bool finite = true;
    for (size_t i = 0; i < r->n && finite; i++) {
        int rc = dp_finite(r->g, rt_reducer_values(r, i), r->slots[i].n, &finite, NULL);
        finite = finite && rc == 0; /* a GPU that cannot be read counts as not finite */
    }
    return finite;
}
