/* Whole trainings: one learns what was planted; one that goes on from a checkpoint ends with the
 * same bits as one that was not interrupted; two processes end where one with both batches does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/log.h"
#include "common/mem.h"
#include "examples/resnet50/trainer.h"

struct fixture {
    char dir[64];
    struct rn_options options;
};

static int setup(void **state) {
    struct fixture *f = co_xcalloc(1, sizeof(*f));

    co_log_setup(CO_LOG_ERROR, CO_LOG_LOGFMT);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/rn_training_test.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->options = (struct rn_options){.data = "",
        .generate = "",
        .checkpoint = "",
        .precision = "f32",
        .schedule = "constant",
        .boundaries = "",
        .bad_images = "fail",
        .lr = 0.02,
        .momentum = 0.9,
        .l2_decay = 1e-4,
        .depth = 10,
        .width = 16,
        .image_size = 32,
        .class_dim = 4,
        .batch_size = 8,
        .epochs = 3,
        .threads = 1,
        .loader_threads = 1,
        .prefetch = 2,
        .log_every = 1000000,
        .images = 128,
        .seed = 3};
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

/* A run of this process by itself. */
static struct rn_loss train(const struct rn_options *o) {
    struct rt_job *job = NULL;
    struct rn_loss loss = {0};
    struct co_err err = {0};

    assert_int_equal(rt_init(&job, NULL), 0);
    if (rn_train(job, o, &loss, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    rt_done(job);
    return loss;
}

static double mean_of(const struct rn_loss *l) {
    return l->loss / (double)l->samples;
}

static void learns(struct fixture *f, double top1) {
    f->options.epochs = 6;
    f->options.test = true;
    struct rn_loss l = train(&f->options);

    assert_int_equal(l.samples, 16);
    assert_true((double)l.top1 / (double)l.samples >= top1);
}

static void test_it_learns_what_was_planted(void **state) {
    learns(*state, 0.75);
}

static void test_it_learns_in_bf16(void **state) {
    struct fixture *f = *state;

    f->options.precision = "bf16";
    learns(f, 0.75);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static char *newest(const char *dir, const char *file) {
    char command[256], line[256] = "";

    (void)snprintf(command, sizeof(command), "ls -d %s/step-*/%s | tail -n 1", dir, file);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(line, sizeof(line), p));
    (void)pclose(p);
    line[strcspn(line, "\n")] = '\0';
    return co_xstrdup(line);
}

/* Ends after `first` steps, goes on to the end. */
static void interrupted(struct fixture *f, int64_t first, double *ret_whole, double *ret_parts) {
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", f->dir);
    struct rn_loss whole = train(&f->options);

    f->options.checkpoint = dir;
    f->options.max_steps = first;
    (void)train(&f->options);
    f->options.max_steps = 0;
    struct rn_loss parts = train(&f->options);
    *ret_whole = mean_of(&whole);
    *ret_parts = mean_of(&parts);
    f->options.checkpoint = "";
}

static void test_going_on_gives_the_same_bits(void **state) {
    struct fixture *f = *state;
    double whole, parts;

    f->options.test = true;
    interrupted(f, 17, &whole, &parts); /* in the second of three epochs of twelve steps */
    assert_memory_equal(&whole, &parts, sizeof(whole));
}

static void test_a_torn_checkpoint_is_passed_over(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", f->dir);
    static const char *const files[] = {"parameters.*", "MANIFEST"};

    f->options.test = true;
    struct rn_loss want = train(&f->options);
    f->options.checkpoint = dir;
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        (void)train(&f->options);
        CO_AUTOFREE char *file = newest(dir, files[i]);

        assert_int_equal(truncate(file, 100), 0);
        struct rn_loss again = train(&f->options); /* from the one before it */
        assert_true(mean_of(&again) == mean_of(&want));
    }
}

static void test_another_network_is_refused(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", f->dir);
    struct rt_job *job = NULL;
    struct co_err err = {0};

    f->options.checkpoint = dir;
    f->options.epochs = 1;
    (void)train(&f->options);
    f->options.depth = 14;
    assert_int_equal(rt_init(&job, NULL), 0);
    assert_int_equal(rn_train(job, &f->options, NULL, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "of another network"));
    rt_done(job);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* One rank's process: writes the mean loss of its last epoch to fd. */
static void rank_run(const struct rn_options *o, int rank, const char *endpoints, int fd) {
    struct rt_job *job = NULL;
    struct rn_loss loss = {0};
    struct co_err err = {0};
    char number[12];

    (void)snprintf(number, sizeof(number), "%d", rank);
    (void)setenv("PADDLE_TRAINER_ID", number, 1);
    (void)setenv("PADDLE_TRAINERS_NUM", "2", 1);
    (void)setenv("PADDLE_TRAINER_ENDPOINTS", endpoints, 1);
    (void)setenv("TRAINING_ROLE", "TRAINER", 1);
    int rc = rt_init(&job, &err);
    if (rc == 0) {
        rc = rn_train(job, o, &loss, &err);
    }
    if (rc < 0) {
        (void)fprintf(stderr, "rank %d: %s\n", rank, co_err_text(&err));
    }
    rt_done(job);
    double mean = rc < 0 ? NAN : mean_of(&loss);
    _exit(write(fd, &mean, sizeof(mean)) == (ssize_t)sizeof(mean) ? 0 : 1);
}

static void two_ranks(const struct rn_options *o, double ret[2]) {
    CO_AUTOFREE char *endpoints = co_xasprintf(
        "127.0.0.1:%d,127.0.0.1:%d", 20000 + getpid() % 10000, 30000 + getpid() % 10000);
    pid_t pids[2];
    int fds[2][2];

    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(fds[i]), 0);
        pids[i] = fork();
        if (pids[i] == 0) {
            rank_run(o, i, endpoints, fds[i][1]);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = 1;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        assert_int_equal(read(fds[i][0], &ret[i], sizeof(ret[i])), sizeof(ret[i]));
        (void)close(fds[i][0]);
        (void)close(fds[i][1]);
    }
}

/* Ten steps: the mean loss of the epoch, over both, is that of one rank with twice the batch.
 * What differs is the order of sums. */
static void test_two_ranks_with_sync_bn_are_one_with_both_batches(void **state) {
    struct fixture *f = *state;
    double parts[2];

    f->options.epochs = 1;
    f->options.images = 216; /* 162 to train: ten steps of 16 */
    f->options.sync_bn = true;
    two_ranks(&f->options, parts);
    f->options.batch_size = 16;
    struct rn_loss one = train(&f->options);
    double want = mean_of(&one), got = (parts[0] + parts[1]) / 2.0;

    print_message("one rank %.9f, two %.9f\n", want, got);
    assert_true(fabs(got - want) <= 1e-4 * want);
    assert_true(parts[0] != parts[1]); /* different samples */
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_two_ranks_with_sync_bn_are_one_with_both_batches), /* forks: before any thread */
        TEST(test_it_learns_what_was_planted),
        TEST(test_it_learns_in_bf16),
        TEST(test_going_on_gives_the_same_bits),
        TEST(test_a_torn_checkpoint_is_passed_over),
        TEST(test_another_network_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
