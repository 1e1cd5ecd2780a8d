/* Runs a network: input, tower, loss and back. */
#include "examples/ctr/model.h"

#include <string.h>

#include "examples/ctr/pool.h"
#include "examples/nn/embed.h"
#include "examples/nn/layers.h"

enum { BATCH_MAX = 1 << 20 };
#define SCRATCH_MAX ((size_t)4 << 30)

struct ctr_model {
    const struct ctr_net *net;
    struct ctr_layout layout;
    size_t batch_max;
    struct nn_engine *engine;
    struct nn_tower *tower;
    struct nn_distinct *distinct;
    size_t distinct_max; /* ids that it takes */
    struct ctr_pool pool;
    float *input, *dinput; /* (B, I), (B, wanted) */
    float *logit, *p, *dz; /* (B) */
    struct ctr_work work;  /* of the last forward */
};

static int floats_alloc(size_t rows, size_t cols, float **ret, struct co_err *err) {
    void *p = NULL;
    CO_TRY(co_try_alloc(rows, cols * sizeof(float), SCRATCH_MAX, "batch memory", &p, err));
    *ret = p;
    return 0;
}

int ctr_batch_init(
    const struct ctr_config *c, size_t max, struct ctr_batch *ret_b, struct co_err *err) {
    CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {.max = max};
    void *ids = NULL, *unique = NULL, *index = NULL, *bad = NULL;

    if (max == 0 || max > BATCH_MAX) {
        return co_err_set(
            err, CO_NORESOURCE, "batches of %zu samples, expected 1 to %d", max, BATCH_MAX);
    }
    int rc = co_try_alloc(max, c->slots * sizeof(*b.ids), SCRATCH_MAX, "batch memory", &ids, err);
    if (rc == 0) {
        rc = co_try_alloc(
            max, c->slots * sizeof(*b.unique), SCRATCH_MAX, "batch memory", &unique, err);
    }
    if (rc == 0) {
        rc = co_try_alloc(
            max, c->slots * sizeof(*b.index), SCRATCH_MAX, "batch memory", &index, err);
    }
    if (rc == 0) {
        rc = floats_alloc(max, c->dense, &b.dense, err);
    }
    if (rc == 0) {
        rc = floats_alloc(max, 1, &b.label, err);
    }
    if (rc == 0) {
        rc = co_try_alloc(max, sizeof(*b.bad), SCRATCH_MAX, "batch memory", &bad, err);
    }
    b.room = max * c->slots;
    b.bad = bad;
    b.ids = ids;
    b.unique = unique;
    b.index = index;
    if (rc < 0) {
        return rc;
    }
    *ret_b = b;
    memset(&b, 0, sizeof(b));
    return 0;
}

void ctr_batch_done(struct ctr_batch *b) {
    free(b->ids);
    free(b->dense);
    free(b->label);
    free(b->bad);
    free(b->more.at);
    free(b->unique);
    free(b->index);
    memset(b, 0, sizeof(*b));
}

static int scratch_alloc(struct ctr_model *m, struct co_err *err) {
    const struct ctr_config *c = &m->net->config;
    const struct {
        float **at;
        size_t cols;
    } arrays[] = {{&m->input, m->net->inputs(c)}, {&m->dinput, m->net->wanted(c)}, {&m->logit, 1},
        {&m->p, 1}, {&m->dz, 1}};

    for (size_t i = 0; i < CO_ARRAY_LEN(arrays); i++) {
        CO_TRY(floats_alloc(m->batch_max, arrays[i].cols, arrays[i].at, err));
    }
    return 0;
}

int ctr_model_new(
    const struct ctr_net *net, size_t batch_max, struct ctr_model **ret_m, struct co_err *err) {
    CO_CLEANUP(ctr_model_freep) struct ctr_model *m = co_xcalloc(1, sizeof(*m));
    CO_TRY(ctr_layout_make(net, &m->layout, err));
    if (batch_max == 0 || batch_max > BATCH_MAX) {
        return co_err_set(
            err, CO_NORESOURCE, "batches of %zu samples, expected 1 to %d", batch_max, BATCH_MAX);
    }
    const struct nn_tower_shape shape = ctr_tower_shape(net);
    m->net = net;
    m->batch_max = batch_max;
    m->distinct_max = batch_max * net->config.slots;
    CO_TRY(nn_distinct_new(m->distinct_max, &m->distinct, err));
    CO_TRY(nn_engine_new(&m->engine, err));
    CO_TRY(nn_tower_new(m->engine, &shape, batch_max, &m->tower, err));
    CO_TRY(scratch_alloc(m, err));
    *ret_m = co_steal_ptr(m);
    return 0;
}

void ctr_model_free(struct ctr_model *m) {
    if (!m) {
        return;
    }
    nn_tower_free(m->tower);
    nn_engine_free(m->engine);
    nn_distinct_free(m->distinct);
    ctr_pool_done(&m->pool);
    free(m->input);
    free(m->dinput);
    free(m->logit);
    free(m->p);
    free(m->dz);
    free(m);
}

const struct ctr_layout *ctr_model_layout(const struct ctr_model *m) {
    return &m->layout;
}

const float *ctr_model_logit(const struct ctr_model *m) {
    return m->logit;
}

const float *ctr_model_hidden(const struct ctr_model *m, size_t i) {
    return nn_tower_hidden(m->tower, i);
}

void ctr_rows_fit(struct ctr_rows *r, const struct ctr_config *c, const struct ctr_batch *b) {
    if (b->n_unique * c->embed > r->room) {
        r->room = b->n_unique * c->embed;
        r->at = co_xrealloc(r->at, r->room, sizeof(*r->at));
    }
}

/* Makes room for the ids of a batch whose slots have several values, and puts these behind the
 * others. */
static int more_add(struct ctr_model *m, struct ctr_batch *b, size_t cells, struct co_err *err) {
    size_t all = cells + b->more.n;
    struct nn_distinct *larger = NULL;

    if (all > m->distinct_max) {
        CO_TRY(nn_distinct_new(2 * all, &larger, err));
        nn_distinct_free(m->distinct);
        m->distinct = larger;
        m->distinct_max = 2 * all;
    }
    if (all > b->room) {
        b->ids = co_xrealloc(b->ids, all, sizeof(*b->ids));
        b->unique = co_xrealloc(b->unique, all, sizeof(*b->unique));
        b->index = co_xrealloc(b->index, all, sizeof(*b->index));
        b->room = all;
    }
    for (size_t i = 0; i < b->more.n; i++) {
        b->ids[cells + i] = b->more.at[i].id;
    }
    return 0;
}

int ctr_model_lookup(struct ctr_model *m, struct ctr_batch *b, struct co_err *err) {
    size_t cells = b->n * m->net->config.slots;
    if (b->more.n > 0) {
        CO_TRY(more_add(m, b, cells, err));
    }

    b->n_unique = nn_distinct_find(m->distinct, cells + b->more.n, b->ids, b->unique, b->index);
    return 0;
}

int ctr_model_forward(struct ctr_model *m, const struct ctr_batch *b, const float *params,
    const float *rows, const float **ret_p, struct co_err *err) {
    if (b->n == 0 || b->n > m->batch_max) {
        return co_err_set(
            err, CO_INVALID, "a batch of %zu samples, expected 1 to %zu", b->n, m->batch_max);
    }
    m->work = (struct ctr_work){.config = &m->net->config,
        .layout = &m->layout,
        .n = b->n,
        .index = b->index,
        .dense = b->dense,
        .n_rows = b->n_unique,
        .rows = rows,
        .params = params,
        .input = m->input,
        .logit = m->logit};
    ctr_pool_forward(&m->pool, b, rows, &m->work);
    m->net->fill(&m->work);
    CO_TRY(nn_tower_forward(m->tower, b->n, m->input, params, m->logit, err));
    if (m->net->add) {
        m->net->add(&m->work);
    }
    nn_sigmoid_forward(b->n, m->logit, m->p);
    *ret_p = m->p;
    return 0;
}

int ctr_model_backward(struct ctr_model *m, const struct ctr_batch *b, const float *params,
    float *grads, float *row_grads, struct co_err *err) {
    size_t wanted = m->net->wanted(&m->net->config);

    nn_log_loss_backward(b->n, m->p, b->label, m->dz);
    int rc =
        nn_tower_backward(m->tower, b->n, m->input, params, m->dz, grads, wanted, m->dinput, err);
    if (rc == 0) {
        m->work.dinput = m->dinput;
        m->work.dlogit = m->dz;
        m->work.grads = grads;
        m->work.row_grads = ctr_pool_grads(&m->pool, b, row_grads);
        m->net->backward(&m->work);
        ctr_pool_backward(&m->pool, b, &m->net->config, row_grads);
    }
    return rc;
}
