/* Linear layers, relu, sigmoid and log loss. */
#include "examples/nn/layers.h"

#include <math.h>
#include <string.h>

int nn_linear_forward(struct nn_engine *e, const struct nn_linear *l, const float *x,
    const float *w, const float *b, float *y, struct co_err *err) {
    const struct nn_product p = {
        .m = l->batch, .n = l->out, .k = l->in, .bias = true, .relu = l->relu};

    return nn_engine_multiply(e, &p, x, w, b, y, err);
}

/* With one output dw (I, 1) is as well (1, I) = dy^T x, which oneDNN computes several times faster
 * than a product with one column. */
static int weights_multiply(struct nn_engine *e, const struct nn_linear *l, const float *x,
    const float *dy, float *dw, struct co_err *err) {
    const struct nn_product p = {.m = l->in, .n = l->out, .k = l->batch, .a_transposed = true};
    const struct nn_product row = {.m = 1, .n = l->in, .k = l->batch};

    return l->out == 1 ? nn_engine_multiply(e, &row, dy, x, NULL, dw, err)
                       : nn_engine_multiply(e, &p, x, dy, NULL, dw, err);
}

int nn_linear_backward_weights(struct nn_engine *e, const struct nn_linear *l, const float *x,
    const float *dy, float *dw, float *db, struct co_err *err) {
    memset(db, 0, l->out * sizeof(*db));
    for (size_t i = 0; i < l->batch; i++) {
        const float *restrict row = dy + i * l->out; /* (O) */
        float *restrict sum = db;

        for (size_t j = 0; j < l->out; j++) {
            sum[j] += row[j];
        }
    }
    return weights_multiply(e, l, x, dy, dw, err);
}

int nn_linear_backward_relu(struct nn_engine *e, const struct nn_linear *l, const float *x,
    const float *y, float *dy, float *dw, float *db, struct co_err *err) {
    memset(db, 0, l->out * sizeof(*db));
    for (size_t i = 0; i < l->batch; i++) {
        const float *restrict out = y + i * l->out; /* (O) */
        float *restrict grad = dy + i * l->out;     /* (O) */
        float *restrict sum = db;

        for (size_t j = 0; j < l->out; j++) {
            float open = out[j] > 0.0F ? grad[j] : 0.0F;

            grad[j] = open;
            sum[j] += open;
        }
    }
    return weights_multiply(e, l, x, dy, dw, err);
}

int nn_linear_backward_input(struct nn_engine *e, const struct nn_linear *l, const float *w,
    const float *dy, float *dx, struct co_err *err) {
    const struct nn_product p = {.m = l->batch, .n = l->in, .k = l->out, .b_transposed = true};

    return nn_engine_multiply(e, &p, dy, w, NULL, dx, err);
}

void nn_sigmoid_forward(size_t n, const float *z, float *p) {
    for (size_t i = 0; i < n; i++) {
        p[i] = 1.0F / (1.0F + expf(-z[i]));
    }
}

double nn_log_loss(size_t n, const float *p, const float *y) {
    double sum = 0.0;

    for (size_t i = 0; i < n; i++) {
        sum -= (double)(y[i] * logf(p[i] + NN_LOG_LOSS_EPSILON) +
                        (1.0F - y[i]) * logf(1.0F - p[i] + NN_LOG_LOSS_EPSILON));
    }
    return n ? sum / (double)n : 0.0;
}

void nn_log_loss_backward(size_t n, const float *p, const float *y, float *dz) {
    float scale = n ? 1.0F / (float)n : 0.0F;

    for (size_t i = 0; i < n; i++) {
        float dp = (1.0F - y[i]) / (1.0F - p[i] + NN_LOG_LOSS_EPSILON) -
                   y[i] / (p[i] + NN_LOG_LOSS_EPSILON);

        dz[i] = scale * dp * p[i] * (1.0F - p[i]);
    }
}
