/* The N-gram network on parameter servers: a dense table, and a table of the words' vectors. */
#include <string.h>

#include "examples/nn/embed.h"
#include "examples/word2vec/learner.h"
#include "examples/word2vec/ngram.h"

enum { DENSE, VECTORS };

struct wv_learner {
    const struct wv_options *options;
    struct wv_ngram_shape shape;
    struct wv_ngram *model;
    struct rt_params *params;
    struct nn_distinct *distinct;
    uint64_t *context, *unique; /* (B, N - 1), (U) */
    uint32_t *index;            /* (B, N - 1) */
    float *rows, *row_grads;    /* (U, E) */
};

static void learner_close(struct wv_learner *l) {
    wv_ngram_free(l->model);
    rt_params_free(l->params);
    nn_distinct_free(l->distinct);
    free(l->context);
    free(l->unique);
    free(l->index);
    free(l->rows);
    free(l->row_grads);
    free(l);
}

static int learner_open(const struct wv_options *o, const struct wv_dict *d, size_t n,
    size_t batch_max, struct wv_learner **ret_l, struct co_err *err) {
    struct wv_learner *l = co_xcalloc(1, sizeof(*l));
    size_t words = batch_max * (n - 1);

    l->options = o;
    l->shape = (struct wv_ngram_shape){.n = n,
        .embed = o->embed > 0 ? (size_t)o->embed : 32,
        .hidden = (size_t)o->hidden,
        .words = d->n,
        .dropout = o->dropout};
    int rc = wv_ngram_new(&l->shape, batch_max, (uint64_t)o->seed, &l->model, err);
    if (rc == 0) {
        rc = wv_ngram_params(&l->shape, (uint64_t)o->seed, &l->params, err);
    }
    if (rc == 0) {
        rc = nn_distinct_new(words, &l->distinct, err);
    }
    if (rc < 0) {
        learner_close(l);
        return rc;
    }
    /* Cannot overflow: wv_ngram_new has limited the products. */
    l->context = co_xcalloc(words, sizeof(*l->context));
    l->unique = co_xcalloc(words, sizeof(*l->unique));
    l->index = co_xcalloc(words, sizeof(*l->index));
    l->rows = co_xcalloc(words * l->shape.embed, sizeof(*l->rows));
    l->row_grads = co_xcalloc(words * l->shape.embed, sizeof(*l->row_grads));
    *ret_l = l;
    return 0;
}

/* Like Paddle v2, does not regularise sparsely updated parameters. */
static void tables(const struct wv_learner *l, struct rt_table_spec specs[WV_TABLES]) {
    const struct wv_options *o = l->options;
    const char *vectors = o->embedding_optimizer[0] != '\0' ? o->embedding_optimizer : o->optimizer;

    specs[DENSE] = (struct rt_table_spec){.name = "dense",
        .kind = RT_DENSE,
        .size = rt_params_size(l->params),
        .optimizer =
            o->optimizer[0] != '\0' ? o->optimizer : "adagrad:lr=0.003,epsilon=1e-6,l2=8e-4"};
    specs[VECTORS] = (struct rt_table_spec){.name = "_proj",
        .kind = RT_SPARSE,
        .dim = (uint32_t)l->shape.embed,
        .optimizer = vectors[0] != '\0' ? vectors : "adagrad:lr=0.003,epsilon=1e-6",
        .init = "normal:std=0.001",
        .seed = (uint64_t)o->seed};
}

static int begin(
    struct wv_learner *l, const struct rt_job *job, struct rt_client *c, struct co_err *err) {
    return rt_load_or_init(job, c, l->options->load, DENSE, rt_params_values(l->params), NULL, err);
}

static int refresh(struct wv_learner *l, struct rt_client *c, struct co_err *err) {
    return rt_pull_dense(c, DENSE, rt_params_values(l->params), err);
}

static int run(struct wv_learner *l, struct rt_client *c, const uint64_t *ids, size_t n,
    bool training, struct wv_score *ret_score, struct co_err *err) {
    size_t width = l->shape.n - 1;

    for (size_t i = 0; i < n; i++) {
        memcpy(l->context + i * width, ids + i * (width + 1), width * sizeof(*ids));
    }
    struct wv_batch b = {.n = n, .ids = ids, .index = l->index, .rows = l->rows};
    b.n_rows = nn_distinct_find(l->distinct, n * width, l->context, l->unique, l->index);
    CO_TRY(rt_pull_sparse(c, VECTORS, l->unique, b.n_rows, l->rows, err));
    CO_TRY(wv_ngram_forward(
        l->model, &b, l->params, training, &ret_score->loss, &ret_score->wrong, err));
    if (!training) {
        return 0;
    }
    CO_TRY(wv_ngram_backward(l->model, &b, l->params, l->row_grads, err));
    CO_TRY(rt_push_sparse(c, VECTORS, l->unique, b.n_rows, l->row_grads, err));
    return rt_exchange_dense(
        c, DENSE, rt_params_gradients(l->params), rt_params_values(l->params), err);
}

const struct wv_kind wv_kind_ngram = {.name = "ngram",
    .mode = RT_ASYNC,
    .open = learner_open,
    .close = learner_close,
    .tables = tables,
    .begin = begin,
    .refresh = refresh,
    .run = run,
    .embedding = "_proj",
    .table = VECTORS};
