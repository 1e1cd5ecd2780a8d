/* The training loop of all click models: batches, exchanges by mode, progress, test and save. */
#include "examples/ctr/trainer.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "examples/ctr/data.h"
#include "examples/ctr/evaluate.h"
#include "examples/ctr/tables.h"
#include "examples/ctr/together.h"
#include "examples/data/train.h"
#include "examples/nn/layers.h"

/* AHEAD: how many batches' rows are pulled while one batch is computed.  It is more than one, since
 * a pull can queue behind a dense exchange, which takes longer than a small batch. */
enum { AHEAD = 4, KEEP_EVERY = 64 };

/* Gradients of small batches are summed here until they cover SAMPLES samples, as a dense exchange
 * costs more than a small batch.  All workers together merge at most MERGE batches: each one makes
 * the values of the others a step older, which training tolerates only up to a point (tables.h). */
enum { MERGE = 4, SAMPLES = 40 };

/* A batch whose rows may not have arrived yet. */
struct slot {
    struct ctr_batch batch;
    struct ctr_rows rows; /* (U, E) */
    struct rt_call *call; /* NULL: the rows have arrived */
};

struct trainer {
    const struct rt_job *job;
    const struct ctr_options *options;
    const struct ctr_config *config;
    enum rt_mode mode;
    struct ctr_tables tables;
    struct rt_client *client;
    struct ctr_model *model;
    struct ctr_reader *reader, *test; /* test: first worker; NULL: no test */
    bool tested;                      /* test is not at its beginning */
    uint64_t samples;                 /* trained by this process */
    struct slot slots[AHEAD];
    float *params, *grads;     /* (P) */
    struct ctr_rows row_grads; /* (U, E) */
    float *sum;                /* (P): gradients that were not exchanged yet */
    uint32_t merge, merged;    /* batches for an exchange; batches in `sum` */
    struct rt_progress progress;
    struct nn_metrics metrics; /* of the pass; at the end of the test */
    uint64_t behind, skip;     /* batches trained; batches to read without training */
    bool begun;                /* the tables have their initial values */
};

static const char *const modes[] = {"", [RT_ASYNC] = "async", [RT_SYNC] = "sync", [RT_GEO] = "geo"};

int ctr_mode(const char *name, enum rt_mode *ret, struct co_err *err) {
    for (size_t i = 0; i < CO_ARRAY_LEN(modes); i++) {
        if (strcmp(modes[i], name) == 0) {
            *ret = (enum rt_mode)i;
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID, "--mode is \"%s\", expected async, sync or geo", name);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int slot_wait(struct slot *s, struct co_err *err) {
    struct rt_call *call = co_steal_ptr(s->call);

    return call ? rt_wait(call, err) : 0;
}

/* Reads the next batch and begins to pull its rows. */
static int slot_prepare(struct trainer *t, struct slot *s, struct co_err *err) {
    CO_TRY(ctr_reader_next(t->reader, &s->batch, err));
    if (s->batch.n == 0) {
        return 0;
    }
    CO_TRY(ctr_model_lookup(t->model, &s->batch, err));
    ctr_rows_fit(&s->rows, t->config, &s->batch);
    return rt_pull_sparse_start(t->client, CTR_TABLE_EMBEDDING, s->batch.unique, s->batch.n_unique,
        s->rows.at, &s->call, err);
}

/* Reports the area under the curve of the pass so far, and adds it to the progress line of `step`.
 */
static void auc_report(struct trainer *t, uint64_t step) {
    double auc = nn_metrics_auc(&t->metrics);

    (void)snprintf(t->progress.fields, sizeof(t->progress.fields), "auc: %.6f", auc);
    rt_report(t->job, step, "auc", auc);
}

/* The first gradient becomes the sum, and the next backward writes where the last sum was. */
static void sum_add(struct trainer *t) {
    size_t n = ctr_model_layout(t->model)->total;

    if (t->merged++ == 0) {
        float *first = t->grads;
        t->grads = t->sum;
        t->sum = first;
        return;
    }
    float *restrict sum = t->sum;
    const float *restrict grads = t->grads;
    for (size_t i = 0; i < n; i++) {
        sum[i] += grads[i];
    }
}

static int sum_exchange(struct trainer *t, struct co_err *err) {
    t->merged = 0;
    return rt_exchange_dense(t->client, CTR_TABLE_DENSE, t->sum, t->params, err);
}

static int dense_exchange(struct trainer *t, struct co_err *err) {
    if (t->merge <= 1) {
        return rt_exchange_dense(t->client, CTR_TABLE_DENSE, t->grads, t->params, err);
    }
    sum_add(t);
    return t->merged == t->merge ? sum_exchange(t, err) : 0;
}

static void progress_add(struct trainer *t, size_t n, const float *p, const float *label) {
    nn_metrics_add(&t->metrics, n, p, label);
    if (rt_progress_due(&t->progress)) {
        auc_report(t, t->progress.steps + 1);
    }
    rt_progress_add(&t->progress, n, nn_log_loss(n, p, label));
}

/* Forward and backward of a batch whose rows have arrived; then pushes the gradients. */
static int slot_train(struct trainer *t, struct slot *s, struct co_err *err) {
    const float *p = NULL;

    CO_TRY(ctr_model_forward(t->model, &s->batch, t->params, s->rows.at, &p, err));
    t->samples += s->batch.n;
    progress_add(t, s->batch.n, p, s->batch.label);
    ctr_rows_fit(&t->row_grads, t->config, &s->batch);
    CO_TRY(ctr_model_backward(t->model, &s->batch, t->params, t->grads, t->row_grads.at, err));
    CO_TRY(rt_push_sparse(
        t->client, CTR_TABLE_EMBEDDING, s->batch.unique, s->batch.n_unique, t->row_grads.at, err));
    return dense_exchange(t, err);
}

/* In async mode, reports to the servers now and then how far this trainer is, in case it restarts.
 * In sync mode the servers count its steps themselves. */
static int step_end(struct trainer *t, struct co_err *err) {
    int rc = 0;

    if (++t->behind % KEEP_EVERY == 0 && t->mode != RT_SYNC) {
        rc = rt_keep(t->client, &(char){1}, 1, err);
    }
    return rc == 0 ? rt_step(t->client, err) : rc;
}

/* Trains the slot's batch, and prepares the next one in its place. */
static int slot_turn(struct trainer *t, struct slot *s, struct co_err *err) {
    CO_TRY(slot_wait(s, err));
    CO_TRY(slot_train(t, s, err));
    CO_TRY(step_end(t, err));
    return slot_prepare(t, s, err);
}

/* Async and geo: refills a slot as soon as it was trained. */
static int pass_async(struct trainer *t, struct co_err *err) {
    for (size_t i = 0; i < AHEAD; i++) {
        CO_TRY(slot_prepare(t, &t->slots[i], err));
    }
    for (size_t at = 0; t->slots[at].batch.n; at = (at + 1) % AHEAD) {
        CO_TRY(slot_turn(t, &t->slots[at], err));
    }
    return t->merged ? sum_exchange(t, err) : 0;
}

/* Sync: pulls rows only after the previous step was applied. */
static int pass_sync(struct trainer *t, struct co_err *err) {
    struct slot *s = &t->slots[0];

    CO_TRY(slot_prepare(t, s, err));
    while (s->batch.n) {
        CO_TRY(slot_turn(t, s, err));
    }
    return 0;
}

/* Reads, without training, the batches of this pass that were trained before a restart; what is
 * left of t->skip belongs to later passes. */
static int batches_skip(struct trainer *t, struct co_err *err) {
    struct ctr_batch *b = &t->slots[0].batch;
    int rc = 0;

    for (b->n = 1; rc == 0 && t->skip > 0 && b->n > 0;) {
        rc = ctr_reader_next(t->reader, b, err);
        t->skip -= rc == 0 && b->n > 0;
    }
    return rc;
}

static int pass_run(struct trainer *t, struct co_err *err) {
    CO_TRY(batches_skip(t, err));
    return t->mode == RT_SYNC ? pass_sync(t, err) : pass_async(t, err);
}

static int passes_run(struct trainer *t, struct co_err *err) {
    int rc = 0;

    for (int64_t pass = 0; rc == 0 && pass < t->options->epochs; pass++) {
        if (pass > 0) {
            ctr_reader_rewind(t->reader);
        }
        nn_metrics_clear(&t->metrics);
        rt_progress_begin(&t->progress, (uint64_t)pass);
        rc = pass_run(t, err);
        if (t->progress.samples > 0) {
            auc_report(t, t->progress.steps);
        }
        rt_progress_end(&t->progress);
    }
    /* Other workers may have more data: they continue without this one. */
    return rc == 0 ? rt_no_more(t->client, err) : rc;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static int memory_init(struct trainer *t, struct co_err *err) {
    size_t batch = (size_t)t->options->batch_size;

    CO_TRY(ctr_model_new(t->options->net, batch, &t->model, err));
    for (size_t i = 0; i < AHEAD; i++) {
        CO_TRY(ctr_batch_init(t->config, batch, &t->slots[i].batch, err));
    }
    size_t params = ctr_model_layout(t->model)->total;
    t->params = co_xcalloc(params, sizeof(float));
    t->grads = co_xcalloc(params, sizeof(float));
    t->sum = co_xcalloc(params, sizeof(float));
    return 0;
}

static void trainer_done(struct trainer *t) {
    struct co_err ignored;

    for (size_t i = 0; i < AHEAD; i++) {
        (void)slot_wait(
            &t->slots[i], &ignored); /* no call may write to the rows once they are freed */
        ctr_batch_done(&t->slots[i].batch);
        free(t->slots[i].rows.at);
    }
    rt_client_close(t->client);
    ctr_model_free(t->model);
    ctr_reader_free(t->reader);
    ctr_reader_free(t->test);
    free(t->row_grads.at);
    free(t->params);
    free(t->grads);
    free(t->sum);
    memset(t, 0, sizeof(*t));
}

static uint32_t merge_choose(const struct trainer *t) {
    uint32_t most = MERGE / rt_worker_num(t->job);
    uint32_t wanted = (uint32_t)((SAMPLES + t->options->batch_size - 1) / t->options->batch_size);

    most = most > 1 ? most : 1;
    return wanted < most ? wanted : most;
}

/* Connects to the servers and sets the tables to initial values or those of a checkpoint. */
static int client_open(struct trainer *t, struct co_err *err) {
    uint32_t most = MERGE / rt_worker_num(t->job) / t->merge;
    const struct rt_client_options options = {.mode = t->mode,
        .k_steps = (uint32_t)t->options->k_steps,
        .backup = (uint32_t)t->options->backup,
        .staleness = (uint32_t)t->options->staleness,
        .merge_max = (uint32_t)t->options->merge,
        .dense_merge_max = most > 1 ? most : 1};

    CO_TRY(rt_client_open(t->job, &options, t->tables.specs, CTR_TABLES, &t->client, err));
    t->mode = rt_client_mode(t->client);
    t->merge = t->mode == RT_ASYNC ? t->merge : 1;
    co_log_info("worker trains", CO_S("mode", modes[t->mode]));
    return 0;
}

static int tables_begin(struct trainer *t, struct co_err *err) {
    bool loaded = false;

    ctr_layout_init(ctr_model_layout(t->model), (uint64_t)t->options->seed, t->params);
    int rc = rt_load_or_init(
        t->job, t->client, t->options->load, CTR_TABLE_DENSE, t->params, &loaded, err);
    if (rc == 0 && rt_is_first_worker(t->job) && t->options->load[0] != '\0' && !loaded) {
        rc = co_err_set(err, CO_NOTFOUND, "\"%s\" holds no model", t->options->load);
    }
    t->begun = rc == 0;
    return rc;
}

/* Finds where this trainer resumes after it restarted, or after the job went back to a checkpoint.
 */
static int place_find(struct trainer *t, struct co_err *err) {
    struct rt_place place;
    char kept[1];

    CO_TRY(rt_resume(t->client, kept, sizeof(kept), &place, err));
    t->behind = t->skip = place.step;
    t->merged = 0;
    if (place.step > 0) {
        co_log_info("worker resumes", CO_I("batches_behind", (int64_t)place.step));
        CO_TRY(rt_pull_dense(t->client, CTR_TABLE_DENSE, t->params, err));
    }
    return 0;
}

static int client_rows(
    void *source, const uint64_t *ids, size_t n, float *ret_rows, struct co_err *err) {
    return rt_pull_sparse(source, CTR_TABLE_EMBEDDING, ids, n, ret_rows, err);
}

static int test_run(struct trainer *t, struct co_err *err) {
    if (!t->test) {
        return 0;
    }
    CO_TRY(rt_pull_dense(t->client, CTR_TABLE_DENSE, t->params, err));
    if (t->tested) {
        ctr_reader_rewind(t->test);
    }
    t->tested = true;
    const struct ctr_evaluation e = {.model = t->model,
        .config = t->config,
        .batch = (size_t)t->options->batch_size,
        .params = t->params,
        .rows = client_rows,
        .source = t->client};
    CO_TRY(ctr_evaluate(&e, t->test, &t->metrics, err));
    ctr_metrics_print(stdout, &t->metrics);
    return 0;
}

/* Waits until all workers have made their last step; then the first worker tests and saves, and the
 * tables do not change meanwhile. */
static int results_make(struct trainer *t, struct co_err *err) {
    const char *dir = t->options->save;
    int rc = rt_barrier(t->client, err);

    if (rc == 0 && t->options->epochs > 0) {
        rc = da_trained(t->client, CTR_TABLE_DENSE, t->samples + t->behind,
            ctr_data_train_path(t->options), ctr_reader_skipped(t->reader), err);
    }
    if (rc == 0 && t->options->epochs > 0) {
        ctr_metrics_together(t->job, &t->metrics);
    }
    nn_metrics_clear(&t->metrics);
    if (rc == 0 && rt_is_first_worker(t->job)) {
        rc = test_run(t, err);
        if (rc == 0 && dir[0] != '\0') {
            rc = rt_save(t->client, dir, err);
            if (rc == 0) {
                co_log_info("model saved", CO_S("dir", dir));
            }
        }
    }
    return rc;
}

static int run_once(struct trainer *t, struct co_err *err) {
    CO_TRY(t->begun ? 0 : tables_begin(t, err));
    CO_TRY(place_find(t, err));
    CO_TRY(passes_run(t, err));
    return results_make(t, err);
}

static int go_back(struct trainer *t, struct co_err *err) {
    struct co_err ignored;

    co_log_warn("worker goes back", CO_S("reason", co_err_text(err)));
    for (size_t i = 0; i < AHEAD; i++) {
        (void)slot_wait(&t->slots[i], &ignored);
    }
    *err = (struct co_err){0};
    ctr_reader_rewind(t->reader);
    return place_find(t, err);
}

/* Makes all passes and the results.  If a server is lost, the job goes back to a checkpoint, and
 * this begins again from there; a server may be lost before the first pass or during the test. */
static int train(struct trainer *t, struct co_err *err) {
    int rc = run_once(t, err);

    while (rc == CO_GONE) {
        rc = go_back(t, err);
        if (rc == 0) {
            rc = run_once(t, err);
        }
    }
    CO_TRY(rc);
    return rt_finish(co_steal_ptr(t->client), err);
}

/* Makes sure, before hours of training, that its end will not fail: there is test data, if any is
 * wanted, and the model can be written. */
static int end_check(struct trainer *t, struct co_err *err) {
    int rc = da_writable(t->options->save, err);

    rc = rc == 0 ? ctr_data_open_test(t->options, &t->test, err) : rc;
    return rc == 0 && t->test ? ctr_data_probe_test(t->options, t->test, err) : rc;
}

int ctr_train(const struct rt_job *job, const struct ctr_options *o, struct nn_metrics *ret_test,
    struct co_err *err) {
    CO_CLEANUP(trainer_done)
    struct trainer t = {.job = job,
        .options = o,
        .config = &o->net->config,
        .progress = {.job = job, .more = o->more}};
    const struct ctr_share share = {.index = rt_worker_index(job), .count = rt_worker_num(job)};

    CO_TRY(ctr_mode(o->mode, &t.mode, err));
    CO_TRY(ctr_tables_init(o, &t.tables, err));
    CO_TRY(memory_init(&t, err));
    if (rt_is_first_worker(job)) {
        CO_TRY(end_check(&t, err));
    }
    CO_TRY(ctr_data_open_train(o, share, &t.reader, err));
    co_log_info("worker starts", CO_I("worker", share.index), CO_I("workers", share.count),
        CO_I("servers", rt_server_num(job)), CO_S("data", ctr_reader_describe(t.reader)),
        CO_S("optimizer", t.tables.dense_optimizer),
        CO_S("embedding_optimizer", t.tables.embedding_optimizer),
        CO_I("batch_size", o->batch_size));
    t.merge = merge_choose(&t);
    CO_TRY(client_open(&t, err));
    CO_TRY(train(&t, err));
    if (ret_test) {
        *ret_test = t.metrics;
    }
    return 0;
}
