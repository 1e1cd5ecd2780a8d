/* CTR-DNN against testdata/ctr_dnn.json, made by PaddlePaddle 3.3.1 (examples/ctr/golden.py), and a
 * training that must learn. */
#include "common/log.h"
#include "examples/ctr_dnn/net.h"
#include "examples/ctr/ctr_testing.h"
#include "examples/ctr/trainer.h"

#define GOLDEN "examples/ctr_dnn/testdata/ctr_dnn.json"

static struct ctr_net small; /* with the goldens' sizes */

static void forward_and_gradients_equal_the_goldens(void **state) {
    (void)state;
    tk_forward_and_gradients(&small, GOLDEN);
}

static void gradients_are_slopes(void **state) {
    (void)state;
    tk_numeric_gradients(&small, GOLDEN);
}

static void slots_with_several_values(void **state) {
    (void)state;
    tk_several_values(&small, GOLDEN);
}

static void ten_steps_equal_the_goldens(void **state) {
    (void)state;
    tk_ten_steps(&small, GOLDEN, "sgd:lr=0.1", 2e-6);
}

static void one_pass_learns_what_was_planted(void **state) {
    const struct ctr_options options = {.net = &cd_net,
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_and_gradients_equal_the_goldens),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(slots_with_several_values),
        cmocka_unit_test(ten_steps_equal_the_goldens),
        cmocka_unit_test(one_pass_learns_what_was_planted),
    };

    co_log_setup(CO_LOG_ERROR, CO_LOG_LOGFMT);
    small = tk_small(&cd_net);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
