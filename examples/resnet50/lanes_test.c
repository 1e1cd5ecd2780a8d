/* Tests all forms of the batch normalisation loops against the formulas in doubles, and two
 * ranks against one rank with both batches. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/half.h"
#include "common/isa_testing.h"
#include "common/mem.h"
#include "examples/nn/rng.h"
#include "examples/resnet50/dnn.h"
#include "examples/resnet50/norm.h"
#include "examples/resnet50/team.h"

enum { BATCH = 6, CHANNELS = 32, PIXELS = 9, N = BATCH * CHANNELS * PIXELS };

struct values {
    float x[N], add[N], y[N], dy[N], dy2[N], d_add[N], d_x[N];
    float gamma[CHANNELS], beta[CHANNELS], d_gamma[CHANNELS], d_beta[CHANNELS];
    float running_mean[CHANNELS], running_variance[CHANNELS], mean[CHANNELS], inverse[CHANNELS];
    struct rn_lane_sums sums[64];
};

/* Place of (image, channel, pixel). */
static size_t at(size_t lanes, size_t image, size_t c, size_t pixel) {
    return ((image * (CHANNELS / lanes) + c / lanes) * PIXELS + pixel) * lanes + c % lanes;
}

static struct values *values_new(void) {
    struct values *v = co_xcalloc(1, sizeof(*v));
    struct nn_rng r;

    nn_rng_init(&r, 3, 0);
    nn_rng_fill_normal(&r, 5.0F, 2.0F, N, v->x); /* far from zero, as seen from its deviation */
    nn_rng_fill_normal(&r, 0.0F, 1.0F, N, v->add);
    nn_rng_fill_normal(&r, 0.0F, 1.0F, N, v->dy);
    nn_rng_fill_normal(&r, 0.0F, 1.0F, N, v->dy2);
    nn_rng_fill_uniform(&r, 0.5F, 1.5F, CHANNELS, v->gamma);
    nn_rng_fill_uniform(&r, -1.0F, 1.0F, CHANNELS, v->beta);
    return v;
}

static struct rn_norm norm_of(struct values *v, size_t lanes, bool relu, bool add, bool two) {
    return (struct rn_norm){.lanes = lanes,
        .batch = BATCH,
        .channels = CHANNELS,
        .pixels = PIXELS,
        .relu = relu,
        .gamma = v->gamma,
        .beta = v->beta,
        .d_gamma = v->d_gamma,
        .d_beta = v->d_beta,
        .running_mean = v->running_mean,
        .running_variance = v->running_variance,
        .mean = v->mean,
        .inverse = v->inverse,
        .sums = v->sums,
        .x = v->x,
        .add = add ? v->add : NULL,
        .y = v->y,
        .d_y = v->dy,
        .d_y2 = two ? v->dy2 : NULL,
        .d_add = add ? v->d_add : NULL,
        .d_x = v->d_x};
}

static void close_to(const char *what, float got, double want) {
    if (!(fabs((double)got - want) <= 1e-5 * (1.0 + fabs(want)))) {
        fail_msg("%s is %.8g, expected %.8g", what, (double)got, want);
    }
}

struct statistics {
    double mean, inverse, sum_g, sum_gz; /* z: x - mean */
};

static double out_of(const struct rn_norm *o, const struct statistics *s, size_t c, size_t i) {
    const float *x = o->x, *add = o->add;
    double y = (double)o->gamma[c] * ((double)x[i] - s->mean) * s->inverse + (double)o->beta[c] +
               (add ? (double)add[i] : 0.0);

    return o->relu && y < 0.0 ? 0.0 : y;
}

static double gradient_of(const struct rn_norm *o, const struct statistics *s, size_t c, size_t i) {
    const float *dy = o->d_y, *dy2 = o->d_y2;
    double g = (double)dy[i] + (dy2 ? (double)dy2[i] : 0.0);

    return o->relu && out_of(o, s, c, i) <= 0.0 ? 0.0 : g;
}

static struct statistics statistics_of(const struct rn_norm *o, size_t c) {
    struct statistics s = {0};
    const float *x = o->x;
    double variance = 0.0, m = BATCH * PIXELS;

    for (size_t k = 0; k < BATCH * PIXELS; k++) {
        s.mean += (double)x[at(o->lanes, k / PIXELS, c, k % PIXELS)] / m;
    }
    for (size_t k = 0; k < BATCH * PIXELS; k++) {
        variance += pow((double)x[at(o->lanes, k / PIXELS, c, k % PIXELS)] - s.mean, 2.0) / m;
    }
    s.inverse = 1.0 / sqrt(variance + RN_NORM_EPSILON);
    for (size_t k = 0; k < BATCH * PIXELS; k++) {
        size_t i = at(o->lanes, k / PIXELS, c, k % PIXELS);
        double g = gradient_of(o, &s, c, i);

        s.sum_g += g;
        s.sum_gz += g * ((double)x[i] - s.mean);
    }
    close_to("running mean", o->running_mean[c], 0.1 * s.mean);
    close_to("running variance", o->running_variance[c], 0.9 + 0.1 * variance);
    return s;
}

static void channel_check(const struct rn_norm *o, const struct values *v, size_t c) {
    struct statistics s = statistics_of(o, c);
    double m = BATCH * PIXELS, ii = s.inverse * s.inverse;

    close_to("d_beta", o->d_beta[c], s.sum_g);
    close_to("d_gamma", o->d_gamma[c], s.sum_gz * s.inverse);
    for (size_t k = 0; k < BATCH * PIXELS; k++) {
        size_t i = at(o->lanes, k / PIXELS, c, k % PIXELS);
        double g = gradient_of(o, &s, c, i), z = (double)v->x[i] - s.mean;

        close_to("y", v->y[i], out_of(o, &s, c, i));
        close_to("d_x", v->d_x[i],
            (double)o->gamma[c] * s.inverse * (g - s.sum_g / m - z * ii * s.sum_gz / m));
        if (o->add) {
            close_to("d_add", v->d_add[i], g);
        }
    }
}

/* Eight forms by two widths by numbers of threads: one has blocks to itself, many share them. */
static void formulas_check(enum co_isa isa) {
    const struct rn_share alone = {NULL, NULL, 1};
    const size_t threads[] = {1, 2, 7};
    struct rn_dnn dnn;

    if (!co_test_isa(isa)) {
        skip();
    }
    assert_string_equal(rn_lane_kernels_get(RN_F32, 8, 0)->name, co_isa_name(isa));
    assert_int_equal(rn_dnn_open(&dnn, RN_F32, NULL), 0); /* whose threads they are */
    rn_dnn_close(&dnn);
    for (unsigned form = 0; form < 2 * 2 * 2 * 2 * 3; form++) {
        struct values *v = values_new();
        struct rn_norm o = norm_of(v, form & 1 ? 16 : 8, form & 2, form & 4, form & 8);

        for (size_t c = 0; c < CHANNELS; c++) {
            v->running_variance[c] = 1.0F;
        }
        rn_team_set(threads[form / 16]);
        assert_int_equal(rn_team_size(), threads[form / 16]);
        assert_int_equal(rn_norm_forward(&o, &alone, NULL), 0);
        assert_int_equal(rn_norm_backward(&o, &alone, NULL), 0);
        for (size_t c = 0; c < CHANNELS; c++) {
            channel_check(&o, v, c);
        }
        free(v);
    }
    rn_team_set(1);
}

static void plain_values_and_gradients_are_those_of_the_formulas(void **state) {
    (void)state;
    formulas_check(CO_ISA_PLAIN);
}

static void avx2_values_and_gradients_are_those_of_the_formulas(void **state) {
    (void)state;
    formulas_check(CO_ISA_AVX2);
}

/* ---- every form against the plain one -------------------------------------------------------- */

static void narrow_in_place(float *values) {
    for (size_t i = 0; i < N; i++) {
        uint16_t half = co_bf16_narrow(values[i]);

        memcpy((char *)values + i * sizeof(half), &half, sizeof(half));
    }
}

static struct values *values_of(enum rn_type type) {
    struct values *v = values_new();
    float *const all[] = {v->x, v->add, v->dy, v->dy2};

    for (size_t i = 0; type == RN_BF16 && i < CO_ARRAY_LEN(all); i++) {
        narrow_in_place(all[i]);
    }
    return v;
}

static double value_at(const float *values, size_t i, enum rn_type type) {
    uint16_t half;

    memcpy(&half, (const char *)values + i * sizeof(half), sizeof(half));
    return (double)(type == RN_F32 ? values[i] : co_bf16_widen(half));
}

/* A bf16 may be its neighbour where the instruction sets round a sum differently. */
static void outputs_compare(
    const char *what, const float *a, const float *b, enum rn_type type, size_t n) {
    double digit = type == RN_F32 ? 1e-5 : 0x1p-7;

    for (size_t i = 0; i < n; i++) {
        double x = value_at(a, i, type), y = value_at(b, i, type);

        if (!(fabs(x - y) <= digit * fabs(y) + 1e-5)) {
            fail_msg("%s %zu is %.8g and %.8g", what, i, x, y);
        }
    }
}

static void sums_compare(
    const char *what, const struct rn_lane_sums *a, const struct rn_lane_sums *b, size_t lanes) {
    for (size_t i = 0; i < lanes; i++) {
        close_to(what, (float)a->sum[i], b->sum[i]);
        close_to(what, (float)a->square[i], b->square[i]);
    }
}

static struct rn_lane_values coefficients(const struct values *v) {
    struct rn_lane_values c;

    for (size_t i = 0; i < RN_LANES_MAX; i++) {
        c.mean[i] = 5.0F + v->beta[i];
        c.scale[i] = v->gamma[i];
        c.bias[i] = v->beta[RN_LANES_MAX + i];
        c.slope[i] = v->beta[i] / 2.0F;
        c.level[i] = v->gamma[RN_LANES_MAX + i];
    }
    return c;
}

/* Option bits: ReLU; a second input or gradient; y, not x, shows where ReLU was active. */
static struct rn_lane_rows rows_of(struct values *v, size_t n, unsigned options, bool back) {
    struct rn_lane_rows r = {.n = n, .x = v->x, .out = v->y, .relu = options & 1};

    if (back) {
        r.dy = v->dy;
        r.dy2 = options & 2 ? v->dy2 : NULL;
        r.y = options & 4 ? v->add : NULL;
    } else {
        r.add = options & 2 ? v->add : NULL;
    }
    return r;
}

static void loops_compare(const struct rn_lane_kernels *x, const struct rn_lane_kernels *y,
    enum rn_type type, size_t lanes, unsigned options) {
    struct values *a = values_of(type), *b = values_of(type);
    struct rn_lane_values c = coefficients(a);
    struct rn_lane_rows p = rows_of(a, N, options, false), q = rows_of(b, N, options, false);

    x->sums(&p, &c, &a->sums[0]);
    y->sums(&q, &c, &b->sums[0]);
    sums_compare("sum", &a->sums[0], &b->sums[0], lanes);
    x->apply(&p, &c);
    y->apply(&q, &c);
    outputs_compare("y", a->y, b->y, type, N);
    p = rows_of(a, N, options, true);
    q = rows_of(b, N, options, true);
    x->back_sums(&p, &c, &a->sums[1]);
    y->back_sums(&q, &c, &b->sums[1]);
    sums_compare("sum of gradients", &a->sums[1], &b->sums[1], lanes);
    outputs_compare("g", a->y, b->y, type, N);
    x->back_apply(&p, &c);
    y->back_apply(&q, &c);
    outputs_compare("d_x", a->y, b->y, type, N);
    free(a);
    free(b);
}

static void avx2_loops_agree_with_the_plain_ones(void **state) {
    (void)state;
    if (!co_test_isa(CO_ISA_AVX2)) {
        skip();
    }
    for (unsigned form = 0; form < 2 * 2 * 8; form++) {
        enum rn_type type = form & 1 ? RN_BF16 : RN_F32;
        size_t lanes = form & 2 ? 16 : 8;
        const struct rn_lane_kernels *fast = rn_lane_kernels_get(type, lanes, 0);
        const struct rn_lane_kernels *slow = rn_lane_kernels_get(type, lanes, 1);

        assert_string_equal(fast->name, "avx2");
        assert_string_equal(slow->name, "plain");
        assert_null(rn_lane_kernels_get(type, lanes, 2));
        loops_compare(fast, slow, type, lanes, form / 4);
    }
}

/* A second rank whose batch is the same as this one's: sums are twice as large. */
static int twice(void *arg, double *values, size_t n, struct co_err *err) {
    (void)err;
    ++*(int *)arg;
    for (size_t i = 0; i < n; i++) {
        values[i] *= 2.0;
    }
    return 0;
}

static void two_equal_ranks_are_as_one(void **state) {
    struct values *alone = values_new(), *shared = values_new();
    struct rn_norm a = norm_of(alone, 16, true, false, false);
    struct rn_norm b = norm_of(shared, 16, true, false, false);
    int calls = 0;
    const struct rn_share one = {NULL, NULL, 1}, two = {twice, &calls, 2};

    (void)state;
    assert_int_equal(rn_norm_forward(&a, &one, NULL), 0);
    assert_int_equal(rn_norm_forward(&b, &two, NULL), 0);
    assert_int_equal(rn_norm_backward(&a, &one, NULL), 0);
    assert_int_equal(rn_norm_backward(&b, &two, NULL), 0);
    assert_int_equal(calls, 2);
    for (size_t i = 0; i < N; i++) {
        close_to("y", shared->y[i], (double)alone->y[i]);
        close_to("d_x", shared->d_x[i], (double)alone->d_x[i]);
    }
    for (size_t c = 0; c < CHANNELS; c++) { /* this rank's own: averaged with gradients */
        close_to("d_gamma", shared->d_gamma[c], (double)alone->d_gamma[c]);
        close_to("d_beta", shared->d_beta[c], (double)alone->d_beta[c]);
    }
    free(alone);
    free(shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_values_and_gradients_are_those_of_the_formulas),
        cmocka_unit_test(avx2_values_and_gradients_are_those_of_the_formulas),
        cmocka_unit_test(avx2_loops_agree_with_the_plain_ones),
        cmocka_unit_test(two_equal_ranks_are_as_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
