/* Skip-gram on parameter servers: two tables of rows, no dense table. */
#include <stdio.h>
#include <string.h>

#include "examples/nn/embed.h"
#include "examples/word2vec/learner.h"
#include "examples/word2vec/pairs.h"

enum { VECTORS, OTHERS };

struct wv_learner {
    const struct wv_options *options;
    struct wv_sampler sampler;
    size_t n, embed;
    char init[64];
    /* For the table of middle words, and that of words that they are compared with: */
    struct nn_distinct *distinct[WV_TABLES];
    uint64_t *ids[WV_TABLES], *unique[WV_TABLES];
    uint32_t *index[WV_TABLES];
    float *rows[WV_TABLES], *grads[WV_TABLES];
};

static size_t width(const struct wv_learner *l, size_t table) {
    return l->embed + (table == OTHERS);
}

/* The number of a table's words that a window needs. */
static size_t words(const struct wv_learner *l, size_t table) {
    return table == OTHERS ? (l->n - 1) * (size_t)(1 + l->options->negatives) : 1;
}

static void learner_close(struct wv_learner *l) {
    for (size_t t = 0; t < WV_TABLES; t++) {
        nn_distinct_free(l->distinct[t]);
        free(l->ids[t]);
        free(l->unique[t]);
        free(l->index[t]);
        free(l->rows[t]);
        free(l->grads[t]);
    }
    wv_sampler_done(&l->sampler);
    free(l);
}

static int learner_open(const struct wv_options *o, const struct wv_dict *d, size_t n,
    size_t batch_max, struct wv_learner **ret_l, struct co_err *err) {
    struct wv_learner *l = co_xcalloc(1, sizeof(*l));
    int rc = 0;

    l->options = o;
    l->n = n;
    l->embed = o->embed > 0 ? (size_t)o->embed : 64;
    (void)snprintf(l->init, sizeof(l->init), "uniform:min=%.9g,max=%.9g", -0.5 / (double)l->embed,
        0.5 / (double)l->embed);
    wv_sampler_init(&l->sampler, d, (uint64_t)o->seed, 0);
    for (size_t t = 0; rc == 0 && t < WV_TABLES; t++) {
        size_t all = batch_max * words(l, t);

        rc = nn_distinct_new(all, &l->distinct[t], err); /* also limits the sizes below */
        if (rc < 0) {
            break;
        }
        l->ids[t] = co_xcalloc(all, sizeof(*l->ids[t]));
        l->unique[t] = co_xcalloc(all, sizeof(*l->unique[t]));
        l->index[t] = co_xcalloc(all, sizeof(*l->index[t]));
        l->rows[t] = co_xcalloc(all, width(l, t) * sizeof(float));
        l->grads[t] = co_xcalloc(all, width(l, t) * sizeof(float));
    }
    if (rc < 0) {
        learner_close(l);
        return rc;
    }
    *ret_l = l;
    return 0;
}

static void tables(const struct wv_learner *l, struct rt_table_spec specs[WV_TABLES]) {
    static const char *const names[WV_TABLES] = {"emb", "emb_w"};
    const struct wv_options *o = l->options;

    for (size_t t = 0; t < WV_TABLES; t++) {
        specs[t] = (struct rt_table_spec){.name = names[t],
            .kind = RT_SPARSE,
            .dim = (uint32_t)width(l, t),
            .optimizer = o->optimizer[0] != '\0' ? o->optimizer : "sgd:lr=1.0",
            .init = t == OTHERS ? "zero" : l->init,
            .seed = (uint64_t)o->seed};
    }
}

/* Needs to set nothing: the servers give new rows their initial values. */
static int begin(
    struct wv_learner *l, const struct rt_job *job, struct rt_client *c, struct co_err *err) {
    const char *dir = l->options->load;
    int rc = 0;

    /* Each worker draws different words. */
    nn_rng_init(&l->sampler.rng, (uint64_t)l->options->seed, rt_worker_index(job));
    if (dir[0] != '\0' && rt_is_first_worker(job)) {
        rc = rt_load(c, dir, err);
    }
    return rc == 0 ? rt_barrier(c, err) : rc;
}

static int refresh(struct wv_learner *l, struct rt_client *c, struct co_err *err) {
    (void)l;
    (void)c;
    (void)err;
    return 0;
}

/* Lists the words of a window: the middle one, and the others, each followed by the words that are
 * drawn for it. */
static void window_take(struct wv_learner *l, const uint64_t *ids, size_t i) {
    uint64_t *other = l->ids[OTHERS] + i * words(l, OTHERS);

    l->ids[VECTORS][i] = ids[l->n / 2];
    for (size_t k = 0; k < l->n; k++) {
        if (k == l->n / 2) {
            continue;
        }
        *other++ = ids[k];
        for (int64_t drawn = 0; drawn < l->options->negatives; drawn++) {
            *other++ = wv_sampler_draw(&l->sampler);
        }
    }
}

static int run(struct wv_learner *l, struct rt_client *c, const uint64_t *ids, size_t n,
    bool training, struct wv_score *ret_score, struct co_err *err) {
    size_t found[WV_TABLES];

    for (size_t i = 0; i < n; i++) {
        window_take(l, ids + i * l->n, i);
    }
    for (size_t t = 0; t < WV_TABLES; t++) {
        found[t] =
            nn_distinct_find(l->distinct[t], n * words(l, t), l->ids[t], l->unique[t], l->index[t]);
        memset(l->grads[t], 0, found[t] * width(l, t) * sizeof(float));
    }
    const struct rt_pull pulls[] = {
        {.table = VECTORS, .ids = l->unique[0], .n = found[0], .ret_rows = l->rows[0]},
        {.table = OTHERS, .ids = l->unique[1], .n = found[1], .ret_rows = l->rows[1]}};
    CO_TRY(rt_pull_sparse_many(c, pulls, WV_TABLES, err));
    const struct wv_pairs pairs = {.n = n,
        .others = words(l, OTHERS),
        .each = (size_t)l->options->negatives + 1,
        .embed = l->embed,
        .middle = l->index[VECTORS],
        .other = l->index[OTHERS],
        .rows = l->rows[VECTORS],
        .other_rows = l->rows[OTHERS]};
    ret_score->loss = wv_pairs_loss(
        &pairs, training ? l->grads[VECTORS] : NULL, training ? l->grads[OTHERS] : NULL);
    ret_score->wrong = 0;
    for (uint32_t t = 0; training && t < WV_TABLES; t++) {
        CO_TRY(rt_push_sparse(c, t, l->unique[t], found[t], l->grads[t], err));
    }
    return 0;
}

const struct wv_kind wv_kind_skipgram = {.name = "skipgram",
    .mode = RT_GEO,
    .open = learner_open,
    .close = learner_close,
    .tables = tables,
    .begin = begin,
    .refresh = refresh,
    .run = run,
    .embedding = "emb",
    .table = VECTORS};
