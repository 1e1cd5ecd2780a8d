/* Local SGD: which steps average, and what comes out, against a serial form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/dp/dp_testing.h"

enum { STEPS = 16, FLOATS = 50 };

/* due: a letter a step, from step 1; what Paddle's conditions give by hand. */
static const struct average_plan {
    const char *what;
    struct rt_local_sgd options;
    const char *due;
    double loss[STEPS]; /* of rank 0 at each step; others' is twice that */
    double lr[STEPS];
} plans[] = {
    {"by default", {0}, "xxxxxxxxxxxxxxxx", {0}, {0}},
    {"three", {.k_steps = 3}, "x..x..x..x..x..x", {0}, {0}},
    {"three, from step 4 on", {.k_steps = 3, .begin_step = 4}, "xxxx..x..x..x..x", {0}, {0}},
    /* Step 5: the loss is the first one, ceil(sqrt(4)) = 2. Step 7: a quarter of it, 1. Step 8: at
     * a tenth of the rate, too, ceil(sqrt(10)) = 4. Step 12: 1600 times it, at most 16. */
    {"adaptive", {.k_steps = 4, .adaptive = true}, "x...x.xx...x....",
        {1, [4] = 1, [6] = .25, [7] = .25, [11] = 1600}, {1, [4] = 1, [6] = 1, [7] = .1, [11] = 1}},
};
static const struct average_plan *plan;

static int trains(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct rt_gradient list[2] = {{.n = FLOATS}, {.n = 3}};
    struct rt_reducer *r = NULL;
    struct rt_local_sgd s = plan->options;
    double mine[WORLD_MAX] = {0};
    int rc = rt_reducer_open(g, list, 2, NULL, &r, err);
    for (uint32_t step = 0; step < STEPS && rc == 0; step++) {
        bool averaged = false, due = plan->due[step] == 'x';
        double mean = 0, loss = plan->loss[step] * (rank ? 2 : 1);
        for (uint32_t k = 0; k < w->n; k++) {
            mine[k] += k + step;
            mean += mine[k] / w->n;
        }
        for (uint32_t k = 0; k < w->n && due; k++) {
            mine[k] = mean;
        }
        rt_reducer_values(r, 0)[FLOATS - 1] += (float)(rank + step);
        rc = rt_local_sgd_step(&s, r, loss, plan->lr[step], &averaged, err);
        float got = rc < 0 ? 0 : rt_reducer_values(r, 0)[FLOATS - 1];
        if (rc == 0 && (averaged != due || fabs((double)got - mine[rank]) > 1e-4)) {
            rc = co_err_set(err, CO_INTERNAL, "%s: step %u: averaged %d, %g, not %g", plan->what,
                step + 1, averaged, (double)got, mine[rank]);
        }
    }
    rt_reducer_close(r);
    return rc;
}

static void parameters_are_averaged_when_due(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(plans); i++) {
        plan = &plans[i];
        struct coll_world w = {.n = 3};
        assert_int_equal(world_run(&w, trains), 0);
    }
}

/* An average has ended on rank 0, and failed on the others: after a rebuild all continue with what
 * rank 0 has. */
static int falls_behind(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    struct rt_gradient list[1] = {{.n = FLOATS}};
    CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
    struct rt_local_sgd s = {.k_steps = 3}, before = s;
    CO_TRY(rt_reducer_open(g, list, 1, NULL, &r, err));
    for (uint32_t step = 0; step < 4; step++) { /* 1 and 4 are due */
        before = s;
        CO_TRY(rt_local_sgd_step(&s, r, 0, 0, NULL, err));
    }
    s = rank == 0 ? s : before;
    CO_TRY(rt_reducer_rebuild(r, g, err));
    for (uint32_t step = 4; step < STEPS; step++) {
        bool averaged = false;
        CO_TRY(rt_local_sgd_step(&s, r, 0, 0, &averaged, err));
        if (averaged != (step % 3 == 0) || s.step != step + 1) {
            return co_err_set(
                err, CO_INTERNAL, "step %u: averaged %d, at %d", step + 1, averaged, (int)s.step);
        }
    }
    return 0;
}

static void ranks_continue_at_the_same_step(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    assert_int_equal(world_run(&w, falls_behind), 0);
}

/* What rank 1 has otherwise. */
static const struct {
    struct rt_local_sgd options;
    const char *says;
} others[] = {
    {{.k_steps = 4, .begin_step = 2}, "rank 1 has another k_steps than rank 0"},
    {{.k_steps = 3, .begin_step = 3}, "rank 1 has another begin_step than rank 0"},
    {{.k_steps = 3, .begin_step = 2, .adaptive = true}, "rank 1 has another adaptive than rank 0"},
};

static int differs(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        struct rt_gradient list[1] = {{.n = FLOATS}};
        CO_CLEANUP(rt_reducer_closep) struct rt_reducer *r = NULL;
        struct rt_local_sgd s = {.k_steps = 3, .begin_step = 2};
        struct co_err why = {0};
        CO_TRY(rt_reducer_open(g, list, 1, NULL, &r, err));
        s = rank == 1 ? others[i].options : s;
        int rc = rt_local_sgd_step(&s, r, 0, 0, NULL, &why);
        if (rc != CO_INVALID || !strstr(co_err_text(&why), others[i].says)) {
            return co_err_set(err, CO_INTERNAL, "code %d: %.150s", rc, co_err_text(&why));
        }
    }
    return 0;
}

static void ranks_with_other_options_are_refused(void **state) {
    (void)state;
    struct coll_world w = {.n = 3};
    assert_int_equal(world_run(&w, differs), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_averaged_when_due),
        cmocka_unit_test(ranks_continue_at_the_same_step),
        cmocka_unit_test(ranks_with_other_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
