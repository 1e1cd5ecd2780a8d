/* The training loop: ratings by batch, passes, saving and the test. */
#include "examples/recommendation/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "examples/data/lines.h"
#include "examples/data/train.h"
#include "examples/nn/embed.h"
#include "examples/recommendation/net.h"

#define OPTIMIZER "adam:lr=0.001"

enum { DENSE, ROWS, TABLES = ROWS + RC_TABLES };

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

struct trainer {
    const struct rt_job *job;
    const struct rc_options *o;
    struct rc_library library;
    struct rt_input *input;
    uint64_t trained; /* ratings, by this process */
    struct rt_client *client;
    struct rc_net *net;
    struct rt_params *params;
    struct rc_batch batch;
    struct nn_distinct *distinct[RC_TABLES];
    uint64_t *unique[RC_TABLES]; /* (U) */
    float *grads[RC_TABLES];     /* (U, .) */
    size_t n_unique[RC_TABLES];
};

static const struct rc_shape sizes = {.width = {32, 16}};
static const char *const modes[] = {"", [RT_ASYNC] = "async", [RT_SYNC] = "sync", [RT_GEO] = "geo"};

static int mode_parse(const char *name, enum rt_mode *ret, struct co_err *err) {
    for (size_t i = 0; i < CO_ARRAY_LEN(modes); i++) {
        if (strcmp(modes[i], name) == 0) {
            *ret = (enum rt_mode)i;
            return 0;
        }
    }
    return co_err_set(err, CO_INVALID, "--mode is \"%s\", expected async, sync or geo", name);
}

/* ---- batches -------------------------------------------------------------------------------- */

static int batch_read(struct trainer *t, struct rt_input *input, struct co_err *err) {
    struct da_text line;
    struct rc_rating rating;
    int rc = 0;

    rc_batch_clear(&t->batch);
    while (rc == 0 && t->batch.n < (size_t)t->o->batch_size) {
        rc = da_line_next(input, &line, err);
        if (rc < 0 || !line.at) {
            break;
        }
        rc = rc_rating_parse(&t->library, line, rt_input_where(input), &rating, err);
        if (rc == 0) {
            rc_batch_add(&t->batch, &t->library, &rating);
        }
    }
    return rc;
}

/* Pulls the batch's rows and computes its loss. */
static int forward(struct trainer *t, double *ret_loss, struct co_err *err) {
    struct rt_pull pulls[RC_TABLES];

    for (size_t i = 0; i < RC_TABLES; i++) {
        struct rc_batch *b = &t->batch;

        t->n_unique[i] =
            nn_distinct_find(t->distinct[i], b->n_ids[i], b->ids[i], t->unique[i], b->index[i]);
        pulls[i] = (struct rt_pull){.table = (uint32_t)(ROWS + i),
            .ids = t->unique[i],
            .n = t->n_unique[i],
            .ret_rows = b->rows[i]};
    }
    int rc = rt_pull_sparse_many(t->client, pulls, RC_TABLES, err);
    return rc == 0 ? rc_net_forward(t->net, &t->batch, t->params, ret_loss, err) : rc;
}

static int backward(struct trainer *t, struct co_err *err) {
    for (size_t i = 0; i < RC_TABLES; i++) {
        memset(t->grads[i], 0, t->n_unique[i] * sizes.width[i] * sizeof(float));
    }
    CO_TRY(rc_net_backward(t->net, &t->batch, t->params, t->grads, err));
    for (uint32_t i = 0; i < RC_TABLES; i++) {
        CO_TRY(rt_push_sparse(t->client, ROWS + i, t->unique[i], t->n_unique[i], t->grads[i], err));
    }
    return rt_exchange_dense(
        t->client, DENSE, rt_params_gradients(t->params), rt_params_values(t->params), err);
}

static int pass(struct trainer *t, struct co_err *err) {
    double loss = 0.0;
    int rc = batch_read(t, t->input, err);

    for (int64_t batch = 0; rc == 0 && t->batch.n > 0; batch++) {
        rc = forward(t, &loss, err);
        rc = rc == 0 ? backward(t, err) : rc;
        t->trained += t->batch.n;
        rc = rc == 0 ? rt_keep_input(t->client, t->input, err) : rc;
        rc = rc == 0 ? rt_step(t->client, err) : rc;
        if (rc == 0 && batch % t->o->period == 0) {
            (void)printf("Pass %" PRIu64 " Batch %" PRId64 " Cost %.2f\n", rt_input_pass(t->input),
                batch, loss);
            (void)fflush(stdout);
        }
        rc = rc == 0 ? batch_read(t, t->input, err) : rc;
    }
    return rc;
}

/* ---- passes --------------------------------------------------------------------------------- */

/* Saves the model after a pass.  In sync mode the others wait for worker 0's next step meanwhile,
 * unless it has declared that it has no more data. */
static int pass_save(struct trainer *t, uint64_t number, struct co_err *err) {
    CO_AUTOFREE char *dir = co_xasprintf("%s/pass-%05" PRIu64, t->o->save_dir, number);

    if (!rt_is_first_worker(t->job) || t->o->save_dir[0] == '\0') {
        return 0;
    }
    if (mkdir(t->o->save_dir, 0755) < 0 && errno != EEXIST) {
        return co_err_errno(err, errno, "\"%s\"", t->o->save_dir);
    }
    return rt_save(t->client, dir, err);
}

static int passes(struct trainer *t, struct co_err *err) {
    uint64_t all = (uint64_t)t->o->passes;
    int rc = rt_resume_input(t->client, t->input, err);

    if (rc == 0) {
        rc = rt_pull_dense(t->client, DENSE, rt_params_values(t->params), err);
    }
    while (rc == 0 && rt_input_pass(t->input) < all) {
        rc = pass(t, err);
        /* Without data of its own, worker 0 is here before the others have begun. */
        if (rc == 0 && rt_input_pass(t->input) + 1 < all && t->trained > 0) {
            rc = pass_save(t, rt_input_pass(t->input), err);
        }
        rt_input_rewind(t->input);
    }
    return rc == 0 ? rt_no_more(t->client, err) : rc;
}

static int test_open(const struct trainer *t, struct rt_input **ret_input, struct co_err *err) {
    CO_AUTOFREE char *list = co_xasprintf("%s/test.list", t->o->data);

    return rt_input_open(list, NULL, ret_input, err);
}

static int test(struct trainer *t, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    double sum = 0.0, loss = 0.0;
    size_t n = 0;
    int rc = test_open(t, &input, err);

    rc = rc == 0 ? rt_pull_dense(t->client, DENSE, rt_params_values(t->params), err) : rc;
    rc = rc == 0 ? batch_read(t, input, err) : rc;
    while (rc == 0 && t->batch.n > 0) {
        rc = forward(t, &loss, err);
        sum += loss * (double)t->batch.n;
        n += t->batch.n;
        rc = rc == 0 ? batch_read(t, input, err) : rc;
    }
    if (rc == 0 && n > 0) {
        (void)printf("TEST ---> loss: %.6f\n", sum / (double)n);
        (void)fflush(stdout);
    }
    return rc;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static void trainer_done(struct trainer *t) {
    rt_client_close(t->client);
    rt_input_close(t->input);
    rc_net_free(t->net);
    rt_params_free(t->params);
    for (size_t i = 0; i < RC_TABLES; i++) {
        nn_distinct_free(t->distinct[i]);
        free(t->unique[i]);
        free(t->grads[i]);
        free(t->batch.rows[i]);
    }
    rc_batch_done(&t->batch);
    rc_library_done(&t->library);
    memset(t, 0, sizeof(*t));
}

static int data_open(struct trainer *t, struct co_err *err) {
    CO_AUTOFREE char *own = co_xasprintf("%s/ml-1m", t->o->data);
    CO_AUTOFREE char *list = co_xasprintf("%s/train.list", t->o->data);
    const struct rt_share share = {
        .worker = rt_worker_index(t->job), .workers = rt_worker_num(t->job)};
    int rc = rc_library_read(t->o->ml[0] != '\0' ? t->o->ml : own, &t->library, err);

    return rc == 0 ? rt_input_open(list, t->o->own_list ? NULL : &share, &t->input, err) : rc;
}

static int memory_open(struct trainer *t, const struct rc_shape *shape, struct co_err *err) {
    static const size_t each[RC_TABLES] = {2 + RC_GENRES_MAX + RC_WORDS_MAX, 3};
    size_t batch = (size_t)t->o->batch_size;
    int rc = rc_net_new(shape, batch, &t->net, err);

    rc = rc == 0 ? rc_net_params(shape, (uint64_t)t->o->seed, &t->params, err) : rc;
    for (size_t i = 0; rc == 0 && i < RC_TABLES; i++) {
        rc = nn_distinct_new(batch * each[i], &t->distinct[i], err);
    }
    if (rc < 0) {
        return rc;
    }
    rc_batch_init(&t->batch, batch);
    for (size_t i = 0; i < RC_TABLES; i++) {
        t->unique[i] = co_xcalloc(batch * each[i], sizeof(*t->unique[i]));
        t->grads[i] = co_xcalloc(batch * each[i], shape->width[i] * sizeof(float));
        t->batch.rows[i] = co_xcalloc(batch * each[i], shape->width[i] * sizeof(float));
    }
    return 0;
}

static int client_open(struct trainer *t, enum rt_mode mode, struct co_err *err) {
    const char *optimizer = t->o->optimizer[0] != '\0' ? t->o->optimizer : OPTIMIZER;
    const struct rt_client_options options = {.mode = mode};
    const char *const names[RC_TABLES] = {"long_rows", "short_rows"};
    struct rt_table_spec specs[TABLES] = {[DENSE] = {.name = "dense",
                                              .kind = RT_DENSE,
                                              .size = rt_params_size(t->params),
                                              .optimizer = optimizer}};

    for (size_t i = 0; i < RC_TABLES; i++) {
        specs[ROWS + i] = (struct rt_table_spec){.name = names[i],
            .kind = RT_SPARSE,
            .dim = (uint32_t)sizes.width[i],
            .optimizer = optimizer,
            .init = "uniform:min=-0.3,max=0.3",
            .seed = (uint64_t)t->o->seed};
    }
    CO_TRY(rt_client_open(t->job, &options, specs, TABLES, &t->client, err));
    co_log_info("worker starts", CO_I("worker", rt_worker_index(t->job)),
        CO_S("mode", modes[rt_client_mode(t->client)]), CO_S("data", rt_input_describe(t->input)),
        CO_S("optimizer", optimizer));
    return rt_load_or_init(
        t->job, t->client, t->o->load, DENSE, rt_params_values(t->params), NULL, err);
}

/* Makes sure, before training, that its end will not fail. */
static int end_check(struct trainer *t, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    int rc = da_writable(t->o->save_dir, err);

    rc = rc == 0 ? test_open(t, &input, err) : rc;
    rc = rc == 0 ? batch_read(t, input, err) : rc;
    return rc == 0 && t->batch.n == 0
               ? co_err_set(err, CO_INVALID,
                     "test data: no usable line in what \"%s/test.list\" names", t->o->data)
               : rc;
}

int rc_train(const struct rt_job *job, const struct rc_options *o, struct co_err *err) {
    CO_CLEANUP(trainer_done) struct trainer t = {.job = job, .o = o};
    struct rc_shape shape = sizes;
    enum rt_mode mode = RT_MODE_UNSET;
    int rc = mode_parse(o->mode, &mode, err);

    shape.features = (size_t)o->features;
    rc = rc == 0 ? data_open(&t, err) : rc;
    rc = rc == 0 ? memory_open(&t, &shape, err) : rc;
    if (rc == 0 && rt_is_first_worker(job)) {
        rc = end_check(&t, err);
    }
    rc = rc == 0 ? client_open(&t, mode, err) : rc;
    while (rc == 0 && (rc = passes(&t, err)) == CO_GONE) { /* all workers go back to a checkpoint */
        co_log_warn("worker goes back", CO_S("reason", co_err_text(err)));
        rc = 0;
    }
    rc = rc == 0 ? rt_barrier(t.client, err) : rc;
    if (rc == 0 && o->passes > 0) {
        rc = da_trained(t.client, DENSE, t.trained, o->data, NULL, err);
    }
    if (rc == 0 && rt_is_first_worker(job)) {
        rc = o->passes > 0 ? pass_save(&t, (uint64_t)o->passes - 1, err) : 0;
        rc = rc == 0 ? test(&t, err) : rc;
    }
    return rc == 0 ? rt_finish(co_steal_ptr(t.client), err) : rc;
}
