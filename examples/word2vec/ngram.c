/* Computes the N-gram network forward and backward, with oneDNN's matrix products. */
#include "examples/word2vec/ngram.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/nn/embed.h"
#include "examples/nn/layers.h"
#include "examples/nn/rng.h"

#define SCRATCH_MAX ((size_t)4 << 30)
enum { FC1_W, FC1_B, FC2_W, FC2_B, PARAMS };

struct wv_ngram {
    struct wv_ngram_shape shape;
    size_t batch_max;
    struct nn_engine *engine;
    struct nn_rng rng;
    float *input, *dinput;   /* (B, (N - 1) E) */
    float *hidden, *dhidden; /* (B, H) */
    float *kept;             /* (B, H): dropout's factors */
    float *softmax, *dlogit; /* (B, words) */
};

static size_t inputs(const struct wv_ngram_shape *s) {
    return (s->n - 1) * s->embed;
}

int wv_ngram_new(const struct wv_ngram_shape *s, size_t batch_max, uint64_t seed,
    struct wv_ngram **ret_m, struct co_err *err) {
    CO_CLEANUP(wv_ngram_freep) struct wv_ngram *m = co_xcalloc(1, sizeof(*m));
    const struct {
        float **at;
        size_t cols;
    } arrays[] = {{&m->input, inputs(s)}, {&m->dinput, inputs(s)}, {&m->hidden, s->hidden},
        {&m->dhidden, s->hidden}, {&m->kept, s->hidden}, {&m->softmax, s->words},
        {&m->dlogit, s->words}};
    int rc = nn_engine_new(&m->engine, err);

    m->shape = *s;
    m->batch_max = batch_max;
    nn_rng_init(&m->rng, seed, 0);
    for (size_t i = 0; rc == 0 && i < CO_ARRAY_LEN(arrays); i++) {
        void *memory = NULL;

        rc = co_try_alloc(
            batch_max, arrays[i].cols * sizeof(float), SCRATCH_MAX, "batch memory", &memory, err);
        *arrays[i].at = memory;
    }
    if (rc < 0) {
        return rc;
    }
    *ret_m = co_steal_ptr(m);
    return 0;
}

void wv_ngram_free(struct wv_ngram *m) {
    if (!m) {
        return;
    }
    nn_engine_free(m->engine);
    free(m->input);
    free(m->dinput);
    free(m->hidden);
    free(m->dhidden);
    free(m->kept);
    free(m->softmax);
    free(m->dlogit);
    free(m);
}

int wv_ngram_params(const struct wv_ngram_shape *s, uint64_t seed, struct rt_params **ret_params,
    struct co_err *err) {
    char first[2][32];

    (void)snprintf(first[0], sizeof(first[0]), "normal:std=%.6f", 1.0 / sqrt((double)inputs(s)));
    (void)snprintf(first[1], sizeof(first[1]), "normal:std=%.6f", 1.0 / sqrt((double)s->hidden));
    const struct rt_param list[PARAMS] = {[FC1_W] = {"fc1_w", inputs(s) * s->hidden, first[0]},
        [FC1_B] = {"fc1_b", s->hidden, NULL},
        [FC2_W] = {"fc2_w", s->hidden * s->words, first[1]},
        [FC2_B] = {"fc2_b", s->words, NULL}};
    return rt_params_new(list, PARAMS, seed, ret_params, err);
}

const float *wv_ngram_hidden(const struct wv_ngram *m) {
    return m->hidden;
}

const float *wv_ngram_softmax(const struct wv_ngram *m) {
    return m->softmax;
}

static struct nn_embed embed_of(const struct wv_ngram *m, size_t batch) {
    return (struct nn_embed){.batch = batch,
        .slots = m->shape.n - 1,
        .width = m->shape.embed,
        .stride = inputs(&m->shape)};
}

static void dropout(struct wv_ngram *m, size_t n, bool training) {
    float rest = (float)(1.0 - m->shape.dropout);

    for (size_t i = 0; i < n; i++) {
        m->kept[i] = !training ? rest : nn_rng_double(&m->rng) < m->shape.dropout ? 0.0F : 1.0F;
        m->hidden[i] *= m->kept[i];
    }
}

/* Computes the softmax in place; returns the most probable word. */
static size_t softmax(float *x, size_t n) {
    size_t best = 0;
    float sum = 0.0F;

    for (size_t i = 1; i < n; i++) {
        best = x[i] > x[best] ? i : best;
    }
    float top = x[best];
    for (size_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - top);
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++) {
        x[i] /= sum;
    }
    return best;
}

/* The word that sample i should predict. */
static size_t label(const struct wv_ngram *m, const struct wv_batch *b, size_t i) {
    return (size_t)b->ids[(i + 1) * m->shape.n - 1];
}

int wv_ngram_forward(struct wv_ngram *m, const struct wv_batch *b, struct rt_params *p,
    bool training, double *ret_loss, size_t *ret_wrong, struct co_err *err) {
    const struct wv_ngram_shape *s = &m->shape;
    const struct nn_embed e = embed_of(m, b->n);
    const struct nn_linear fc1 = {.batch = b->n, .in = inputs(s), .out = s->hidden};
    const struct nn_linear fc2 = {.batch = b->n, .in = s->hidden, .out = s->words};
    double loss = 0.0;
    size_t wrong = 0;

    nn_embed_gather(&e, b->index, b->rows, m->input);
    int rc = nn_linear_forward(m->engine, &fc1, m->input, rt_params_value(p, FC1_W),
        rt_params_value(p, FC1_B), m->hidden, err);
    if (rc < 0) {
        return rc;
    }
    nn_sigmoid_forward(b->n * s->hidden, m->hidden, m->hidden);
    dropout(m, b->n * s->hidden, training);
    rc = nn_linear_forward(m->engine, &fc2, m->hidden, rt_params_value(p, FC2_W),
        rt_params_value(p, FC2_B), m->softmax, err);
    for (size_t i = 0; rc == 0 && i < b->n; i++) {
        float *row = m->softmax + i * s->words;

        wrong += softmax(row, s->words) != label(m, b, i);
        loss -= log(fmax((double)row[label(m, b, i)], 1e-30));
    }
    *ret_loss = loss / (double)b->n;
    *ret_wrong = wrong;
    return rc;
}

/* The gradient of the mean cross entropy: (softmax - 1 at the label) / B. */
static void logit_backward(struct wv_ngram *m, const struct wv_batch *b) {
    size_t words = m->shape.words;
    float scale = 1.0F / (float)b->n;

    for (size_t i = 0; i < b->n * words; i++) {
        m->dlogit[i] = m->softmax[i] * scale;
    }
    for (size_t i = 0; i < b->n; i++) {
        m->dlogit[i * words + label(m, b, i)] -= scale;
    }
}

/* The gradient through dropout and sigmoid; hidden is the result of the dropout. */
static void hidden_backward(struct wv_ngram *m, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float y = m->kept[i] > 0.0F ? m->hidden[i] / m->kept[i] : 0.0F;

        m->dhidden[i] *= m->kept[i] * y * (1.0F - y);
    }
}

int wv_ngram_backward(struct wv_ngram *m, const struct wv_batch *b, struct rt_params *p,
    float *row_grads, struct co_err *err) {
    const struct wv_ngram_shape *s = &m->shape;
    const struct nn_embed e = embed_of(m, b->n);
    const struct nn_linear fc1 = {.batch = b->n, .in = inputs(s), .out = s->hidden};
    const struct nn_linear fc2 = {.batch = b->n, .in = s->hidden, .out = s->words};

    logit_backward(m, b);
    CO_TRY(nn_linear_backward_weights(m->engine, &fc2, m->hidden, m->dlogit,
        rt_params_gradient(p, FC2_W), rt_params_gradient(p, FC2_B), err));
    CO_TRY(nn_linear_backward_input(
        m->engine, &fc2, rt_params_value(p, FC2_W), m->dlogit, m->dhidden, err));
    hidden_backward(m, b->n * s->hidden);
    CO_TRY(nn_linear_backward_weights(m->engine, &fc1, m->input, m->dhidden,
        rt_params_gradient(p, FC1_W), rt_params_gradient(p, FC1_B), err));
    CO_TRY(nn_linear_backward_input(
        m->engine, &fc1, rt_params_value(p, FC1_W), m->dhidden, m->dinput, err));
    nn_embed_scatter(&e, b->index, m->dinput, b->n_rows, row_grads);
    return 0;
}
