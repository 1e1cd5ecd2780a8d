#include "examples/wide_and_deep/model.h"

#include <string.h>

#include "examples/nn/embed.h"
#include "examples/nn/layers.h"

enum { BATCH_MAX = 1 << 20 };
#define SCRATCH_MAX ((size_t)4 << 30)

struct wd_model {
    struct wd_config config;
    struct wd_layout layout;
    size_t batch_max;
    struct nn_engine *engine;
    struct nn_distinct *distinct;
    float *input;                  /* (B, S * E + D) */
    float *hidden[WD_HIDDEN_MAX];  /* (B, hidden[i]) after relu */
    float *dhidden[WD_HIDDEN_MAX]; /* (B, hidden[i]) */
    float *dembed;                 /* (B, S * E) */
    float *logit, *wide, *p, *dz;  /* (B) */
};

static int floats_alloc(size_t rows, size_t cols, float **ret, struct co_err *err) {
    void *p = NULL;
    int rc = co_try_alloc(rows, cols * sizeof(float), SCRATCH_MAX, "batch memory", &p, err);

    if (rc < 0) {
        return rc;
    }
    *ret = p;
    return 0;
}

int wd_batch_init(
    const struct wd_config *c, size_t max, struct wd_batch *ret_b, struct co_err *err) {
    CO_CLEANUP(wd_batch_done) struct wd_batch b = {.max = max};
    void *ids = NULL, *unique = NULL, *index = NULL;

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

void wd_batch_done(struct wd_batch *b) {
    free(b->ids);
    free(b->dense);
    free(b->label);
    free(b->unique);
    free(b->index);
    memset(b, 0, sizeof(*b));
}

static int scratch_alloc(struct wd_model *m, struct co_err *err) {
    const struct wd_config *c = &m->config;
    size_t n = m->batch_max;
    const struct {
        float **at;
        size_t cols;
    } arrays[] = {{&m->input, c->slots * c->embed + c->dense}, {&m->dembed, c->slots * c->embed},
        {&m->logit, 1}, {&m->wide, 1}, {&m->p, 1}, {&m->dz, 1}};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < CO_ARRAY_LEN(arrays); i++) {
        rc = floats_alloc(n, arrays[i].cols, arrays[i].at, err);
    }
    for (size_t i = 0; rc == 0 && i < c->n_hidden; i++) {
        rc = floats_alloc(n, c->hidden[i], &m->hidden[i], err);
        if (rc == 0) {
            rc = floats_alloc(n, c->hidden[i], &m->dhidden[i], err);
        }
    }
    return rc;
}

int wd_model_new(
    const struct wd_config *c, size_t batch_max, struct wd_model **ret_m, struct co_err *err) {
    CO_CLEANUP(wd_model_freep) struct wd_model *m = co_xcalloc(1, sizeof(*m));
    int rc = wd_layout_make(c, &m->layout, err);

    if (rc < 0) {
        return rc;
    }
    if (batch_max == 0 || batch_max > BATCH_MAX) {
        return co_err_set(
            err, CO_NORESOURCE, "batches of %zu samples, expected 1 to %d", batch_max, BATCH_MAX);
    }
    m->config = *c;
    m->batch_max = batch_max;
    rc = nn_distinct_new(batch_max * c->slots, &m->distinct, err);
    if (rc == 0) {
        rc = nn_engine_new(&m->engine, err);
    }
    if (rc == 0) {
        rc = scratch_alloc(m, err);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_m = co_steal_ptr(m);
    return 0;
}

void wd_model_free(struct wd_model *m) {
    if (!m) {
        return;
    }
    nn_engine_free(m->engine);
    nn_distinct_free(m->distinct);
    free(m->input);
    free(m->dembed);
    free(m->logit);
    free(m->wide);
    free(m->p);
    free(m->dz);
    for (size_t i = 0; i < WD_HIDDEN_MAX; i++) {
        free(m->hidden[i]);
        free(m->dhidden[i]);
    }
    free(m);
}

const struct wd_layout *wd_model_layout(const struct wd_model *m) {
    return &m->layout;
}

const float *wd_model_logit(const struct wd_model *m) {
    return m->logit;
}

const float *wd_model_hidden(const struct wd_model *m, size_t i) {
    return m->hidden[i];
}

void wd_model_lookup(struct wd_model *m, struct wd_batch *b) {
    b->n_unique =
        nn_distinct_find(m->distinct, b->n * m->config.slots, b->ids, b->unique, b->index);
}

/* Layer i of the layout: fc1 is 0, the output n_hidden, the wide part n_hidden + 1. */
static struct nn_linear layer_sizes(const struct wd_model *m, size_t i, size_t batch) {
    const struct wd_view *w = &m->layout.views[2 * i];

    return (struct nn_linear){
        .batch = batch, .in = w->rows, .out = w->cols, .relu = i < m->config.n_hidden};
}

static size_t weights_at(const struct wd_model *m, size_t i) {
    return m->layout.views[2 * i].offset;
}

static size_t bias_at(const struct wd_model *m, size_t i) {
    return m->layout.views[2 * i + 1].offset;
}

static int layer_forward(struct wd_model *m, size_t i, size_t batch, const float *params,
    const float *x, float *y, struct co_err *err) {
    struct nn_linear l = layer_sizes(m, i, batch);

    return nn_linear_forward(
        m->engine, &l, x, params + weights_at(m, i), params + bias_at(m, i), y, err);
}

static void input_fill(struct wd_model *m, const struct wd_batch *b, const float *rows) {
    const struct wd_config *c = &m->config;
    size_t width = c->slots * c->embed, stride = width + c->dense;
    const struct nn_embed e = {
        .batch = b->n, .slots = c->slots, .width = c->embed, .stride = stride};

    nn_embed_gather(&e, b->index, rows, m->input);
    for (size_t i = 0; i < b->n; i++) {
        memcpy(
            m->input + i * stride + width, b->dense + i * c->dense, c->dense * sizeof(*m->input));
    }
}

int wd_model_forward(struct wd_model *m, const struct wd_batch *b, const float *params,
    const float *rows, const float **ret_p, struct co_err *err) {
    size_t n_hidden = m->config.n_hidden;
    const float *x = m->input;

    if (b->n == 0 || b->n > m->batch_max) {
        return co_err_set(
            err, CO_INVALID, "a batch of %zu samples, expected 1 to %zu", b->n, m->batch_max);
    }
    input_fill(m, b, rows);
    for (size_t i = 0; i < n_hidden; i++) {
        int rc = layer_forward(m, i, b->n, params, x, m->hidden[i], err);
        if (rc < 0) {
            return rc;
        }
        x = m->hidden[i];
    }
    int rc = layer_forward(m, n_hidden, b->n, params, x, m->logit, err);
    if (rc == 0) {
        rc = layer_forward(m, n_hidden + 1, b->n, params, b->dense, m->wide, err);
    }
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < b->n; i++) {
        m->logit[i] += m->wide[i];
    }
    nn_sigmoid_forward(b->n, m->logit, m->p);
    *ret_p = m->p;
    return 0;
}

static int weights_backward(struct wd_model *m, size_t i, size_t batch, const float *x,
    const float *dy, float *grads, struct co_err *err) {
    struct nn_linear l = layer_sizes(m, i, batch);

    return nn_linear_backward_weights(
        m->engine, &l, x, dy, grads + weights_at(m, i), grads + bias_at(m, i), err);
}

/* From the gradient of layer i + 1's output to the one of layer i's, before its relu. */
static int hidden_backward(struct wd_model *m, size_t i, size_t batch, const float *params,
    const float *dy, struct co_err *err) {
    struct nn_linear above = layer_sizes(m, i + 1, batch);
    int rc = nn_linear_backward_input(
        m->engine, &above, params + weights_at(m, i + 1), dy, m->dhidden[i], err);

    if (rc == 0) {
        nn_relu_backward(batch * m->config.hidden[i], m->hidden[i], m->dhidden[i]);
    }
    return rc;
}

static int embed_backward(struct wd_model *m, const struct wd_batch *b, const float *params,
    float *row_grads, struct co_err *err) {
    const struct wd_config *c = &m->config;
    const struct nn_embed e = {
        .batch = b->n, .slots = c->slots, .width = c->embed, .stride = c->slots * c->embed};
    struct nn_linear l = layer_sizes(m, 0, b->n);

    /* The embeddings are the first inputs, so that their weights are the first rows; nobody wants
     * the gradient of the numbers. */
    l.in = c->slots * c->embed;
    int rc = nn_linear_backward_input(
        m->engine, &l, params + weights_at(m, 0), m->dhidden[0], m->dembed, err);
    if (rc == 0) {
        nn_embed_scatter(&e, b->index, m->dembed, b->n_unique, row_grads);
    }
    return rc;
}

int wd_model_backward(struct wd_model *m, const struct wd_batch *b, const float *params,
    float *grads, float *row_grads, struct co_err *err) {
    size_t n_hidden = m->config.n_hidden;
    const float *dy = m->dz;

    nn_log_loss_backward(b->n, m->p, b->label, m->dz);
    int rc = weights_backward(m, n_hidden + 1, b->n, b->dense, m->dz, grads, err);
    if (rc == 0) {
        rc = weights_backward(m, n_hidden, b->n, m->hidden[n_hidden - 1], m->dz, grads, err);
    }
    for (size_t i = n_hidden; rc == 0 && i-- > 0;) {
        rc = hidden_backward(m, i, b->n, params, dy, err);
        if (rc == 0) {
            dy = m->dhidden[i];
            rc = weights_backward(m, i, b->n, i ? m->hidden[i - 1] : m->input, dy, grads, err);
        }
    }
    return rc == 0 ? embed_backward(m, b, params, row_grads, err) : rc;
}
