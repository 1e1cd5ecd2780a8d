/* A whole training run in this process, with the runtime's local tables: it learns and saves, and
 * the saved model gives the same predictions. */
#include "examples/ctr/trainer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/mem.h"
#include "examples/ctr/data.h"
#include "examples/nn/nn_testing.h"
#include "examples/wide_and_deep/net.h"

struct fixture {
    struct tk_dir dir;
    char *model;
    struct ctr_options options;
    struct nn_metrics metrics;
};

static int setup(void **state) {
    struct fixture *f = co_xcalloc(1, sizeof(*f));

    tk_dir_make(&f->dir, "ctr_trainer_test");
    f->model = co_xasprintf("%s/model", f->dir.path);
    f->options = (struct ctr_options){.net = &wd_net,
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
        .embedding_optimizer = "",
        .wire = "",
        .mode = "sync", /* alone: the same result each time */
        .batch_size = 100,
        .epochs = 1,
        .lines = 6000,
        .test_lines = 2000,
        .files = 1,
        .seed = 1};
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tk_dir_remove(&f->dir);
    free(f->model);
    free(f);
    return 0;
}

/* A run in which this process is the only worker; returns the area under the curve. */
static double train(struct fixture *f) {
    struct co_err err = {0};
    struct rt_job *job = NULL;

    if (rt_init(&job, &err) < 0 || ctr_train(job, &f->options, &f->metrics, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    rt_done(job);
    return nn_metrics_auc(&f->metrics);
}

static void one_pass_learns_what_was_planted(void **state) {
    struct fixture *f = *state;

    f->options.epochs = 0;
    double untrained = train(f);
    f->options.epochs = 1;
    double trained = train(f);
    if (untrained < 0.4 || untrained > 0.6 || trained < 0.75) {
        fail_msg("area under the curve: %g untrained, %g trained", untrained, trained);
    }
    assert_int_equal(f->metrics.n, 2000);
}

/* Async computes with values some steps old, which costs most at the start. */
static void async_learns_too(void **state) {
    struct fixture *f = *state;

    f->options.mode = "async";
    f->options.lines = 20000;
    double trained = train(f);
    if (trained < 0.75) {
        fail_msg("area under the curve: %g", trained);
    }
}

static void transfer_in_16_bits_is_accurate_enough(void **state) {
    struct fixture *f = *state;
    double full = train(f);

    f->options.wire = "f16";
    double narrow = train(f);
    if (narrow == full || fabs(narrow - full) > 0.003) {
        fail_msg("area under the curve: %g in f32, %g in f16", full, narrow);
    }
}

static void the_same_seed_gives_the_same_model(void **state) {
    struct fixture *f = *state;

    f->options.lines = 1000;
    double first = train(f);
    assert_true(train(f) == first);
    f->options.seed = 2;
    assert_true(train(f) != first);
}

/* Another run that only loads must measure exactly what the run that saved measured. */
static void a_saved_model_is_the_trained_one(void **state) {
    struct fixture *f = *state;

    f->options.save = f->model;
    double trained = train(f);
    f->options.load = f->model;
    f->options.save = "";
    f->options.epochs = 0;
    assert_true(train(f) == trained);
}

static void files_give_the_same_model_as_generated_lines(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *train_dir = co_xasprintf("%s/train", f->dir.path);
    CO_AUTOFREE char *test_dir = co_xasprintf("%s/test/part-00000.txt", f->dir.path);
    struct co_err err = {0};
    double generated;

    f->options.lines = 1000;
    generated = train(f);
    f->options.generate = f->dir.path;
    f->options.files = 3;
    if (ctr_data_generate(&f->options, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    f->options.train = train_dir;
    f->options.test = test_dir;
    assert_true(train(f) == generated);
    f->options.train = f->dir.path; /* stands for both folders */
    f->options.test = "";
    assert_true(train(f) == generated);
    f->options.train = train_dir; /* nothing to test with */
    assert_true(train(f) == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_pass_learns_what_was_planted, setup, teardown),
        cmocka_unit_test_setup_teardown(async_learns_too, setup, teardown),
        cmocka_unit_test_setup_teardown(transfer_in_16_bits_is_accurate_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_seed_gives_the_same_model, setup, teardown),
        cmocka_unit_test_setup_teardown(a_saved_model_is_the_trained_one, setup, teardown),
        cmocka_unit_test_setup_teardown(
            files_give_the_same_model_as_generated_lines, setup, teardown),
    };

    co_log_setup(CO_LOG_ERROR, CO_LOG_LOGFMT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
