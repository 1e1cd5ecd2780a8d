/* Tests whole training runs: a run learns generated data; a run that resumes from a checkpoint ends
 * with the same bits as one without a break; two processes end like one with both batches. */
#include <math.h>
#include <sched.h>
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
#include "common/isa_testing.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/ports_testing.h"
#include "common/tsan.h"
#include "examples/nn/nn_testing.h"
#include "examples/resnet50/ckpt.h"
#include "examples/resnet50/team.h"
#include "examples/resnet50/trainer.h"

struct fixture {
    struct tk_dir dir;
    struct rn_options options;
};

static int setup(void **state) {
    struct fixture *f = co_xcalloc(1, sizeof(*f));

    co_log_setup(CO_LOG_ERROR, CO_LOG_LOGFMT);
    tk_dir_make(&f->dir, "rn_training_test");
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

    tk_dir_remove(&f->dir);
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

/* A schedule that ends at 0: at a constant rate the last steps, and rounding with them, decide what
 * the test says.  Ten seeds on AVX2 and AVX-512 each know all 16. */
static void learns(struct fixture *f) {
    f->options.epochs = 8;
    f->options.schedule = "cosine";
    f->options.test = true;
    struct rn_loss l = train(&f->options);

    assert_int_equal(l.samples, 16);
    assert_true(l.top1 >= 14);
}

static void training_learns_the_planted_classes(void **state) {
    learns(*state);
}

/* As in a pod: what the machine has more is not for this process. */
static void threads_are_as_many_as_the_cores_that_may_be_used(void **state) {
    struct fixture *f = *state;
    cpu_set_t before, one;

    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(unsetenv("OMP_NUM_THREADS"), 0);
    rn_team_set(2);
    f->options.threads = f->options.loader_threads = 0;
    f->options.max_steps = 1;
    (void)train(&f->options);
    assert_int_equal(rn_team_size(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

static void training_in_bf16_learns(void **state) {
    struct fixture *f = *state;

    if (rn_plan_supported(RN_BF16, NULL) == CO_UNSUPPORTED) {
        skip();
    }
    f->options.precision = "bf16";
    learns(f);
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

/* It would else be resumed from, and the good ones before it are removed in time. */
static void a_training_that_diverges_ends_and_leaves_no_checkpoint(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", f->dir.path);

    f->options.lr = f->options.l2_decay = 1e30; /* no weight is finite after a step */
    for (int saves = 0; saves < 2; saves++) {   /* else the loss says so, of the next step */
        struct rt_job *job = NULL;
        struct co_err err = {0};

        f->options.checkpoint = saves ? dir : "";
        f->options.checkpoint_every = 1;
        assert_int_equal(rt_init(&job, NULL), 0);
        assert_int_equal(rn_train(job, &f->options, NULL, &err), CO_INVALID);
        rt_done(job);
        if (!strstr(co_err_text(&err), "the training has diverged: lower --lr")) {
            fail_msg("%s", co_err_text(&err));
        }
        CO_AUTOFREE char *any = co_xasprintf("ls -d %s/step-*/MANIFEST 2>/dev/null", dir);
        assert_int_not_equal(system(any), 0);
    }
    f->options.checkpoint = "";
}

/* Ends after `first` steps, resumes and runs to the end. */
static void interrupted(struct fixture *f, int64_t first, double *ret_whole, double *ret_parts) {
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", f->dir.path);
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

static void resuming_gives_the_same_bits(void **state) {
    struct fixture *f = *state;
    double whole, parts;

    f->options.test = true;
    interrupted(f, 17, &whole, &parts); /* in the second of three epochs of twelve steps */
    assert_memory_equal(&whole, &parts, sizeof(whole));
}

static void a_torn_checkpoint_is_passed_over(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", f->dir.path);
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

static void another_network_is_refused(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", f->dir.path);
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

    /* One that cannot be read may be whole: nobody starts over, or from an older one. */
    CO_AUTOFREE char *manifest = newest(dir, "MANIFEST");
    assert_int_equal(unlink(manifest), 0);
    assert_int_equal(symlink(manifest, manifest), 0);
    assert_int_equal(rt_init(&job, NULL), 0);
    assert_int_equal(rn_train(job, &f->options, NULL, &err), CO_INTERNAL);
    assert_non_null(strstr(err.msg, manifest));
    rt_done(job);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

enum { RANKS_MAX = 3 };

struct rank_end {
    double mean; /* loss of its last epoch */
    int rc;
    char message[400];
};

/* One rank's process: writes how it ended to fd. */
static void rank_run(
    const struct rn_options *o, int rank, int ranks, const char *endpoints, int fd) {
    struct rt_job *job = NULL;
    struct rn_loss loss = {0};
    struct co_err err = {0};
    char number[12], count[12];

    (void)snprintf(number, sizeof(number), "%d", rank);
    (void)snprintf(count, sizeof(count), "%d", ranks);
    (void)setenv("PADDLE_TRAINER_ID", number, 1);
    (void)setenv("PADDLE_TRAINERS_NUM", count, 1);
    (void)setenv("PADDLE_TRAINER_ENDPOINTS", endpoints, 1);
    (void)setenv("TRAINING_ROLE", "TRAINER", 1);
    int rc = rt_init(&job, &err);
    if (rc == 0) {
        rc = rn_train(job, o, &loss, &err);
    }
    rt_done(job);
    struct rank_end end = {.mean = rc < 0 ? NAN : mean_of(&loss), .rc = rc};
    (void)snprintf(end.message, sizeof(end.message), "%s", rc < 0 ? co_err_text(&err) : "");
    _exit(write(fd, &end, sizeof(end)) == (ssize_t)sizeof(end) ? 0 : 1);
}

/* o: of each rank; limits: of its instruction set; NULL: none. */
static void run_ranks_of(const struct rn_options *const *o, int ranks, const char *const *limits,
    struct rank_end ret[RANKS_MAX]) {
    char endpoints[RANKS_MAX * 32] = "";
    pid_t pids[RANKS_MAX];
    int fds[RANKS_MAX][2];

    for (int i = 0; i < ranks; i++) {
        size_t at = strlen(endpoints);
        (void)snprintf(endpoints + at, sizeof(endpoints) - at, "%s127.0.0.1:%u", i ? "," : "",
            co_test_ports(1));
    }
    for (int i = 0; i < ranks; i++) {
        assert_int_equal(pipe(fds[i]), 0);
        pids[i] = fork();
        if (pids[i] == 0) {
            if (limits) {
                (void)setenv("ONEDNN_MAX_CPU_ISA", limits[i], 1);
            }
            rank_run(o[i], i, ranks, endpoints, fds[i][1]);
        }
    }
    for (int i = 0; i < ranks; i++) {
        int status = 1;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        assert_int_equal(read(fds[i][0], &ret[i], sizeof(ret[i])), sizeof(ret[i]));
        (void)close(fds[i][0]);
        (void)close(fds[i][1]);
    }
}

static void run_ranks(const struct rn_options *o, int ranks, const char *const *limits,
    struct rank_end ret[RANKS_MAX]) {
    const struct rn_options *const same[RANKS_MAX] = {o, o, o};

    run_ranks_of(same, ranks, limits, ret);
}

static void train_ranks(const struct rn_options *o, int ranks, double ret[RANKS_MAX]) {
    struct rank_end ends[RANKS_MAX];

    run_ranks(o, ranks, NULL, ends);
    for (int i = 0; i < ranks; i++) {
        if (ends[i].rc < 0) {
            fail_msg("rank %d: %s", i, ends[i].message);
        }
        ret[i] = ends[i].mean;
    }
}

/* Where a training that left checkpoints ended; caller frees. */
struct end {
    float *parameters, *velocity; /* (n), in the order of the network's table */
    size_t n;
    struct rn_progress progress;
};

static void export_all(struct rn_plan *plan, const float *storage, float *ret) {
    const struct rn_net *net = rn_plan_net(plan);

    for (int i = 0; i < net->n_params; i++) {
        assert_int_equal(rn_plan_export(plan, i, storage, ret, NULL), 0);
        ret += net->params[i].count;
    }
}

static struct end end_of(const struct rn_options *o) {
    const struct rn_net_config config = {.depth = (int)o->depth,
        .batch = 1,
        .image = (uint32_t)o->image_size,
        .classes = (uint32_t)o->class_dim,
        .width = (uint32_t)o->width};
    CO_CLEANUP(rn_plan_freep) struct rn_plan *plan = NULL;
    struct co_err err = {0};

    assert_int_equal(rn_plan_new(&config, RN_F32, RN_ORDER_FAST, &plan, &err), 0);
    assert_non_null(plan);
    CO_AUTOFREE float *velocity = co_xcalloc(rn_plan_storage(plan), sizeof(*velocity));
    struct end e = {.n = rn_plan_net(plan)->parameters};
    if (rn_ckpt_load(o->checkpoint, &(struct rn_ckpt){plan, velocity}, &e.progress, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    e.parameters = co_xcalloc(e.n, sizeof(*e.parameters));
    e.velocity = co_xcalloc(e.n, sizeof(*e.velocity));
    export_all(plan, rn_plan_params(plan), e.parameters);
    export_all(plan, velocity, e.velocity);
    return e;
}

static void end_done(struct end *e) {
    free(e->parameters);
    free(e->velocity);
}

/* |a - b| / |b| */
static double distance(const float *a, const float *b, size_t n) {
    double apart = 0.0, all = 0.0;

    for (size_t i = 0; i < n; i++) {
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        all += (double)b[i] * b[i];
    }
    return sqrt(apart / all);
}

/* Ten steps: the mean loss of the epoch, over both, is that of one rank with twice the batch, and
 * so are all parameters and velocities.  What differs is the order of sums, which ten steps of
 * batch normalisation magnify. */
static void two_ranks_with_sync_bn_are_one_with_both_batches(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *two = co_xasprintf("%s/two", f->dir.path);
    CO_AUTOFREE char *one = co_xasprintf("%s/one", f->dir.path);
    double parts[RANKS_MAX];

    f->options.epochs = 1;
    f->options.images = 432; /* 324 to train: ten steps of 32 */
    f->options.sync_bn = true;
    f->options.batch_size = 16;
    f->options.checkpoint = two;
    train_ranks(&f->options, 2, parts);
    struct end got = end_of(&f->options);
    f->options.batch_size = 32;
    f->options.checkpoint = one;
    struct rn_loss loss = train(&f->options);
    struct end want = end_of(&f->options);
    double parameters = distance(got.parameters, want.parameters, want.n);
    double velocity = distance(got.velocity, want.velocity, want.n);

    double mean = (parts[0] + parts[1]) / 2.0;
    print_message("one rank %.9f, two %.9f; parameters differ by %.2g, velocities by %.2g\n",
        mean_of(&loss), mean, parameters, velocity);
    assert_int_equal(got.progress.step, 10);
    assert_true(fabs(mean - mean_of(&loss)) <= 1e-4 * mean_of(&loss));
    assert_true(parameters <= 1e-6 && velocity <= 1e-4);
    assert_true(parts[0] != parts[1]); /* different samples */
    end_done(&got);
    end_done(&want);
}

/* ---- processors of several kinds --------------------------------------------------------------
 */

/* Pairs of oneDNN's sets, the first one rank 0's.  Their layouts differ, and so do their lanes
 * where one has AVX-512. */
static const struct pair {
    const char *limits[2];
    const char *needs; /* as in /proc/cpuinfo */
} pairs[] = {
    {{"SSE41", "AVX2"}, "avx2"},
    {{"AVX2", "AVX512_CORE"}, "avx512f avx512bw avx512vl avx512dq"},
};

/* Some steps of two ranks, which leave a checkpoint in dir. */
static void two_ranks(struct fixture *f, const char *dir, const char *const *limits) {
    struct rank_end ends[RANKS_MAX];

    f->options.checkpoint = dir;
    run_ranks(&f->options, 2, limits, ends);
    for (size_t i = 0; i < 2; i++) {
        if (ends[i].rc < 0) {
            fail_msg("%s, rank %zu: %s", dir, i, ends[i].message);
        }
    }
    f->options.checkpoint = "";
}

struct difference {
    double parameters, velocity;
    uint64_t steps;
};

/* Of two checkpoints, which a third process loads: this one must not start oneDNN, which asks for
 * its limit once. */
static struct difference difference_of(
    const struct fixture *f, const char *got, const char *want, const char *limit) {
    struct difference d = {0};
    int fds[2], status = 1;

    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rn_options o = f->options;

        (void)setenv("ONEDNN_MAX_CPU_ISA", limit, 1);
        o.checkpoint = got;
        struct end a = end_of(&o);
        o.checkpoint = want;
        struct end b = end_of(&o);
        d.parameters = distance(a.parameters, b.parameters, b.n);
        d.velocity = distance(a.velocity, b.velocity, b.n);
        d.steps = a.progress.step;
        _exit(write(fds[1], &d, sizeof(d)) == (ssize_t)sizeof(d) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(fds[0], &d, sizeof(d)), sizeof(d));
    (void)close(fds[0]);
    (void)close(fds[1]);
    return d;
}

/* Both with and without sums of norms that are shared. */
static void ranks_on_different_processors_train_as_equal_ones(void **state) {
    struct fixture *f = *state;
    bool tried = false;

    /* Each step magnifies what sums in another order differ by, at high rates a hundredfold. */
    f->options.max_steps = 3;
    f->options.lr = 0.002;
    f->options.batch_size = 16;
    for (size_t i = 0; i < 2 * CO_ARRAY_LEN(pairs); i++) {
        const struct pair *pair = &pairs[i / 2];
        const char *const equal[] = {pair->limits[0], pair->limits[0]};
        CO_AUTOFREE char *one = co_xasprintf("%s/%zu-equal", f->dir.path, i);
        CO_AUTOFREE char *two = co_xasprintf("%s/%zu-mixed", f->dir.path, i);

        if (!co_test_cpu_has(pair->needs)) {
            continue;
        }
        tried = true;
        f->options.sync_bn = i % 2;
        two_ranks(f, one, equal);
        two_ranks(f, two, pair->limits);
        struct difference d = difference_of(f, two, one, pair->limits[1]);
        print_message("%s and %s: parameters differ by %.2g, velocities by %.2g\n", pair->limits[0],
            pair->limits[1], d.parameters, d.velocity);
        assert_int_equal(d.steps, 3);
        assert_true(d.parameters > 0.0 && d.parameters <= 1e-6 && d.velocity <= 1e-4);
    }
    if (!tried) {
        skip();
    }
}

/* Layouts differ here, too, and in whatever order they are. */
static void ranks_with_different_networks_are_refused(void **state) {
    struct fixture *f = *state;
    struct rn_options other = f->options;
    const struct rn_options *const options[] = {&f->options, &other};
    struct rank_end ends[RANKS_MAX];

    other.width = 32;
    run_ranks_of(options, 2, NULL, ends);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ends[i].rc, CO_INVALID);
        assert_non_null(strstr(ends[i].message, "rank 1 trains another network than rank 0"));
    }
}

/* One that has no bf16, or wants none, decides for all: the bits are those of f32. */
static void ranks_compute_in_a_type_that_all_can(void **state) {
    struct fixture *f = *state;
    struct rn_options plain = f->options;
    const struct rn_options *const options[] = {&plain, &f->options};
    struct rank_end want[RANKS_MAX], got[RANKS_MAX];

    f->options.max_steps = plain.max_steps = 3;
    f->options.epochs = plain.epochs = 1;
    run_ranks(&plain, 2, NULL, want);
    f->options.precision = "auto";
    run_ranks_of(options, 2, NULL, got);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(got[i].rc, 0);
        assert_memory_equal(&got[i].mean, &want[i].mean, sizeof(want[i].mean));
    }
}

/* ---- another number of ranks ----------------------------------------------------------------- */

/* 162 images, batches of 8: ten steps an epoch for two ranks. */
static void begin_with_two(struct fixture *f, const char *dir, double ret[RANKS_MAX]) {
    f->options.images = 216;
    f->options.sync_bn = true;
    f->options.epochs = 2;
    f->options.checkpoint = dir;
    f->options.max_steps = 7;
    train_ranks(&f->options, 2, ret);
    f->options.max_steps = 0;
}

/* Seven steps of two ranks are 112 samples: what is left of the epoch, and the next one, in steps
 * of one rank and of three. */
static void another_number_of_ranks_continues(void **state) {
    struct fixture *f = *state;
    static const struct {
        int ranks;
        uint64_t steps;
    } rows[] = {{1, 7 + (20 - 14) + 20}, {3, 7 + (6 - 4) + 6}};

    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *dir = co_xasprintf("%s/%d", f->dir.path, rows[i].ranks);
        double means[RANKS_MAX];

        begin_with_two(f, dir, means);
        train_ranks(&f->options, rows[i].ranks, means);
        struct end e = end_of(&f->options);
        assert_int_equal(e.progress.step, rows[i].steps);
        assert_int_equal(e.progress.epoch, 2);
        assert_int_equal(e.progress.samples, 0);
        end_done(&e);
    }
}

/* One rank with twice the batch continues as two would have: the rate falls after the first epoch,
 * and batches are the same. */
static void one_rank_resumes_as_two_would_have(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *two = co_xasprintf("%s/two", f->dir.path);
    CO_AUTOFREE char *both = co_xasprintf("%s/both", f->dir.path);
    double means[RANKS_MAX];

    f->options.schedule = "piecewise";
    f->options.boundaries = "1";
    begin_with_two(f, both, means);
    f->options.batch_size = 16;
    train_ranks(&f->options, 1, means);
    f->options.batch_size = 8;
    begin_with_two(f, two, means);
    train_ranks(&f->options, 2, means);
    f->options.checkpoint = two;
    struct end want = end_of(&f->options);
    f->options.checkpoint = both;
    struct end got = end_of(&f->options);
    double parameters = distance(got.parameters, want.parameters, want.n);
    print_message("parameters differ by %.2g\n", parameters);
    assert_true(parameters <= 1e-4);
    end_done(&got);
    end_done(&want);
}

/* The rate belongs to the place in the epochs: after a change of ranks it falls where it would by
 * hand, not after as many steps. */
static void the_rate_falls_with_the_epoch(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *falls = co_xasprintf("%s/falls", f->dir.path);
    CO_AUTOFREE char *hand = co_xasprintf("%s/hand", f->dir.path);
    double means[RANKS_MAX];

    begin_with_two(f, hand, means);
    f->options.epochs = 1;
    train_ranks(&f->options, 1, means);
    f->options.epochs = 2;
    f->options.lr /= 10.0;
    train_ranks(&f->options, 1, means);
    struct end want = end_of(&f->options);
    f->options.lr *= 10.0;
    f->options.schedule = "piecewise";
    f->options.boundaries = "1";
    begin_with_two(f, falls, means);
    train_ranks(&f->options, 1, means);
    struct end got = end_of(&f->options);
    assert_memory_equal(got.parameters, want.parameters, want.n * sizeof(float));
    end_done(&got);
    end_done(&want);
}

/* A training may resume with fewer images than it began with. */
static void an_epoch_that_has_become_shorter_ends(void **state) {
    struct fixture *f = *state;
    CO_AUTOFREE char *dir = co_xasprintf("%s/checkpoints", f->dir.path);

    f->options.checkpoint = dir;
    f->options.epochs = 2;
    f->options.max_steps = 11; /* of twelve */
    (void)train(&f->options);
    f->options.max_steps = 0;
    f->options.images = 64; /* six */
    (void)train(&f->options);
    struct end e = end_of(&f->options);
    assert_int_equal(e.progress.step, 11 + 6);
    end_done(&e);
}

/* Reading a checkpoint starts threads in this process, and ThreadSanitizer supports no fork after
 * that: with it one test forks. */
enum { FORKS_AGAIN = !CO_TSAN };

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest first[] = {
        TEST(ranks_on_different_processors_train_as_equal_ones),
        TEST(ranks_with_different_networks_are_refused),
        TEST(ranks_compute_in_a_type_that_all_can),
        TEST(two_ranks_with_sync_bn_are_one_with_both_batches),
    };
    const struct CMUnitTest again[] = {
        TEST(another_number_of_ranks_continues),
        TEST(one_rank_resumes_as_two_would_have),
        TEST(the_rate_falls_with_the_epoch),
    };
    const struct CMUnitTest alone[] = {
        TEST(training_learns_the_planted_classes),
        TEST(training_in_bf16_learns),
        TEST(threads_are_as_many_as_the_cores_that_may_be_used),
        TEST(a_training_that_diverges_ends_and_leaves_no_checkpoint),
        TEST(resuming_gives_the_same_bits),
        TEST(a_torn_checkpoint_is_passed_over),
        TEST(another_network_is_refused),
        TEST(an_epoch_that_has_become_shorter_ends),
    };
    int failed = cmocka_run_group_tests(first, NULL, NULL);

    failed += FORKS_AGAIN ? cmocka_run_group_tests(again, NULL, NULL) : 0;
    return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
