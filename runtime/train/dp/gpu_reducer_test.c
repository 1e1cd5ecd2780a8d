/* A reducer of gradients in a GPU's memory gives, bit for bit, what one in main memory gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/gpu_testing.h"
#include "runtime/train/dp/dp.h"
#include "runtime/train/dp/dp_testing.h"

enum { N = 5, LARGEST = 20000, STEPS = 6, LEAVER = 1, LEAVES_AT = 3 };

static const size_t floats[N] = {3000, 1, LARGEST, 17, 300};

/* Where a gradient's memory is. */
enum place { BUCKET, MAIN, GROUP };

static const float sparsity[] = {0.75F, 0.99F};
static const struct rt_dgc dgc = {.momentum = 0.9F,
    .l2 = 0.5F,
    .clip_norm = 4,
    .rampup_begin_step = 2,
    .rampup_step = 3,
    .sparsity = sparsity,
    .n_sparsity = 2};

/* One row a way to reduce. */
static const struct way {
    const char *what;
    uint32_t ranks;
    enum place place;
    struct rt_reducer_options options;
} ways[] = {
    {"alone", 1, BUCKET, {0}},
    {"in the buckets", 2, BUCKET, {0}},
    {"small buckets", 4, BUCKET, {.bucket_bytes = 4000, .last_bucket_bytes = 100}},
    {"the caller's main memory", 2, MAIN, {.bucket_bytes = 4000}},
    {"the caller's GPU memory", 2, GROUP, {.bucket_bytes = 4000}},
    {"merged", 2, BUCKET, {.bucket_bytes = 4000, .merge_steps = 3}},
    {"merged, the caller's", 4, GROUP, {.merge_steps = 2, .merge_sum = true}},
    {"bf16", 4, BUCKET, {.bucket_bytes = 4000, .wire = RT_BF16}},
    {"f16, merged, the caller's", 2, MAIN, {.wire = RT_F16, .merge_steps = 2}},
    {"dgc", 4, BUCKET, {.bucket_bytes = 4000, .dgc = &dgc}},
    {"dgc, bf16, merged, the caller's", 2, GROUP, {.wire = RT_BF16, .merge_steps = 2, .dgc = &dgc}},
};
static const struct way *way;
static bool on_gpus; /* this turn */

static void place_ranks(const struct coll_world *w, uint32_t rank, struct rt_group_options *ret) {
    if (on_gpus) {
        gk_on_gpus(w, rank, ret);
    }
}

/* What a rank trains with. */
struct kit {
    struct rt_reducer *r;
    float *own[N], *parameter[N];
    float host[LARGEST];
};

static int kit_open(struct kit *k, struct rt_group *g, struct co_err *err) {
    struct rt_gradient list[N];
    for (size_t i = 0; i < N; i++) {
        size_t bytes = floats[i] * sizeof(float);
        for (size_t at = 0; at < floats[i]; at++) {
            k->host[at] = (float)(at % 5);
        }
        k->parameter[i] = gk_upload(g, k->host, bytes);
        k->own[i] = way->place == MAIN    ? co_xcalloc(floats[i], sizeof(float))
                    : way->place == GROUP ? gk_upload(g, k->host, bytes)
                                          : NULL;
        list[i] =
            (struct rt_gradient){.n = floats[i], .memory = k->own[i], .parameter = k->parameter[i]};
    }
    return rt_reducer_open(g, list, N, &way->options, &k->r, err);
}

static void kit_close(struct kit *k) {
    rt_reducer_close(k->r);
    for (size_t i = 0; i < N && way->place == MAIN; i++) {
        free(k->own[i]);
    }
}

/* Whole numbers, whose sums and means are exact in whatever order.  The last one is not there on
 * rank 0 in every second step. */
static int make(struct kit *k, struct rt_group *g, uint32_t step, struct co_err *err) {
    uint32_t rank = rt_group_rank(g);
    for (size_t n = 0; n < N; n++) {
        size_t i = (n + rank) % N;
        for (size_t at = 0; at < floats[i]; at++) {
            k->host[at] =
                (float)(int32_t)(tk_mix(rank + 10 * step, (uint32_t)i, (uint32_t)at) % 63) - 31;
        }
        CO_TRY(
            rt_group_copy(g, rt_reducer_values(k->r, i), k->host, floats[i] * sizeof(float), err));
        if (!(rank == 0 && step % 2 == 1 && i == N - 1)) {
            CO_TRY(rt_reducer_ready(k->r, i, err));
        }
    }
    return 0;
}

/* All averages, and what is known of them. */
static int add_to_hash(struct kit *k, struct rt_group *g, uint64_t *hash, struct co_err *err) {
    for (size_t i = 0; i < N; i++) {
        CO_TRY(
            rt_group_copy(g, k->host, rt_reducer_values(k->r, i), floats[i] * sizeof(float), err));
        CO_TRY(tk_same(g, k->host, floats[i], err));
        bool kind[] = {rt_reducer_compressed(k->r, i), rt_reducer_finite(k->r)};
        *hash = coll_hash_more(*hash, k->host, floats[i] * sizeof(float));
        *hash = coll_hash_more(*hash, kind, sizeof(kind));
    }
    return 0;
}

static int run_step(
    struct kit *k, struct rt_group *g, uint32_t step, uint64_t *hash, struct co_err *err) {
    bool due = false;
    CO_TRY(make(k, g, step, err));
    CO_TRY(rt_reducer_wait(k->r, &due, err));
    return due ? add_to_hash(k, g, hash, err) : 0;
}

static int trains(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static struct kit k;
    uint64_t hash = 1;
    int rc = kit_open(&k, g, err);
    for (uint32_t step = 0; step < STEPS && rc == 0; step++) {
        rc = run_step(&k, g, step, &hash, err);
    }
    kit_close(&k);
    w->shared->rank[rank].hash = hash;
    return rc;
}

static uint64_t turn(bool gpus, world_fn fn) {
    struct coll_world w = {.n = way->ranks, .set = place_ranks};
    on_gpus = gpus;
    world_start(&w, fn);
    assert_int_equal(world_end(&w, 0), 0);
    uint64_t hash = w.shared->rank[0].hash;
    world_done(&w);
    return hash;
}

static void gradients_of_gpus_are_reduced_as_those_in_main_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(ways); i++) {
        way = &ways[i];
        if (way->ranks <= gk_gpus && turn(true, trains) != turn(false, trains)) {
            fail_msg("%s: not what main memory gives", way->what);
        }
    }
}

/* ---- one that is not finite ---- */

static int find_nan(struct kit *k, struct rt_group *g, bool mine, struct co_err *err) {
    const float bad = NAN;
    bool all = true;
    CO_TRY(make(k, g, 0, err));
    CO_TRY(rt_reducer_wait(k->r, NULL, err));
    if (!rt_reducer_finite(k->r)) {
        return co_err_set(err, CO_INTERNAL, "numbers are none");
    }
    float *last = rt_reducer_values(k->r, 2) + floats[2] - 1;
    if (mine) {
        CO_TRY(rt_group_copy(g, last, &bad, sizeof(bad), err));
    }
    CO_TRY(rt_all_finite(g, last, 1, &all, err));
    CO_TRY(rt_reducer_run(k->r, NULL, err));
    if (all || rt_reducer_finite(k->r)) {
        return co_err_set(err, CO_INTERNAL, "a NaN is a number");
    }
    return 0;
}

static int finds(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static struct kit k;
    int rc = kit_open(&k, g, err);
    if (rc == 0) {
        rc = find_nan(&k, g, rank == w->n - 1, err);
    }
    kit_close(&k);
    return rc;
}

static void a_nan_on_one_gpu_is_seen_everywhere(void **state) {
    (void)state;
    way = &ways[1];
    on_gpus = true;
    struct coll_world w = {.n = gk_least(2), .set = place_ranks};
    assert_int_equal(world_run(&w, finds), 0);
}

/* ---- a rank that dies ---- */

/* Parameters are on the GPU, too: every step adds the average, s + 1 everywhere, to them. */
static int train_step(struct kit *k, struct rt_group *g, uint64_t *step, struct co_err *err) {
    for (size_t i = 0; i < N; i++) {
        size_t bytes = floats[i] * sizeof(float);
        for (size_t at = 0; at < floats[i]; at++) {
            k->host[at] = (float)(*step + 1);
        }
        CO_TRY(rt_group_copy(g, rt_reducer_values(k->r, i), k->host, bytes, err));
        CO_TRY(rt_reducer_ready(k->r, i, err));
    }
    CO_TRY(rt_reducer_wait(k->r, NULL, err));
    for (size_t i = 0; i < N; i++) {
        size_t bytes = floats[i] * sizeof(float);
        float average = 0;
        CO_TRY(rt_group_copy(g, k->host, k->parameter[i], bytes, err));
        CO_TRY(rt_group_copy(g, &average, rt_reducer_values(k->r, i), sizeof(average), err));
        for (size_t at = 0; at < floats[i]; at++) {
            k->host[at] += average;
        }
        CO_TRY(rt_group_copy(g, k->parameter[i], k->host, bytes, err));
    }
    ++*step;
    return 0;
}

static int move_to(struct kit *k, struct rt_group *from, struct rt_group *to,
    struct rt_values ret[N], struct co_err *err) {
    CO_TRY(rt_reducer_rebuild(k->r, to, err));
    for (size_t i = 0; i < N; i++) {
        size_t bytes = floats[i] * sizeof(float);
        CO_TRY(rt_group_copy(from, k->host, k->parameter[i], bytes, err));
        k->parameter[i] = gk_upload(to, k->host, bytes);
        ret[i] = (struct rt_values){.values = k->parameter[i], .n = floats[i]};
    }
    return 0;
}

/* In the new group: its memory, all that was the old one's with it. */
static int rebuild_smaller(struct kit *k, struct rt_group **g, uint64_t *step, struct co_err *err) {
    struct rt_group *less = NULL;
    struct rt_values list[N];
    int rc = rt_group_shrink(*g, NULL, &less, err);
    if (rc == 0) {
        rc = move_to(k, *g, less, list, err);
    }
    rt_group_close(*g);
    *g = less;
    CO_TRY(rc);
    return rt_broadcast_newest(less, step, list, N, err);
}

static int survives(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { LAST = 8, WANTED = LAST * (LAST + 1) / 2 };
    static struct kit k;
    struct rt_group *own = NULL;
    uint64_t step = 0;
    int rc = rt_group_split(g, 0, (int32_t)rank, &own, err), lost = 0;
    if (rc == 0) {
        rc = kit_open(&k, own, err);
    }
    while (step < LAST && rc == 0) {
        if (step == LEAVES_AT && rank == LEAVER) {
            (void)raise(SIGKILL);
        }
        rc = train_step(&k, own, &step, err);
        if (rc == CO_PEERLOST && lost++ == 0) {
            rc = rebuild_smaller(&k, &own, &step, err);
        }
    }
    for (size_t i = 0; i < N && rc == 0; i++) {
        size_t last = floats[i] - 1;
        rc = rt_group_copy(own, k.host, k.parameter[i] + last, sizeof(float), err);
        if (rc == 0 && (lost != 1 || k.host[0] != (float)(last % 5) + WANTED)) {
            rc = co_err_set(err, CO_INTERNAL, "%d lost, gradient %zu of %u ranks: %g", lost, i,
                w->n, (double)k.host[0]);
        }
    }
    kit_close(&k);
    rt_group_close(own);
    return rc;
}

static void training_on_gpus_continues_without_a_rank_that_died(void **state) {
    (void)state;
    way = &ways[2];
    on_gpus = true;
    struct coll_world w = {.n = 3, .set = place_ranks};
    world_start(&w, survives);
    assert_int_equal(world_end(&w, 1U << LEAVER), 0);
    world_done(&w);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest real[] = {
        cmocka_unit_test(gradients_of_gpus_are_reduced_as_those_in_main_memory),
        cmocka_unit_test(a_nan_on_one_gpu_is_seen_everywhere),
    };
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_gpus_are_reduced_as_those_in_main_memory),
        cmocka_unit_test(a_nan_on_one_gpu_is_seen_everywhere),
        cmocka_unit_test(training_on_gpus_continues_without_a_rank_that_died),
    };
    return gk_begin(argc, argv) ? cmocka_run_group_tests_name("real", real, NULL, NULL)
                                : cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
