/* Metrics over processes, and how the trainers of a parameter-server job form a group for them. The
 * formulas themselves are checked in golden_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/buf.h"
#include "runtime/train/dp/dp_testing.h"

enum { RANKS = 3, BUCKETS = 32 };

static double share(uint32_t rank, enum rt_metric metric, size_t i) {
    return (double)(tk_mix(rank, metric, (uint32_t)i) % 100 + 1);
}

/* Serial: all shares in one group of one. */
static int serial(enum rt_metric metric, size_t n, double *ret, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *alone = NULL;
    double all[2 * BUCKETS];
    for (size_t i = 0; i < n; i++) {
        all[i] = share(0, metric, i);
        for (uint32_t r = 1; r < RANKS; r++) {
            double x = share(r, metric, i);
            all[i] = metric == RT_METRIC_MAX   ? fmax(all[i], x)
                     : metric == RT_METRIC_MIN ? fmin(all[i], x)
                                               : all[i] + x;
        }
    }
    struct rt_group_options o = {.size = 1, .endpoints = (const char *const[]){""}};
    CO_TRY(rt_group_open(NULL, &o, &alone, err));
    return rt_metric(alone, metric, all, n, ret, err);
}

static int measure(struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const size_t lengths[RT_METRICS] = {7, 7, 7, 2, 2, 2, 2, 2 * BUCKETS};
    for (enum rt_metric m = 0; m < RT_METRICS; m++) {
        double in[2 * BUCKETS], got[2 * BUCKETS] = {0}, want[2 * BUCKETS] = {0};
        for (size_t i = 0; i < lengths[m]; i++) {
            in[i] = share(rank, m, i);
        }
        CO_TRY(rt_metric(g, m, in, lengths[m], got, err));
        CO_TRY(serial(m, lengths[m], want, err));
        for (size_t i = 0; i < lengths[m]; i++) {
            if (got[i] != want[i]) {
                return co_err_set(
                    err, CO_INTERNAL, "metric %d, at %zu: %g, not %g", (int)m, i, got[i], want[i]);
            }
        }
    }
    return 0;
}

static int measures(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    double zero[2] = {0}, out;
    CO_TRY(measure(g, rank, err));
    if (rt_metric(g, RT_METRIC_MAE, zero, 2, &out, err) != CO_INVALID ||
        rt_metric(g, RT_METRIC_AUC, zero, 1, &out, err) != CO_INVALID ||
        rt_metric(g, RT_METRIC_ACC, zero, 1, &out, err) != CO_INVALID) {
        return co_err_set(err, CO_INTERNAL, "nonsense was measured");
    }
    return 0;
}

static void ranks_measure_as_one(void **state) {
    (void)state;
    struct coll_world w = {.n = RANKS};
    assert_int_equal(world_run(&w, measures), 0);
}

static void scores_are_counted(void **state) {
    (void)state;
    double stat[2 * 5] = {0};
    const float scores[] = {0, 0.24F, 0.25F, 1}, labels[] = {1, 0, 1, 1};
    const double want[] = {1, 1, 0, 0, 1, 1, 0, 0, 0, 0};
    assert_int_equal(rt_auc_add(stat, 5, scores, labels, 4, NULL), 0);
    assert_memory_equal(stat, want, sizeof(want));
    static const float bad[] = {-0.1F, 1.001F, NAN, INFINITY};
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        float two[] = {0.5F, bad[i]};
        assert_int_equal(rt_auc_add(stat, 5, two, labels, 2, NULL), CO_INVALID);
        assert_memory_equal(stat, want, sizeof(want));
    }
}

/* 2^25 - 1 is no f32: it becomes 2^25. */
static void a_score_is_counted_within_many_buckets(void **state) {
    (void)state;
    enum { MANY = 1 << 25 };
    double *stat = calloc(2 * (size_t)MANY + 1, sizeof(*stat));
    assert_non_null(stat);
    const float scores[] = {1, 1, 0}, labels[] = {0, 1, 0};
    assert_int_equal(rt_auc_add(stat, MANY, scores, labels, 3, NULL), 0);
    assert_true(stat[MANY - 1] == 1 && stat[2 * (size_t)MANY - 1] == 1);
    assert_true(stat[MANY] == 1 && stat[2 * (size_t)MANY] == 0);
    free(stat);
    struct co_err err = {0};
    assert_int_equal(rt_auc_add(NULL, 0, scores, labels, 1, &err), CO_INVALID);
    assert_non_null(strstr(co_err_text(&err), "0 buckets"));
}

/* ---- as the operator says it ---- */

struct given {
    const char *what, *gloo;
    bool endpoints, short_list;
    const char *role;
    int code;
    const char *text;
};

static const struct given rows[] = {
    {"workers", "1", true, false, "TRAINER", 0, ""},
    {"workers and servers", "2", true, false, "TRAINER", 0, ""},
    {"off", "0", true, false, "TRAINER", CO_UNSUPPORTED, "spec.withGloo"},
    {"not said", NULL, true, false, "TRAINER", CO_UNSUPPORTED, "PADDLE_WITH_GLOO"},
    {"no endpoints", "1", false, false, "TRAINER", CO_INVALID, "PADDLE_TRAINER_ENDPOINTS has 0"},
    {"too few", "1", true, true, "TRAINER", CO_INVALID, "PADDLE_TRAINER_ENDPOINTS has 2"},
    {"a server", "2", true, false, "PSERVER", CO_INVALID, "not a trainer"},
};

static void note(const char *name, const char *value) {
    if (value) {
        (void)setenv(name, value, 1);
    } else {
        (void)unsetenv(name);
    }
}

static int trainer(const struct coll_world *w, const struct given *t, uint32_t rank) {
    struct co_err err = {0};
    struct rt_job *job = NULL;
    struct rt_group *g = NULL;
    struct rt_group_options o = {.form_timeout_ms = 60000};
    char list[200], index[16];
    bool as_invalid = true;
    (void)snprintf(list, sizeof(list), "%s,%s%s%s", w->endpoint[0], w->endpoint[1],
        t->short_list ? "" : ",", t->short_list ? "" : w->endpoint[2]);
    (void)snprintf(index, sizeof(index), "%u", rank);
    note("TRAINING_ROLE", t->role);
    note("PADDLE_TRAINER_ID", index);
    note("PADDLE_TRAINERS_NUM", "3");
    note("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    note("POD_IP", "127.0.0.1");
    note("PADDLE_PORT", "1");
    note("PADDLE_TRAINER_ENDPOINTS", t->endpoints ? list : NULL);
    note("PADDLE_WITH_GLOO", t->gloo);
    note("PADDLE_GLOO_RENDEZVOUS", "3");
    note("PADDLE_GLOO_HTTP_ENDPOINT", "127.0.0.1:19"); /* nobody listens there */
    int rc = rt_init(&job, &err);
    if (rc == 0 && t->code == CO_INVALID) { /* no smaller group in its place, by either call */
        as_invalid = rt_group_open(job, &o, &g, &err) == CO_INVALID && strstr(err.msg, t->text);
    }
    if (rc == 0) {
        rc = rt_trainers_open(job, &o, &g, &err);
    }
    bool as_given = as_invalid && rc == t->code && strstr(rc < 0 ? co_err_text(&err) : "", t->text);
    if (rc == 0) {
        rc = measure(g, rank, &err);
    }
    if (!as_given || (t->code == 0 && rc < 0)) {
        printf("# %s: rank %u: code %d: %s\n", t->what, rank, rc, co_err_text(&err));
    }
    rt_group_close(g);
    rt_done(job);
    return as_given && rc == t->code ? 0 : 1;
}

static void trainers_meet_as_the_operator_says(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct coll_world w = {.n = RANKS};
        world_ports(&w);
        (void)fflush(NULL);
        for (uint32_t r = 0; r < w.n; r++) {
            w.pid[r] = fork();
            if (w.pid[r] == 0) {
                leave(trainer(&w, &rows[i], r));
            }
        }
        for (uint32_t r = 0; r < w.n; r++) {
            int status = 1;
            assert_int_equal(waitpid(w.pid[r], &status, 0), w.pid[r]);
            assert_int_equal(status, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_measure_as_one),
        cmocka_unit_test(scores_are_counted),
        cmocka_unit_test(a_score_is_counted_within_many_buckets),
        cmocka_unit_test(trainers_meet_as_the_operator_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
