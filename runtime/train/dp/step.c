/* What happens in a step: gradients become ready, buckets start in their order, and at the end
 * all of them are averages. */
#include <string.h>

#include "common/mem.h"
#include "runtime/train/dp/dp.h"

static struct rt_slot *member(const struct rt_reducer *r, const struct rt_bucket *b, uint32_t i) {
    return &r->slots[r->order[b->first + i]];
}

/* The step after the last one that is only added up. */
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

/* A gradient that is there: into the sums, or where it is reduced. */
static void take(struct rt_reducer *r, const struct rt_slot *s) {
    const struct rt_bucket *b = &r->buckets[s->bucket];
    float *values = b->values + s->at;
    const float *made = s->own ? s->own : values;
    if (!reducing(r)) {
        add(b->sums + s->at, made, s->n);
    } else if (b->sums) {
        add_scaled(values, made, b->sums + s->at, r->merge_factor, s->n);
    } else if (made != values) {
        memcpy(values, made, s->n * sizeof(float));
    }
}

/* One that was not made counts as zero. */
static void take_none(struct rt_reducer *r, const struct rt_slot *s) {
    const struct rt_bucket *b = &r->buckets[s->bucket];
    if (reducing(r)) {
        float *values = b->values + s->at;
        memset(values, 0, s->n * sizeof(float));
        if (b->sums) {
            add_scaled(values, values, b->sums + s->at, r->merge_factor, s->n);
        }
    }
}

static int bucket_start(struct rt_reducer *r, struct rt_bucket *b, struct co_err *err) {
    struct rt_coll c = {.kind = RT_ALL_REDUCE, .op = RT_AVG, .n = b->n};
    b->compressed = rt_dgc_due(r, b);
    if (b->compressed) {
        rt_dgc_encode(r, b);
        c = (struct rt_coll){.kind = RT_ALL_GATHER,
            .dtype = RT_I32,
            .in = b->pairs + rt_group_rank(r->g) * b->k,
            .out = b->pairs,
            .n = b->k * sizeof(*b->pairs) / sizeof(int32_t)};
    } else if (b->halves) {
        r->kernels->narrow[r->wire](b->halves, b->values, b->n);
        c.dtype = r->wire;
        c.in = c.out = b->halves;
    } else {
        c.dtype = RT_F32;
        c.in = c.out = b->values;
    }
    return rt_coll_start(r->g, &c, &b->work, err);
}

/* Those that are full, up to the first that is not. */
static int start_full(struct rt_reducer *r, struct co_err *err) {
    while (r->started < r->n_buckets && r->buckets[r->started].unready == 0) {
        int rc = bucket_start(r, &r->buckets[r->started++], err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* The next step begins. */
static void begin(struct rt_reducer *r) {
    for (size_t i = 0; i < r->n; i++) {
        r->slots[i].ready = false;
    }
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        r->buckets[k].unready = r->buckets[k].members;
    }
    r->started = 0;
}

void rt_reducer_drain(struct rt_reducer *r) {
    for (uint32_t k = 0; k < r->started; k++) {
        struct rt_bucket *b = &r->buckets[k];
        if (b->work) {
            (void)!rt_work_wait(co_steal_ptr(b->work), NULL);
        }
    }
    begin(r);
}

static int failed(struct rt_reducer *r, int rc) {
    rt_reducer_drain(r);
    return rc;
}

int rt_reducer_ready(struct rt_reducer *r, size_t i, struct co_err *err) {
    if (i >= r->n || r->slots[i].ready) {
        return co_err_set(err, CO_INVALID, "gradient %zu of %zu%s%s: ready %s", i, r->n,
            i < r->n ? ", " : "", i < r->n ? r->slots[i].name : "",
            i < r->n ? "twice in a step" : "though there is none");
    }
    struct rt_slot *s = &r->slots[i];
    take(r, s);
    s->ready = true;
    r->buckets[s->bucket].unready--;
    int rc = reducing(r) ? start_full(r, err) : 0;
    return rc < 0 ? failed(r, rc) : 0;
}

static int start_rest(struct rt_reducer *r, struct co_err *err) {
    for (size_t i = 0; i < r->n; i++) {
        if (!r->slots[i].ready) {
            take_none(r, &r->slots[i]);
            r->slots[i].ready = true;
            r->buckets[r->slots[i].bucket].unready--;
        }
    }
    return start_full(r, err);
}

/* From what has travelled to averages where the caller looks for them. */
static int bucket_finish(struct rt_reducer *r, struct rt_bucket *b, struct co_err *err) {
    int rc = rt_work_wait(co_steal_ptr(b->work), err);
    if (rc == 0 && b->compressed) {
        rc = rt_dgc_decode(r, b, err);
    } else if (rc == 0 && b->halves) {
        r->kernels->widen[r->wire](b->values, b->halves, b->n);
    }
    if (rc < 0) {
        return rc;
    }
    for (uint32_t i = 0; i < b->members; i++) {
        const struct rt_slot *s = member(r, b, i);
        if (s->own) {
            memcpy(s->own, b->values + s->at, s->n * sizeof(float));
        }
    }
    return 0;
}

int rt_reducer_wait(struct rt_reducer *r, bool *ret_due, struct co_err *err) {
    bool due = reducing(r);
    int rc = due ? start_rest(r, err) : 0;
    for (uint32_t k = 0; k < r->started && rc == 0; k++) {
        rc = bucket_finish(r, &r->buckets[k], err);
    }
    if (rc < 0) {
        return failed(r, rc);
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
        int rc = rt_reducer_ready(r, i, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rt_reducer_wait(r, ret_due, err);
}

bool rt_reducer_finite(const struct rt_reducer *r) {
    for (size_t i = 0; i < r->n; i++) {
        if (!rt_finite(rt_reducer_values(r, i), r->slots[i].n)) {
            return false;
        }
    }
    return true;
}
