/* Opens, rebuilds and closes a reducer: its layout, its memory, and the check that all ranks have
 * the same gradients and options. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/spare.h"
#include "runtime/train/dp/dp.h"

static const size_t default_bytes = 32 << 20, default_last_bytes = 1 << 20;
static const float default_sparsity = 0.999F;

/* ---- options ---- */

static int check_dgc(const struct rt_dgc *d, struct co_err *err) {
    for (size_t i = 0; i < d->n_sparsity; i++) {
        if (!(d->sparsity[i] >= 0 && d->sparsity[i] < 1)) {
            return co_err_set(err, CO_INVALID, "sparsity %g: expected at least 0 and below 1",
                (double)d->sparsity[i]);
        }
    }
    if (!isfinite(d->l2)) {
        return co_err_set(err, CO_INVALID, "l2 %g: expected a finite number", (double)d->l2);
    }
    if (!(d->clip_norm >= 0) || !(d->momentum >= 0 && d->momentum <= 1)) {
        return co_err_set(err, CO_INVALID, "momentum %g, clip_norm %g: expected 0 to 1, 0 or more",
            (double)d->momentum, (double)d->clip_norm);
    }
    return 0;
}

/* Of fields that have defaults, *o gets those. */
static int take_options(struct rt_reducer *r, struct rt_reducer_options *o, struct co_err *err) {
    if (o->wire != RT_F32 && o->wire != RT_F16 && o->wire != RT_BF16) {
        return co_err_set(err, CO_INVALID, "gradients do not travel as %s: f32, f16, bf16",
            o->wire < RT_DTYPES ? rt_dtype_name(o->wire) : "?");
    }
    r->wire = o->wire;
    r->error_feedback = o->error_feedback;
    r->merge_steps = o->merge_steps = o->merge_steps ? o->merge_steps : 1;
    o->merge_sum = o->merge_sum && o->merge_steps > 1;
    r->merge_factor = o->merge_sum ? 1.0F : 1.0F / (float)r->merge_steps;
    r->dgc_on = o->dgc;
    if (!o->dgc) {
        return 0;
    }
    CO_TRY(check_dgc(o->dgc, err));
    r->dgc = *o->dgc;
    size_t n = r->dgc.n_sparsity ? r->dgc.n_sparsity : 1;
    float *list = co_xcalloc(n, sizeof(*list));
    memcpy(list, r->dgc.n_sparsity ? r->dgc.sparsity : &default_sparsity, n * sizeof(*list));
    r->dgc.sparsity = list;
    r->dgc.n_sparsity = n;
    r->dgc.rampup_step = r->dgc.rampup_step ? r->dgc.rampup_step : 1;
    return 0;
}

/* ---- layout ---- */

static void make_slots(struct rt_reducer *r, const struct rt_gradient *gradients, size_t n) {
    r->n = n;
    r->slots = co_xcalloc(r->n, sizeof(*r->slots));
    for (size_t i = 0; i < r->n; i++) {
        char number[32];
        (void)snprintf(number, sizeof(number), "%zu", i);
        r->slots[i].name = co_xstrdup(gradients[i].name ? gradients[i].name : number);
        r->slots[i].n = gradients[i].n;
        r->slots[i].own = gradients[i].memory;
        r->slots[i].parameter = gradients[i].parameter;
    }
}

static void make_buckets(struct rt_reducer *r, const struct dp_layout_item *items) {
    r->buckets = co_xcalloc(r->n_buckets, sizeof(*r->buckets));
    r->order = co_xcalloc(r->n, sizeof(*r->order));
    for (size_t i = 0; i < r->n; i++) {
        struct dp_bucket *b = &r->buckets[items[i].bucket];
        size_t end = items[i].at + (items[i].floats + DP_ALIGN - 1) / DP_ALIGN * DP_ALIGN;
        b->n = end > b->n ? end : b->n;
        b->sparse = items[i].sparse;
        b->members++;
        r->slots[i].bucket = items[i].bucket;
        r->slots[i].at = items[i].at;
    }
    uint32_t first = 0;
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        struct dp_bucket *b = &r->buckets[k];
        b->first = first;
        first += b->members;
        for (size_t i = 0; i < r->n; i++) {
            if (r->slots[i].bucket == k) {
                r->order[b->first + b->unready++] = (uint32_t)i;
            }
        }
    }
}

static void lay_out(struct rt_reducer *r, const struct rt_reducer_options *o) {
    CO_AUTOFREE struct dp_layout_item *items = co_xcalloc(r->n, sizeof(*items));
    size_t largest = 0;
    for (size_t i = 0; i < r->n; i++) {
        items[i].floats = r->slots[i].n;
        items[i].sparse = r->dgc_on && r->slots[i].n >= DP_DGC_MIN;
        largest = items[i].sparse && items[i].floats > largest ? items[i].floats : largest;
    }
    size_t bytes = o->bucket_bytes ? o->bucket_bytes : default_bytes;
    size_t last = o->last_bucket_bytes ? o->last_bucket_bytes : default_last_bytes;
    r->n_buckets = dp_layout(items, r->n, bytes / sizeof(float), last / sizeof(float));
    make_buckets(r, items);
    r->places = largest ? co_xcalloc(largest, sizeof(*r->places)) : NULL;
    r->scratch = largest ? co_xcalloc(2 * largest, sizeof(*r->scratch)) : NULL;
    r->foreseen = largest ? co_xcalloc(largest, sizeof(*r->foreseen)) : NULL;
}

/* ---- memory ---- */

static int own_bytes(size_t bytes, void **ret, struct co_err *err) {
    void *memory = NULL;
    int rc = posix_memalign(&memory, DP_ALIGN * sizeof(float), bytes);
    if (rc) {
        return co_err_errno(err, rc, "%zu bytes for gradients", bytes);
    }
    memset(memory, 0, bytes);
    *ret = memory;
    return 0;
}

static int own_floats(size_t n, float **ret, struct co_err *err) {
    void *memory = NULL;
    int rc = own_bytes(n * sizeof(float), &memory, err);
    *ret = memory;
    return rc;
}

static int own_halves(size_t n, uint16_t **ret, struct co_err *err) {
    void *memory = NULL;
    int rc = own_bytes(n * sizeof(uint16_t), &memory, err);
    *ret = memory;
    return rc;
}

static bool in_halves(const struct rt_reducer *r, const struct dp_bucket *b) {
    return r->wire != RT_F32 && !b->sparse;
}

/* Allocates what does not depend on the group. */
static int bucket_open(const struct rt_reducer *r, struct dp_bucket *b, struct co_err *err) {
    bool merges = r->merge_steps > 1, halves = in_halves(r, b);
    if (merges) {
        CO_TRY(own_floats(b->n, &b->sums, err));
    }
    if (b->sparse) {
        CO_TRY(own_floats(b->n, &b->u, err));
        CO_TRY(own_floats(b->n, &b->v, err));
    }
    if (r->gpu && (merges || halves || b->sparse)) {
        CO_TRY(own_floats(b->n, &b->mirror, err));
    }
    if (halves && r->error_feedback) {
        CO_TRY(own_floats(b->n, &b->lost, err));
    }
    if (halves) {
        CO_TRY(r->gpu ? own_halves(b->n, &b->halves, err) : own_floats(b->n, &b->values, err));
    }
    return 0;
}

/* Whether the halves are in the group's memory; of other buckets the values are. */
static bool shares_halves(const struct rt_reducer *r, const struct dp_bucket *b) {
    return in_halves(r, b) && !r->gpu;
}

/* Allocates memory of group g to *ret_shared, and room for the pairs of all ranks. */
static int bucket_share(const struct rt_reducer *r, const struct dp_bucket *b, struct rt_group *g,
    void **ret_shared, struct dp_pair **ret_pairs, struct co_err *err) {
    size_t bytes = b->n * (shares_halves(r, b) ? sizeof(uint16_t) : sizeof(float));
    void *pairs = NULL;
    if (b->sparse) {
        size_t most = dp_dgc_pairs_max(r, b);
        CO_TRY(co_try_alloc(most * rt_group_size(g), sizeof(struct dp_pair), PTRDIFF_MAX,
            "compressed gradients", &pairs, err));
    }
    int rc = rt_group_alloc(g, bytes, ret_shared, err);
    if (rc < 0) {
        free(pairs);
        return rc;
    }
    *ret_pairs = pairs;
    return 0;
}

static void bucket_unshare(const struct rt_reducer *r, struct dp_bucket *b) {
    if (shares_halves(r, b)) {
        rt_group_free(r->g, b->halves);
        b->halves = NULL;
    } else {
        rt_group_free(r->g, b->values);
        b->values = NULL;
    }
    free(b->pairs);
    b->pairs = NULL;
}

static void bucket_done(const struct rt_reducer *r, struct dp_bucket *b) {
    bucket_unshare(r, b);
    free(b->values); /* NULL unless the bucket owns them */
    free(b->halves);
    free(b->mirror);
    free(b->sums);
    free(b->lost);
    free(b->u);
    free(b->v);
}

/* What an undecided step needs moves with the bucket. */
static void move_undecided(struct dp_bucket *b, float *values, struct dp_pair *pairs) {
    if (!b->mirror) {
        memcpy(values, b->values, b->n * sizeof(*values));
    }
    memcpy(pairs, b->pairs + b->own, b->k * sizeof(*pairs));
    b->own = 0;
}

/* Moves the buckets to memory of group g: all of them or, after an error, none. */
static int share(struct rt_reducer *r, struct rt_group *g, struct co_err *err) {
    CO_AUTOFREE void **shared = co_xcalloc(r->n_buckets, sizeof(*shared));
    CO_AUTOFREE struct dp_pair **pairs = co_xcalloc(r->n_buckets, sizeof(struct dp_pair *));
    int rc = 0;
    for (uint32_t k = 0; k < r->n_buckets && rc == 0; k++) {
        rc = bucket_share(r, &r->buckets[k], g, &shared[k], &pairs[k], err);
    }
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        struct dp_bucket *b = &r->buckets[k];
        if (rc < 0) {
            rt_group_free(g, shared[k]);
            free(pairs[k]);
            continue;
        }
        if (r->undecided && b->compressed && pairs[k]) {
            move_undecided(b, shared[k], pairs[k]);
        }
        bucket_unshare(r, b);
        b->pairs = pairs[k];
        if (shares_halves(r, b)) {
            b->halves = shared[k];
        } else {
            b->values = shared[k];
        }
    }
    return rc;
}

/* ---- agreement ---- */

/* What became of a step that failed here when all of its buckets had started.  If it has ended on
 * another rank, this rank's part is in averages that all will use, so it counts here, too; else it
 * begins again everywhere. */
static void decide(struct rt_reducer *r, uint64_t newest) {
    if (r->undecided && newest > r->step) {
        dp_reducer_keep(r);
    }
    r->undecided = false;
}

/* code: negated, as it came. */
static int failed_there(uint32_t rank, uint64_t code, struct co_err *err) {
    int rc = coll_code_of_other(code);
    return co_err_set(
        err, rc, "rank %u could not open or rebuild its reducer: %s", rank, co_code_name(rc));
}

/* Checks that all ranks have the same list and options, and that none has failed until here (own);
 * continues at the highest step of any rank.  Merged steps are kept only if all ranks are at the
 * same step with as many of them. */
static int agree(struct rt_reducer *r, struct rt_group *g, int own, struct co_err *err) {
    struct step_state {
        uint64_t alike[DP_ALIKE], step, merged, failed;
    } mine = {.step = r->step, .merged = r->merged, .failed = (uint64_t)-own};
    memcpy(mine.alike, r->alike, sizeof(mine.alike));
    uint32_t size = rt_group_size(g);
    CO_AUTOFREE struct step_state *all = co_xcalloc(size, sizeof(*all));
    int rc = coll_use_run(g, COLL_USE_REDUCER, &mine, all, sizeof(mine) / sizeof(uint64_t), RT_I64,
        own < 0 ? NULL : err);
    CO_TRY(own);
    CO_TRY(rc);
    bool even = true;
    uint64_t newest = r->step;
    for (uint32_t i = 0; i < size; i++) {
        const char *other = dp_alike_differs(all[i].alike, all[0].alike);
        if (all[i].failed) {
            return failed_there(i, all[i].failed, err);
        }
        if (other) {
            return co_err_set(err, CO_INVALID,
                "rank %u has another list of gradients, or other options, than rank 0: %s", i,
                other);
        }
        even &= all[i].step == all[0].step && all[i].merged == all[0].merged;
        newest = all[i].step > newest ? all[i].step : newest;
    }
    decide(r, newest);
    for (uint32_t k = 0; k < r->n_buckets && !even; k++) {
        if (r->buckets[k].sums) {
            memset(r->buckets[k].sums, 0, r->buckets[k].n * sizeof(float));
        }
    }
    r->merged = even ? r->merged : 0;
    r->step = newest;
    r->moved = true;
    return 0;
}

/* ---- open, rebuild, close ---- */

void rt_reducer_close(struct rt_reducer *r) {
    if (!r) {
        return;
    }
    dp_reducer_drain(r);
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        bucket_done(r, &r->buckets[k]);
    }
    for (size_t i = 0; i < r->n; i++) {
        free(r->slots[i].name);
    }
    if (r->dgc_on) {
        float *list = (float *)r->dgc.sparsity;
        free(list);
    }
    free(r->slots);
    free(r->buckets);
    free(r->order);
    free(r->places);
    free(r->scratch);
    free(r->foreseen);
    free(r);
}

/* What a rank does by itself. */
static int open_alone(struct rt_reducer *r, const struct rt_gradient *gradients, size_t n,
    const struct rt_reducer_options *options, struct co_err *err) {
    struct rt_reducer_options o = options ? *options : (struct rt_reducer_options){0};
    for (size_t i = 0; i < n; i++) {
        if (gradients[i].n < 1 || gradients[i].n > UINT32_MAX / 2) {
            return co_err_set(err, CO_INVALID, "gradient %zu has %zu floats", i, gradients[i].n);
        }
    }
    CO_TRY(CO_SPARE_CHECK(&o, "rt_reducer_options", err));
    CO_TRY(take_options(r, &o, err));
    make_slots(r, gradients, n);
    lay_out(r, &o);
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        CO_TRY(bucket_open(r, &r->buckets[k], err));
    }
    dp_alike_fill(r, &o, r->alike);
    return share(r, r->g, err);
}

int rt_reducer_open(struct rt_group *g, const struct rt_gradient *gradients, size_t n,
    const struct rt_reducer_options *options, struct rt_reducer **ret_reducer, struct co_err *err) {
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = co_xcalloc(1, sizeof(*r));
    r->g = g;
    r->gpu = dp_group_on_gpu(g);
    CO_TRY(agree(r, g, open_alone(r, gradients, n, options, err), err));
    *ret_reducer = co_steal_ptr(r);
    return 0;
}

static int move(struct rt_reducer *r, struct rt_group *g, struct co_err *err) {
    if (r->gpu != dp_group_on_gpu(g)) {
        return co_err_set(err, CO_INVALID, "gradients are on %s, those of the new group on %s",
            rt_group_device(r->g), rt_group_device(g));
    }
    CO_TRY(share(r, g, err));
    r->g = g;
    return 0;
}

int rt_reducer_rebuild(struct rt_reducer *r, struct rt_group *g, struct co_err *err) {
    dp_reducer_drain(r);
    return agree(r, g, move(r, g, err), err);
}

float *rt_reducer_values(const struct rt_reducer *r, size_t i) {
    const struct dp_slot *s = &r->slots[i];
    return s->own ? s->own : r->buckets[s->bucket].values + s->at;
}

uint32_t rt_reducer_bucket(const struct rt_reducer *r, size_t i) {
    return r->slots[i].bucket;
}

uint32_t rt_reducer_buckets(const struct rt_reducer *r) {
    return r->n_buckets;
}

float *rt_reducer_velocity(const struct rt_reducer *r, size_t i) {
    const struct dp_slot *s = &r->slots[i];
    return r->buckets[s->bucket].u ? r->buckets[s->bucket].u + s->at : NULL;
}

bool rt_reducer_compressed(const struct rt_reducer *r, size_t i) {
    return r->buckets[r->slots[i].bucket].compressed;
}
