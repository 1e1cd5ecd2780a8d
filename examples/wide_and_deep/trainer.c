#include "examples/wide_and_deep/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "examples/nn/layers.h"
#include "examples/wide_and_deep/data.h"
#include "examples/wide_and_deep/evaluate.h"
#include "examples/wide_and_deep/tables.h"

/* AHEAD: batches whose rows travel while one is computed.  A pull can queue behind a dense
 * exchange, which takes longer than a small batch. */
enum { PRINT_EVERY_MS = 500, AHEAD = 4 };

/* Small batches' gradients are summed here until they are SAMPLES samples, as a dense exchange
 * costs more than they do; but at most MERGE of all workers together.  Each makes what the others
 * compute with older by a step, which training stands up to a point (tables.h). */
enum { MERGE = 4, SAMPLES = 40 };

/* A batch on its way: its rows may still be travelling. */
struct slot {
    struct wd_batch batch;
    float *rows;          /* (U, E) */
    struct rt_call *call; /* NULL: the rows are here */
};

struct progress {
    int64_t pass;
    int64_t printed_ms;
    uint64_t samples;          /* since then */
    double loss;               /* sum over them */
    struct nn_metrics metrics; /* of the pass */
};

struct trainer {
    const struct rt_job *job;
    const struct wd_options *options;
    const struct wd_config *config;
    bool sync;
    struct wd_tables tables;
    struct rt_client *client;
    struct wd_model *model;
    struct wd_reader *reader;
    struct slot slots[AHEAD];
    float *params, *grads;  /* (P) */
    float *row_grads;       /* (U, E) */
    float *sum;             /* (P): of gradients that were not exchanged yet */
    uint32_t merge, merged; /* how many make an exchange, and how many are in sum */
    float ended;            /* share of workers without data, as last seen */
    struct progress progress;
};

static int64_t now_ms(void) {
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- progress ------------------------------------------------------------------------------- */

static void progress_print(struct progress *p, int64_t now) {
    double seconds = (double)(now - p->printed_ms) / 1000.0;

    if (p->samples == 0) {
        return;
    }
    (void)printf("TRAIN ---> pass: %" PRId64 " loss: %.6f auc: %.6f examples/s: %.0f\n", p->pass,
        p->loss / (double)p->samples, nn_metrics_auc(&p->metrics),
        (double)p->samples / (seconds > 0.001 ? seconds : 0.001));
    (void)fflush(stdout);
    p->printed_ms = now;
    p->samples = 0;
    p->loss = 0.0;
}

static void progress_add(struct progress *p, size_t n, const float *score, const float *label) {
    int64_t now = now_ms();

    nn_metrics_add(&p->metrics, n, score, label);
    p->loss += nn_log_loss(n, score, label) * (double)n;
    p->samples += n;
    if (now - p->printed_ms >= PRINT_EVERY_MS) {
        progress_print(p, now);
    }
}

static void progress_begin(struct progress *p, int64_t pass) {
    p->pass = pass;
    p->printed_ms = now_ms();
    nn_metrics_clear(&p->metrics);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int slot_wait(struct slot *s, struct co_err *err) {
    struct rt_call *call = co_steal_ptr(s->call);

    return call ? rt_wait(call, err) : 0;
}

/* Reads the next batch and asks for its rows. */
static int slot_prepare(struct trainer *t, struct slot *s, struct co_err *err) {
    int rc = wd_reader_next(t->reader, &s->batch, err);

    if (rc < 0 || s->batch.n == 0) {
        return rc;
    }
    wd_model_lookup(t->model, &s->batch);
    return rt_pull_sparse_start(
        t->client, WD_TABLE_EMBEDDING, s->batch.unique, s->batch.n_unique, s->rows, &s->call, err);
}

static void sum_add(struct trainer *t) {
    size_t n = wd_model_layout(t->model)->total;
    float *restrict sum = t->sum;
    const float *restrict grads = t->grads;

    if (t->merged++ == 0) {
        memcpy(t->sum, t->grads, n * sizeof(*t->sum));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        sum[i] += grads[i];
    }
}

static int sum_exchange(struct trainer *t, struct co_err *err) {
    t->merged = 0;
    return rt_exchange_dense(t->client, WD_TABLE_DENSE, t->sum, t->params, err);
}

static int dense_exchange(struct trainer *t, struct co_err *err) {
    if (t->merge <= 1) {
        return rt_exchange_dense(t->client, WD_TABLE_DENSE, t->grads, t->params, err);
    }
    sum_add(t);
    return t->merged == t->merge ? sum_exchange(t, err) : 0;
}

/* Forward and backward of a batch whose rows are here; hands the gradients over. */
static int slot_train(struct trainer *t, struct slot *s, struct co_err *err) {
    const float *p = NULL;
    int rc = wd_model_forward(t->model, &s->batch, t->params, s->rows, &p, err);

    if (rc == 0) {
        progress_add(&t->progress, s->batch.n, p, s->batch.label);
        rc = wd_model_backward(t->model, &s->batch, t->params, t->grads, t->row_grads, err);
    }
    if (rc == 0) {
        rc = rt_push_sparse(
            t->client, WD_TABLE_EMBEDDING, s->batch.unique, s->batch.n_unique, t->row_grads, err);
    }
    return rc == 0 ? dense_exchange(t, err) : rc;
}

/* Async: a slot that was trained on is filled again at once. */
static int pass_async(struct trainer *t, struct co_err *err) {
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < AHEAD; i++) {
        rc = slot_prepare(t, &t->slots[i], err);
    }
    for (size_t at = 0; rc == 0 && t->slots[at].batch.n; at = (at + 1) % AHEAD) {
        struct slot *s = &t->slots[at];

        rc = slot_wait(s, err);
        if (rc == 0) {
            rc = slot_train(t, s, err);
        }
        if (rc == 0) {
            rc = rt_step(t->client, err);
        }
        if (rc == 0) {
            rc = slot_prepare(t, s, err);
        }
    }
    return rc == 0 && t->merged ? sum_exchange(t, err) : rc;
}

/* A step of all workers together.  A worker whose data has ended goes on with steps that change
 * nothing until everybody's has; gradient is what it adds to "ended". */
static int step_sync(struct trainer *t, float gradient, struct co_err *err) {
    int rc = rt_exchange_dense(t->client, WD_TABLE_ENDED, &gradient, &t->ended, err);

    return rc == 0 ? rt_step(t->client, err) : rc;
}

/* Sync: rows are pulled when the step before has been applied. */
static int pass_sync(struct trainer *t, struct co_err *err) {
    struct slot *s = &t->slots[0];
    int rc = slot_prepare(t, s, err);

    while (rc == 0 && s->batch.n) {
        rc = slot_wait(s, err);
        if (rc == 0) {
            rc = slot_train(t, s, err);
        }
        if (rc == 0) {
            rc = step_sync(t, 0.0F, err);
        }
        if (rc == 0) {
            rc = slot_prepare(t, s, err);
        }
    }
    return rc;
}

static bool all_ended(const struct trainer *t) {
    return (double)t->ended > 1.0 - 0.5 / (double)rt_worker_num(t->job);
}

static int passes_run(struct trainer *t, struct co_err *err) {
    int rc = 0;

    for (int64_t pass = 0; rc == 0 && pass < t->options->epochs; pass++) {
        if (pass > 0) {
            wd_reader_rewind(t->reader);
        }
        progress_begin(&t->progress, pass);
        rc = t->sync ? pass_sync(t, err) : pass_async(t, err);
        progress_print(&t->progress, now_ms());
    }
    if (rc < 0 || !t->sync) {
        return rc;
    }
    /* Averaged over the workers, ours moves "ended" by one share. */
    rc = step_sync(t, -1.0F, err);
    while (rc == 0 && !all_ended(t)) {
        rc = step_sync(t, 0.0F, err);
    }
    return rc;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static int memory_init(struct trainer *t, struct co_err *err) {
    size_t batch = (size_t)t->options->batch_size;
    int rc = wd_model_new(t->config, batch, &t->model, err);

    for (size_t i = 0; rc == 0 && i < AHEAD; i++) {
        rc = wd_batch_init(t->config, batch, &t->slots[i].batch, err);
    }
    if (rc < 0) {
        return rc;
    }
    /* The model has bounded both products. */
    size_t rows = batch * t->config->slots * t->config->embed;
    size_t params = wd_model_layout(t->model)->total;
    for (size_t i = 0; i < AHEAD; i++) {
        t->slots[i].rows = co_xcalloc(rows, sizeof(float));
    }
    t->row_grads = co_xcalloc(rows, sizeof(float));
    t->params = co_xcalloc(params, sizeof(float));
    t->grads = co_xcalloc(params, sizeof(float));
    t->sum = co_xcalloc(params, sizeof(float));
    return 0;
}

static void trainer_done(struct trainer *t) {
    struct co_err ignored;

    for (size_t i = 0; i < AHEAD; i++) {
        (void)slot_wait(&t->slots[i], &ignored); /* nobody may write to rows after this */
        wd_batch_done(&t->slots[i].batch);
        free(t->slots[i].rows);
    }
    rt_client_close(t->client);
    wd_model_free(t->model);
    wd_reader_free(t->reader);
    free(t->row_grads);
    free(t->params);
    free(t->grads);
    free(t->sum);
    memset(t, 0, sizeof(*t));
}

static uint32_t merge_choose(const struct trainer *t) {
    uint32_t most = MERGE / rt_worker_num(t->job);
    uint32_t wanted = (uint32_t)((SAMPLES + t->options->batch_size - 1) / t->options->batch_size);

    most = most > 1 && !t->sync ? most : 1;
    return wanted < most ? wanted : most;
}

/* Connects, and puts the same first values everywhere: those of a checkpoint, or fresh ones. */
static int tables_start(struct trainer *t, struct co_err *err) {
    uint32_t most = MERGE / rt_worker_num(t->job) / t->merge;
    const struct rt_client_options options = {
        .mode = t->sync ? RT_SYNC : RT_ASYNC, .dense_merge_max = most > 1 ? most : 1};
    bool loads = t->options->load[0] != '\0';
    int rc = rt_client_open(t->job, &options, t->tables.specs, WD_TABLES, &t->client, err);

    if (rc == 0 && loads && rt_is_first_worker(t->job)) {
        rc = rt_load(t->client, t->options->load, err);
    }
    if (rc == 0 && loads) {
        rc = rt_barrier(t->client, err);
    }
    if (rc == 0 && loads) {
        rc = rt_pull_dense(t->client, WD_TABLE_DENSE, t->params, err);
    }
    if (rc == 0 && !loads) {
        wd_layout_init(wd_model_layout(t->model), (uint64_t)t->options->seed, t->params);
        rc = rt_init_dense(t->client, WD_TABLE_DENSE, t->params, err);
    }
    if (rc == 0) {
        t->ended = 0.0F; /* a checkpoint's is another run's */
        rc = rt_init_dense(t->client, WD_TABLE_ENDED, &t->ended, err);
    }
    return rc;
}

static int client_rows(
    void *source, const uint64_t *ids, size_t n, float *ret_rows, struct co_err *err) {
    return rt_pull_sparse(source, WD_TABLE_EMBEDDING, ids, n, ret_rows, err);
}

static int test_run(struct trainer *t, struct co_err *err) {
    CO_CLEANUP(wd_reader_freep) struct wd_reader *reader = NULL;
    int rc = wd_data_open_test(t->options, &reader, err);

    if (rc < 0 || !reader) {
        return rc;
    }
    rc = rt_pull_dense(t->client, WD_TABLE_DENSE, t->params, err);
    if (rc < 0) {
        return rc;
    }
    const struct wd_evaluation e = {.model = t->model,
        .config = t->config,
        .batch = (size_t)t->options->batch_size,
        .params = t->params,
        .rows = client_rows,
        .source = t->client};
    rc = wd_evaluate(&e, reader, &t->progress.metrics, err);
    if (rc == 0) {
        wd_metrics_print(stdout, &t->progress.metrics);
    }
    return rc;
}

/* After everybody's last step the first worker has the tables for itself. */
static int end_run(struct trainer *t, struct co_err *err) {
    const char *dir = t->options->save;
    int rc = rt_barrier(t->client, err);

    if (rc == 0 && rt_is_first_worker(t->job)) {
        rc = test_run(t, err);
        if (rc == 0 && dir[0] != '\0') {
            rc = rt_save(t->client, dir, err);
            if (rc == 0) {
                co_log_info("model saved", CO_S("dir", dir));
            }
        }
    }
    return rc == 0 ? rt_finish(co_steal_ptr(t->client), err) : rc;
}

int wd_train(const struct rt_job *job, const struct wd_options *o, struct nn_metrics *ret_test,
    struct co_err *err) {
    CO_CLEANUP(trainer_done)
    struct trainer t = {.job = job,
        .options = o,
        .config = &wd_config_criteo,
        .sync = strcmp(o->mode, "sync") == 0};
    const struct wd_share share = {.index = rt_worker_index(job), .count = rt_worker_num(job)};
    int rc = wd_tables_init(o, t.config, &t.tables, err);

    if (rc == 0) {
        rc = memory_init(&t, err);
    }
    if (rc == 0) {
        rc = wd_data_open_train(o, share, &t.reader, err);
    }
    if (rc < 0) {
        return rc;
    }
    co_log_info("worker starts", CO_I("worker", share.index), CO_I("workers", share.count),
        CO_I("servers", rt_server_num(job)), CO_S("data", wd_reader_describe(t.reader)),
        CO_S("optimizer", t.tables.dense_optimizer),
        CO_S("embedding_optimizer", t.tables.embedding_optimizer), CO_S("mode", o->mode),
        CO_I("batch_size", o->batch_size));
    t.merge = merge_choose(&t);
    rc = tables_start(&t, err);
    if (rc == 0) {
        rc = passes_run(&t, err);
    }
    nn_metrics_clear(&t.progress.metrics);
    if (rc == 0) {
        rc = end_run(&t, err);
    }
    if (rc == 0 && ret_test) {
        *ret_test = t.progress.metrics;
    }
    return rc;
}
