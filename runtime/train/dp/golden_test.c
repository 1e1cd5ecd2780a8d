/* Compares our formulas with results of Paddle 3.3.1: testdata/goldens.txt, made by
 * testdata/goldens.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/mem.h"
#include "runtime/rt.h"

#define GOLDENS "runtime/train/dp/testdata/goldens.txt"

enum { MOST = 1024 };

static struct rt_group *alone;

/* Numbers of a line, taken one after the other. */
struct line {
    const char *at;
    char name[32];
};

static double next(struct line *l) {
    char *end;
    double x = strtod(l->at, &end);
    assert_ptr_not_equal(end, l->at);
    l->at = end;
    return x;
}

static uint64_t next_int(struct line *l) {
    return (uint64_t)next(l);
}

static void next_floats(struct line *l, size_t n, float *ret) {
    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (float)next(l);
    }
}

/* The line's last number. */
static void assert_last(struct line *l, double got, double tolerance) {
    double want = next(l);
    if (!(fabs(got - want) <= tolerance * fabs(want))) {
        fail_msg("%s: %.17g, not %.17g", l->name, got, want);
    }
}

static void assert_floats(struct line *l, size_t n, const float *got, double tolerance) {
    for (size_t i = 0; i < n; i++) {
        double want = next(l);
        if (!(fabs((double)got[i] - want) <= tolerance * (1 + fabs(want)))) {
            fail_msg("%s, at %zu: %.9g, not %.9g", l->name, i, (double)got[i], want);
        }
    }
}

/* ---- the optimizer ---- */

static void momentum(struct line *l) {
    bool nesterov = next(l) != 0;
    double mu = next(l), l2 = next(l), lr = next(l);
    size_t n = next_int(l), steps = next_int(l);
    float w[MOST], g[MOST];
    char rule[64];
    (void)snprintf(
        rule, sizeof(rule), "%s:mu=%g,l2=%g", nesterov ? "nesterov" : "momentum", mu, l2);
    struct rt_optimizer *o = NULL;
    assert_int_equal(rt_optimizer_new(rule, n, &o, NULL), 0);
    next_floats(l, n, w);
    for (size_t s = 0; s < steps; s++) {
        next_floats(l, n, g);
        rt_optimizer_step(o, lr, w, g);
    }
    assert_floats(l, n, w, 1e-6);
    assert_int_equal(rt_optimizer_state(o).n, n);
    rt_optimizer_free(o);
}

/* ---- metrics: the shares of all ranks are added up here, over processes in fleet_metrics_test.c
 * ---- */

static double metric_of(enum rt_metric metric, const double *in, size_t n) {
    struct co_err err = {0};
    double value = 0;
    if (rt_metric(alone, metric, in, n, &value, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    return value;
}

static void auc(struct line *l) {
    size_t ranks = next_int(l), n = 2 * next_int(l);
    double sums[MOST] = {0};
    for (size_t i = 0; i < ranks * n; i++) {
        sums[i % n] += next(l);
    }
    assert_last(l, metric_of(RT_METRIC_AUC, sums, n), 0);
}

static void quotient(struct line *l) {
    enum rt_metric metric = strcmp(l->name, "acc") == 0   ? RT_METRIC_ACC
                            : strcmp(l->name, "mae") == 0 ? RT_METRIC_MAE
                            : strcmp(l->name, "mse") == 0 ? RT_METRIC_MSE
                                                          : RT_METRIC_RMSE;
    double sums[2] = {0};
    for (size_t i = 2 * next_int(l); i > 0; i--) {
        sums[i % 2] += next(l);
    }
    assert_last(l, metric_of(metric, sums, 2), 0);
}

static void auc_stat(struct line *l) {
    size_t buckets = next_int(l), n = next_int(l);
    float scores[MOST], labels[MOST];
    double stat[MOST] = {0};
    next_floats(l, n, scores);
    next_floats(l, n, labels);
    assert_int_equal(rt_auc_add(stat, buckets, scores, labels, n, NULL), 0);
    for (size_t i = 0; i < 2 * buckets; i++) {
        assert_last(l, stat[i], 0);
    }
}

/* ---- batch normalisation: f32 there ---- */

static void norm(struct line *l) {
    struct rt_bn shape = {.channels_last = next(l) != 0};
    shape.n = next_int(l);
    shape.channels = next_int(l);
    shape.inner = next_int(l);
    float epsilon = (float)next(l), x[MOST], dy[MOST], scale[MOST], mean[MOST], variance[MOST];
    float inv_std[MOST], dx[MOST], dscale[MOST], dbias[MOST];
    size_t c = shape.channels, all = shape.n * c * shape.inner;
    uint64_t count = 0;
    next_floats(l, all, x);
    next_floats(l, all, dy);
    next_floats(l, c, scale);
    assert_int_equal(
        rt_bn_forward(alone, &shape, x, epsilon, mean, variance, inv_std, &count, NULL), 0);
    assert_int_equal(count, shape.n * shape.inner);
    assert_int_equal(
        rt_bn_backward(alone, &shape, x, dy, mean, inv_std, scale, count, dx, dscale, dbias, NULL),
        0);
    assert_floats(l, c, mean, 1e-6);
    assert_floats(l, c, variance, 1e-6);
    assert_floats(l, all, dx, 2e-6);
    assert_floats(l, c, dscale, 2e-6);
    assert_floats(l, c, dbias, 2e-6);
}

static const struct {
    const char *name;
    void (*check)(struct line *l);
    size_t lines; /* at least */
} checks[] = {
    {"momentum", momentum, 3},
    {"auc", auc, 4},
    {"acc", quotient, 1},
    {"mae", quotient, 1},
    {"mse", quotient, 1},
    {"rmse", quotient, 1},
    {"auc_stat", auc_stat, 2},
    {"norm", norm, 3},
};

static void check_line(struct line *l, size_t *seen) {
    for (size_t i = 0; i < CO_ARRAY_LEN(checks); i++) {
        if (strcmp(checks[i].name, l->name) == 0) {
            checks[i].check(l);
            assert_int_equal(*l->at, '\n'); /* all of it was looked at */
            seen[i]++;
            return;
        }
    }
    fail_msg("a line of \"%s\"", l->name);
}

static void numbers_are_those_of_paddle(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    struct co_err err = {0};
    size_t seen[CO_ARRAY_LEN(checks)] = {0};
    if (co_file_read(GOLDENS, 1 << 20, &text, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    struct line l = {.at = text.data};
    while (*l.at) {
        size_t len = strcspn(l.at, " ");
        assert_true(len < sizeof(l.name));
        memcpy(l.name, l.at, len);
        l.name[len] = '\0';
        l.at += len;
        check_line(&l, seen);
        l.at++;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(checks); i++) {
        assert_true(seen[i] >= checks[i].lines);
    }
}

static int open_alone(void **state) {
    (void)state;
    return rt_group_open(NULL,
        &(struct rt_group_options){.size = 1, .endpoints = (const char *const[]){""}}, &alone,
        NULL);
}

static int close_alone(void **state) {
    (void)state;
    rt_group_close(alone);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_paddle),
    };
    return cmocka_run_group_tests(tests, open_alone, close_alone);
}
