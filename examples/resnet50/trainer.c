/* The training loop: epochs, checkpoints, progress lines and the final test. */
#include "examples/resnet50/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/limits.h"
#include "common/log.h"
#include "examples/data/train.h"
#include "examples/resnet50/ckpt.h"
#include "examples/resnet50/loader.h"
#include "examples/resnet50/rate.h"
#include "examples/resnet50/replica.h"
#include "examples/resnet50/sampler.h"

struct trainer {
    const struct rt_job *job;
    const struct rn_options *options;
    struct rn_replica replica;
    struct rn_flowers *flowers;
    struct rn_loader *loader;
    struct rn_sampler sampler;
    struct rn_rate rate;
    struct rn_progress progress;
    uint32_t *order; /* this rank's samples in the epoch */
    size_t batches;  /* a rank's steps in an epoch; an incomplete last batch is dropped */
    struct rn_loss epoch_loss;
    double printed_at;    /* seconds */
    size_t since_printed; /* images */
};

static double now(void) {
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool first_rank(const struct trainer *t) {
    return rt_group_rank(t->replica.group) == 0;
}

/* ---- data ------------------------------------------------------------------------------------ */

static int flowers_open(const struct rn_options *o, const char *part,
    struct rn_flowers **ret_flowers, struct co_err *err) {
    const struct rn_gen gen = {.seed = (uint64_t)o->seed,
        .classes = (uint32_t)o->class_dim,
        .edge = (uint32_t)(o->image_size * 8 / 7),
        .images = (uint32_t)o->images};

    return o->data[0] == '\0'
               ? rn_flowers_generated(&gen, part, ret_flowers, err)
               : rn_flowers_open(o->data, part, (uint32_t)o->class_dim, ret_flowers, err);
}

static bool fails_bad(const struct rn_options *o) {
    return strcmp(o->bad_images, "fail") == 0;
}

static int loader_open(const struct rn_options *o, const struct rn_flowers *flowers, bool training,
    struct rn_loader **ret_loader, struct co_err *err) {
    size_t cores = co_limit_cpus("", NULL);
    size_t threads = o->loader_threads ? (size_t)o->loader_threads : cores < 4 ? cores : 4;
    const struct rn_loader_config config = {.flowers = flowers,
        .image = (uint32_t)o->image_size,
        .batch = (size_t)o->batch_size,
        .threads = threads,
        .ahead = (size_t)o->prefetch,
        .seed = (uint64_t)o->seed,
        .augment = training,
        .fail_bad = fails_bad(o)};
    return rn_loader_new(&config, ret_loader, err);
}

/* Makes sure, before hours of training, that its end will not fail: there are pictures to test
 * with, and checkpoints can be written. */
static int end_check(const struct trainer *t, struct co_err *err) {
    CO_CLEANUP(rn_flowers_closep) struct rn_flowers *flowers = NULL;
    int rc = first_rank(t) ? da_writable(t->options->checkpoint, err) : 0;

    if (rc < 0 || !t->options->test) {
        return rc;
    }
    rc = flowers_open(t->options, "test", &flowers, err);
    rc = rc == 0 ? rn_loader_probe(flowers, fails_bad(t->options), err) : rc;
    return rc < 0 ? co_err_wrap(err, "test data") : 0;
}

static int data_open(struct trainer *t, struct co_err *err) {
    const struct rn_options *o = t->options;
    int rc = flowers_open(o, "train", &t->flowers, err);

    rc = rc == 0 ? end_check(t, err) : rc;
    if (rc < 0 || !t->flowers) {
        return rc;
    }
    t->sampler = (struct rn_sampler){.samples = t->flowers->n,
        .batch = (size_t)o->batch_size,
        .rank = rt_group_rank(t->replica.group),
        .ranks = rt_group_size(t->replica.group)};
    t->batches = rn_sampler_count(&t->sampler) / t->sampler.batch;
    if (t->batches == 0) {
        return co_err_set(err, CO_INVALID,
            "%zu images are not enough for a batch of %zu on each of %zu ranks", t->flowers->n,
            t->sampler.batch, t->sampler.ranks);
    }
    t->order = co_xcalloc(rn_sampler_count(&t->sampler), sizeof(*t->order));
    rc = rn_rate_init(o, t->batches, &t->rate, err);
    return rc == 0 ? loader_open(o, t->flowers, true, &t->loader, err) : rc;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static int ckpt_save(struct trainer *t, struct co_err *err) {
    CO_AUTOFREE float *velocity = NULL;

    if (t->options->checkpoint[0] == '\0' || !first_rank(t)) {
        return 0;
    }
    velocity = co_xcalloc(rn_plan_storage(t->replica.plan), sizeof(*velocity));
    rn_replica_velocity_get(&t->replica, velocity);
    const struct rn_ckpt c = {t->replica.plan, velocity};
    CO_TRY(rn_ckpt_save(t->options->checkpoint, &c, &t->progress, err));
    co_log_info(
        "checkpoint saved", CO_S("dir", t->options->checkpoint), CO_I("step", t->progress.step));
    return 0;
}

static int ckpt_load(struct trainer *t, const char *dir, struct co_err *err) {
    CO_AUTOFREE float *velocity = co_xcalloc(rn_plan_storage(t->replica.plan), sizeof(*velocity));
    const struct rn_ckpt c = {t->replica.plan, velocity};

    CO_TRY(rn_ckpt_load(dir, &c, &t->progress, err));
    rn_replica_velocity_set(&t->replica, velocity);
    return 0;
}

/* Each rank loads the newest checkpoint that it finds: the directory may exist on one machine only.
 * Then all take over the state of the rank with the newest one, or rank 0's initial values. */
static int start_together(struct trainer *t, struct co_err *err) {
    float place[sizeof(t->progress) / sizeof(float)];
    struct co_err why = {0};
    int found = CO_NOTFOUND;

    if (t->options->checkpoint[0] != '\0') {
        found = ckpt_load(t, t->options->checkpoint, &why);
    }
    if (found < 0 && found != CO_NOTFOUND && found != CO_DAMAGED) {
        return co_err_set(err, found, "%s", why.msg); /* it may be newer than what others have */
    }
    uint64_t step = t->progress.step;
    memcpy(place, &t->progress, sizeof(place)); /* integers sent as they are, not converted */
    const struct rt_values progress = {place, CO_ARRAY_LEN(place)};
    CO_TRY(rn_replica_spread(&t->replica, &step, &progress, err));
    memcpy(&t->progress, place, sizeof(place));
    if (step == 0 && found == CO_DAMAGED) {
        return co_err_set(err, found, "%s", why.msg); /* do not start over and overwrite them */
    }
    if (step) {
        co_log_info(
            "resuming from a checkpoint", CO_I("step", step), CO_I("epoch", t->progress.epoch));
    }
    return 0;
}

/* ---- training -------------------------------------------------------------------------------- */

/* The rate depends on epoch and batch, not on the count of steps: if the number of ranks changed,
 * the count no longer gives the epoch. */
static double rate_now(const struct trainer *t, size_t batch) {
    return rn_rate_at(&t->rate, t->progress.epoch * t->batches + batch);
}

static void step_print(struct trainer *t, size_t batch, const struct rn_loss *l) {
    double n = (double)l->samples, seconds = now() - t->printed_at;

    (void)printf("[Epoch %" PRIu64 ", batch %zu] loss: %.5f, acc1: %.5f, acc5: %.5f",
        t->progress.epoch, batch, l->loss / n, (double)l->top1 / n, (double)l->top5 / n);
    if (t->options->figures) {
        (void)printf(", lr: %.6g, images/s: %.2f", rate_now(t, batch),
            (double)t->since_printed / (seconds > 0.0 ? seconds : 1.0));
    }
    (void)printf("\n");
    (void)fflush(stdout);
    rt_report(t->job, t->progress.step, "loss", l->loss / n);
    rt_report(t->job, t->progress.step, "acc1", (double)l->top1 / n);
    rt_report(t->job, t->progress.step, "lr", rate_now(t, batch));
    rt_report(t->job, t->progress.step, "examples_per_second",
        (double)t->since_printed / (seconds > 0.0 ? seconds : 1.0));
    t->printed_at = now();
    t->since_printed = 0;
}

static void loss_sum(struct rn_loss *to, const struct rn_loss *l) {
    to->loss += l->loss;
    to->top1 += l->top1;
    to->top5 += l->top5;
    to->samples += l->samples;
}

static int step_run(struct trainer *t, size_t batch, struct co_err *err) {
    struct rn_loss loss = {0};
    size_t n = 0;

    CO_TRY(rn_loader_next(t->loader, rn_plan_images(t->replica.plan), t->replica.labels, &n, err));
    CO_TRY(rn_replica_step(&t->replica, rate_now(t, batch), &loss, err));
    if (!isfinite(loss.loss)) {
        return co_err_set(err, CO_INVALID,
            "epoch %" PRIu64 ", batch %zu: the loss is %g, the training has diverged: lower --lr, "
            "which is %g here, or let it grow by --warmup-epochs; a checkpoint from shortly before "
            "may have diverged as well",
            t->progress.epoch, batch, loss.loss, rate_now(t, batch));
    }
    loss_sum(&t->epoch_loss, &loss);
    t->since_printed += n;
    if (batch % (size_t)t->options->log_every == 0) {
        step_print(t, batch, &loss);
    }
    t->progress.step++;
    t->progress.samples += n * t->sampler.ranks;
    return 0;
}

static bool all_done(const struct trainer *t) {
    return t->options->max_steps && t->progress.step >= (uint64_t)t->options->max_steps;
}

static bool ckpt_due(const struct trainer *t) {
    uint64_t every = (uint64_t)t->options->checkpoint_every;

    return every && t->progress.step % every == 0;
}

static int epoch_run(struct trainer *t, struct co_err *err) {
    size_t batch = t->progress.samples / (t->sampler.batch * t->sampler.ranks);

    rn_sampler_epoch(&t->sampler, (uint32_t)t->progress.epoch, t->order);
    rn_loader_start(t->loader, t->order, t->batches * t->sampler.batch, batch * t->sampler.batch,
        (uint32_t)t->progress.epoch);
    memset(&t->epoch_loss, 0, sizeof(t->epoch_loss));
    t->printed_at = now();
    for (; batch < t->batches && !all_done(t); batch++) {
        CO_TRY(step_run(t, batch, err));
        if (ckpt_due(t) && batch + 1 < t->batches) {
            CO_TRY(ckpt_save(t, err));
        }
    }
    if (batch >= t->batches) {
        t->progress.epoch++;
        t->progress.samples = 0;
    }
    return ckpt_save(t, err);
}

/* ---- test ------------------------------------------------------------------------------------ */

/* Rank r of n tests images r, r + n, ...; the sums are those of all ranks. */
static int test_sum(struct trainer *t, struct rn_loss *l, struct co_err *err) {
    double sums[] = {l->loss, (double)l->top1, (double)l->top5, (double)l->samples};

    CO_TRY(rt_all_reduce(t->replica.group, sums, sums, CO_ARRAY_LEN(sums), RT_F64, RT_SUM, err));
    *l = (struct rn_loss){sums[0], (size_t)sums[1], (size_t)sums[2], (size_t)sums[3]};
    return 0;
}

static int test_run(struct trainer *t, struct rn_loss *ret, struct co_err *err) {
    CO_CLEANUP(rn_flowers_closep) struct rn_flowers *flowers = NULL;
    CO_CLEANUP(rn_loader_freep) struct rn_loader *loader = NULL;
    size_t mine = 0, n = 1;

    CO_TRY(flowers_open(t->options, "test", &flowers, err));
    CO_AUTOFREE uint32_t *order = co_xcalloc(flowers->n, sizeof(*order));
    for (size_t i = t->sampler.rank; i < flowers->n; i += t->sampler.ranks) {
        order[mine++] = (uint32_t)i;
    }
    CO_TRY(loader_open(t->options, flowers, false, &loader, err));
    rn_loader_start(loader, order, mine, 0, 0);
    while (n > 0) {
        CO_TRY(rn_loader_next(loader, rn_plan_images(t->replica.plan), t->replica.labels, &n, err));
        if (n) {
            CO_TRY(rn_replica_test(&t->replica, n, ret, err));
        }
    }
    if (rn_loader_bad(loader)) {
        co_log_warn("images left out of the test", CO_I("images", rn_loader_bad(loader)));
    }
    return test_sum(t, ret, err);
}

static int test_print(struct trainer *t, struct rn_loss *ret, struct co_err *err) {
    struct rn_loss l = {0};
    int rc = test_run(t, &l, err);

    if (rc == 0 && first_rank(t)) {
        double n = (double)l.samples;

        (void)printf("[Test] loss: %.5f, acc1: %.5f, acc5: %.5f\n", l.loss / n, (double)l.top1 / n,
            (double)l.top5 / n);
        (void)fflush(stdout);
    }
    *ret = l;
    return rc;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void trainer_done(struct trainer *t) {
    rn_loader_free(t->loader);
    rn_rate_done(&t->rate);
    rn_flowers_close(t->flowers);
    rn_replica_close(&t->replica);
    free(t->order);
}

int rn_train(const struct rt_job *job, const struct rn_options *o, struct rn_loss *ret_last,
    struct co_err *err) {
    CO_CLEANUP(trainer_done) struct trainer t = {.job = job, .options = o};

    CO_TRY(rn_replica_open(&t.replica, job, o, err));
    CO_TRY(data_open(&t, err));
    CO_TRY(start_together(&t, err));
    while (t.progress.epoch < (uint64_t)o->epochs && !all_done(&t)) {
        CO_TRY(epoch_run(&t, err));
    }
    if (o->test) {
        CO_TRY(test_print(&t, &t.epoch_loss, err));
    }
    if (rn_loader_bad(t.loader)) {
        co_log_warn("images left out", CO_I("images", rn_loader_bad(t.loader)));
    }
    if (ret_last) {
        *ret_last = t.epoch_loss;
    }
    return 0;
}

int rn_test(const struct rt_job *job, const struct rn_options *o, struct co_err *err) {
    CO_CLEANUP(trainer_done) struct trainer t = {.job = job, .options = o};
    struct rn_loss unused;

    CO_TRY(rn_replica_open(&t.replica, job, o, err));
    t.sampler.rank = rt_group_rank(t.replica.group);
    t.sampler.ranks = rt_group_size(t.replica.group);
    CO_TRY(ckpt_load(&t, o->load, err));
    return test_print(&t, &unused, err);
}
