/* Runs the layers of a tower, forward and backward. */
#include "examples/nn/tower.h"

#include "examples/nn/layers.h"

#define SCRATCH_MAX ((size_t)4 << 30)

struct nn_tower {
    struct nn_engine *engine;
    struct nn_tower_shape shape;
    float *hidden[NN_TOWER_HIDDEN_MAX];  /* (B, hidden[i]) after relu */
    float *dhidden[NN_TOWER_HIDDEN_MAX]; /* (B, hidden[i]) */
};

/* The inputs of layer i; layer n_hidden is the output layer. */
static size_t layer_in(const struct nn_tower_shape *s, size_t i) {
    return i == 0 ? s->in : s->hidden[i - 1];
}

static size_t layer_out(const struct nn_tower_shape *s, size_t i) {
    return i == s->n_hidden ? s->out : s->hidden[i];
}

/* The offset of layer i's weights in the parameters. */
static size_t weights_at(const struct nn_tower_shape *s, size_t i) {
    size_t at = 0;

    for (size_t k = 0; k < i; k++) {
        at += (layer_in(s, k) + 1) * layer_out(s, k);
    }
    return at;
}

static size_t bias_at(const struct nn_tower_shape *s, size_t i) {
    return weights_at(s, i) + layer_in(s, i) * layer_out(s, i);
}

int nn_tower_new(struct nn_engine *e, const struct nn_tower_shape *s, size_t batch_max,
    struct nn_tower **ret_t, struct co_err *err) {
    CO_CLEANUP(nn_tower_freep) struct nn_tower *t = co_xcalloc(1, sizeof(*t));
    int rc = 0;

    t->engine = e;
    t->shape = *s;
    for (size_t i = 0; rc == 0 && i < 2 * s->n_hidden; i++) {
        void *memory = NULL;

        rc = co_try_alloc(
            batch_max, s->hidden[i / 2] * sizeof(float), SCRATCH_MAX, "batch memory", &memory, err);
        *(i % 2 == 0 ? &t->hidden[i / 2] : &t->dhidden[i / 2]) = memory;
    }
    if (rc < 0) {
        return rc;
    }
    *ret_t = co_steal_ptr(t);
    return 0;
}

void nn_tower_free(struct nn_tower *t) {
    if (!t) {
        return;
    }
    for (size_t i = 0; i < NN_TOWER_HIDDEN_MAX; i++) {
        free(t->hidden[i]);
        free(t->dhidden[i]);
    }
    free(t);
}

const float *nn_tower_hidden(const struct nn_tower *t, size_t i) {
    return t->hidden[i];
}

static struct nn_linear layer(const struct nn_tower *t, size_t i, size_t batch) {
    return (struct nn_linear){.batch = batch,
        .in = layer_in(&t->shape, i),
        .out = layer_out(&t->shape, i),
        .relu = i < t->shape.n_hidden};
}

int nn_tower_forward(struct nn_tower *t, size_t batch, const float *x, const float *params,
    float *y, struct co_err *err) {
    size_t n_hidden = t->shape.n_hidden;

    for (size_t i = 0; i <= n_hidden; i++) {
        struct nn_linear l = layer(t, i, batch);

        CO_TRY(nn_linear_forward(t->engine, &l, i == 0 ? x : t->hidden[i - 1],
            params + weights_at(&t->shape, i), params + bias_at(&t->shape, i),
            i == n_hidden ? y : t->hidden[i], err));
    }
    return 0;
}

/* Computes the gradients of layer i's parameters and input from that of its output, the last one's
 * dy or a hidden layer's dhidden. */
static int layer_backward(struct nn_tower *t, size_t i, size_t batch, const float *x,
    const float *params, const float *dy, float *grads, size_t wanted, float *dx,
    struct co_err *err) {
    struct nn_linear l = layer(t, i, batch);
    float *dw = grads + weights_at(&t->shape, i), *db = grads + bias_at(&t->shape, i);

    CO_TRY(l.relu
               ? nn_linear_backward_relu(t->engine, &l, x, t->hidden[i], t->dhidden[i], dw, db, err)
               : nn_linear_backward_weights(t->engine, &l, x, dy, dw, db, err));
    if (wanted == 0) {
        return 0;
    }
    l.in = wanted; /* the weights of the first inputs are the first rows */
    return nn_linear_backward_input(
        t->engine, &l, params + weights_at(&t->shape, i), l.relu ? t->dhidden[i] : dy, dx, err);
}

int nn_tower_backward(struct nn_tower *t, size_t batch, const float *x, const float *params,
    const float *dy, float *grads, size_t wanted, float *dx, struct co_err *err) {
    for (size_t i = t->shape.n_hidden; i > 0; i--) {
        CO_TRY(layer_backward(t, i, batch, t->hidden[i - 1], params, dy, grads,
            t->shape.hidden[i - 1], t->dhidden[i - 1], err));
    }
    return layer_backward(t, 0, batch, x, params, dy, grads, wanted, dx, err);
}
