/* Batch normalisation of several ranks against one that has all samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/dp/dp_testing.h"

enum { RANKS = 3, CHANNELS = 5, SAMPLES = 11, INNER = 30, MOST = SAMPLES * CHANNELS * INNER };

static const float EPSILON = 1e-5F;

/* Samples of each rank; offset: of x, in standard deviations. */
static const struct split {
    size_t n[RANKS], inner;
    bool last;
    float offset;
} splits[] = {
    {{4, 4, 3}, 30, false, 0},
    {{4, 4, 3}, 30, true, 0},
    {{1, 0, 10}, 13, false, 0},
    {{0, 11, 0}, 7, true, 0},
    {{2, 7, 2}, 1, false, 0},
    /* A sum of squares in f32 would have nothing left of the variance. */
    {{4, 4, 3}, 30, false, 1000},
    {{3, 1, 7}, 30, true, 1000},
};
static const struct split *split;

static size_t place(size_t n, size_t c, size_t i) {
    return split->last ? (n * split->inner + i) * CHANNELS + c
                       : (n * CHANNELS + c) * split->inner + i;
}

/* All samples, and what must come out. */
static struct {
    float x[MOST], dy[MOST], scale[CHANNELS];
    double mean[CHANNELS], variance[CHANNELS], dx[MOST], dscale[CHANNELS], dbias[CHANNELS];
} all;

static void serial_channel(size_t c) {
    size_t count = SAMPLES * split->inner;
    double sum = 0, squares = 0, s1 = 0, s2 = 0;
    for (size_t k = 0; k < count; k++) {
        sum += (double)all.x[place(k / split->inner, c, k % split->inner)];
    }
    double mean = sum / (double)count;
    for (size_t k = 0; k < count; k++) {
        double d = (double)all.x[place(k / split->inner, c, k % split->inner)] - mean;
        squares += d * d;
    }
    double variance = squares / (double)count, inv = 1 / sqrt(variance + (double)EPSILON);
    for (size_t k = 0; k < count; k++) {
        size_t at = place(k / split->inner, c, k % split->inner);
        s1 += (double)all.dy[at];
        s2 += (double)all.dy[at] * ((double)all.x[at] - mean) * inv;
    }
    for (size_t k = 0; k < count; k++) {
        size_t at = place(k / split->inner, c, k % split->inner);
        double xhat = ((double)all.x[at] - mean) * inv;
        all.dx[at] = (double)all.scale[c] * inv *
                     ((double)all.dy[at] - s1 / (double)count - xhat * s2 / (double)count);
    }
    all.mean[c] = mean;
    all.variance[c] = variance;
    all.dbias[c] = s1;
    all.dscale[c] = s2;
}

static void serial(void) {
    for (size_t i = 0; i < SAMPLES * CHANNELS * split->inner; i++) {
        all.x[i] = tk_value(0, 0, 0, i) + split->offset;
        all.dy[i] = tk_value(1, 0, 0, i);
    }
    for (size_t c = 0; c < CHANNELS; c++) {
        all.scale[c] = tk_value(2, 0, 0, c) + 2;
        serial_channel(c);
    }
}

static int close_to(const char *what, const float *got, const double *want, size_t n,
    double tolerance, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)got[i] - want[i]) <= tolerance * (1 + fabs(want[i])))) {
            return co_err_set(err, CO_INTERNAL, "split %td, %s at %zu: %.9g, not %.9g",
                split - splits, what, i, (double)got[i], want[i]);
        }
    }
    return 0;
}

/* f32 holds a mean of 1000 to 3e-5, which is a part of xhat. */
static int normalises(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    static float dx[MOST], mean[CHANNELS], variance[CHANNELS], inv[CHANNELS];
    float sums[2][CHANNELS];
    size_t before = 0;
    for (uint32_t r = 0; r < rank; r++) {
        before += split->n[r];
    }
    struct rt_bn shape = {split->n[rank], CHANNELS, split->inner, split->last};
    size_t from = before * CHANNELS * split->inner, n = shape.n * CHANNELS * split->inner;
    uint64_t count = 0;
    memcpy(dx, all.dy + from, n * sizeof(float)); /* in place */
    double tolerance = split->offset > 0 ? 2e-4 : 3e-6;
    CO_TRY(rt_bn_forward(g, &shape, all.x + from, EPSILON, mean, variance, inv, &count, err));
    CO_TRY(rt_bn_backward(
        g, &shape, all.x + from, dx, mean, inv, all.scale, count, dx, sums[0], sums[1], err));
    if (count != SAMPLES * split->inner) {
        return co_err_set(err, CO_INTERNAL, "count %llu", (unsigned long long)count);
    }
    CO_TRY(close_to("mean", mean, all.mean, CHANNELS, 1e-6, err));
    CO_TRY(close_to("variance", variance, all.variance, CHANNELS, 1e-6, err));
    CO_TRY(close_to("dx", dx, all.dx + from, n, tolerance, err));
    CO_TRY(rt_all_reduce(g, sums, sums, 2 * CHANNELS, RT_F32, RT_SUM, err));
    CO_TRY(close_to("dscale", sums[0], all.dscale, CHANNELS, 10 * tolerance, err));
    CO_TRY(close_to("dbias", sums[1], all.dbias, CHANNELS, 1e-5, err));
    CO_TRY(tk_same(g, mean, CHANNELS, err));
    return tk_same(g, inv, CHANNELS, err);
}

static void ranks_normalise_as_one(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(splits); i++) {
        split = &splits[i];
        serial();
        struct coll_world w = {.n = RANKS};
        assert_int_equal(world_run(&w, normalises), 0);
    }
}

static int of_nothing(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    (void)rank;
    struct rt_bn shape = {.channels = 1, .inner = 4};
    float out[3];
    uint64_t count;
    int rc = rt_bn_forward(g, &shape, out, 1, &out[0], &out[1], &out[2], &count, err);
    return rc == CO_INVALID ? 0 : co_err_set(err, CO_INTERNAL, "code %d", rc);
}

static void no_values_are_an_error(void **state) {
    (void)state;
    struct coll_world w = {.n = 2};
    assert_int_equal(world_run(&w, of_nothing), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_normalise_as_one),
        cmocka_unit_test(no_values_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
