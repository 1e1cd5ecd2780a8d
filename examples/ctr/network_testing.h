/* What every network must pass: it equals goldens that PaddlePaddle 3.3.1 made
 * (examples/ctr/golden.py), and a training learns.  For model_test.c of networks that need no more.
 */
#pragma once

#include "common/log.h"
#include "examples/ctr/ctr_testing.h"
#include "examples/ctr/trainer.h"

static struct {
    const struct ctr_net *net;
    struct ctr_net small; /* with the goldens' sizes */
    const char *golden;
} tk_tested;

static inline void forward_and_gradients_equal_the_goldens(void **state) {
    (void)state;
    tk_forward_and_gradients(&tk_tested.small, tk_tested.golden);
}

static inline void gradients_are_slopes(void **state) {
    (void)state;
    tk_numeric_gradients(&tk_tested.small, tk_tested.golden);
}

static inline void slots_with_several_values(void **state) {
    (void)state;
    tk_several_values(&tk_tested.small, tk_tested.golden);
}

static inline void ten_steps_equal_the_goldens(void **state) {
    (void)state;
    tk_ten_steps(&tk_tested.small, tk_tested.golden, "sgd:lr=0.1", 2e-6);
}

static inline void one_pass_learns_what_was_planted(void **state) {
    const struct ctr_options options = {.net = tk_tested.net,
        .train = "",
        .test = "",
        .format = "",
        .csv_label = "",
        .csv_numbers = "",
        .csv_categories = "",
        .save = "",
        .load = "",
        .generate = "",
        .optimizer = "",
        .wire = "",
        .embedding_optimizer = "",
        .mode = "sync",
        .batch_size = 100,
        .epochs = 1,
        .lines = 8000,
        .test_lines = 2000,
        .seed = 1};
    CO_AUTOFREE struct nn_metrics *metrics = co_xcalloc(1, sizeof(*metrics));
    struct rt_job *job = NULL;
    struct co_err err = {0};

    (void)state;
    must(rt_init(&job, &err), &err);
    must(ctr_train(job, &options, metrics, &err), &err);
    rt_done(job);
    if (nn_metrics_auc(metrics) < 0.75) {
        fail_msg("area under the curve: %g", nn_metrics_auc(metrics));
    }
}

/* The main function of a network's model_test.c. */
static inline int tk_main(const struct ctr_net *net, const char *golden) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_gradients_equal_the_goldens),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(slots_with_several_values),
        cmocka_unit_test(ten_steps_equal_the_goldens),
        cmocka_unit_test(one_pass_learns_what_was_planted),
    };

    co_log_setup(CO_LOG_ERROR, CO_LOG_LOGFMT);
    tk_tested.net = net;
    tk_tested.small = tk_small(net);
    tk_tested.golden = golden;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
