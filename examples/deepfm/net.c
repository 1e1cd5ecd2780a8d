/* The sums of the factorisation machine, forward and backward; the tower of layers is shared. */
#include "examples/deepfm/net.h"

#include <math.h>
#include <string.h>

/* E, the floats of a vector.  A row is a weight and then a vector. */
static size_t width(const struct ctr_config *c) {
    return c->embed - 1;
}

static size_t inputs(const struct ctr_config *c) {
    return (c->slots + c->dense) * width(c);
}

static void layout(const struct ctr_config *c, struct ctr_layout *l) {
    float deviation = 0.1F / sqrtf((float)width(c));

    ctr_layout_add(l, "dense_w", c->dense, 1, CTR_TRUNCATED, deviation);
    ctr_layout_add(l, "dense_v", c->dense, width(c), CTR_TRUNCATED, deviation);
}

static size_t weights_at(const struct ctr_work *w) {
    return ctr_layout_find(w->layout, "dense_w")->offset;
}

static size_t vectors_at(const struct ctr_work *w) {
    return ctr_layout_find(w->layout, "dense_v")->offset;
}

/* The row of slot s in sample i. */
static size_t row_at(const struct ctr_work *w, size_t i, size_t s) {
    return w->index[i * w->config->slots + s] * w->config->embed;
}

/* Fills the input with v_f x_f of all fields f, sample by sample. */
static void fill(const struct ctr_work *w) {
    const struct ctr_config *c = w->config;
    const float *vectors = w->params + vectors_at(w);
    size_t e = width(c);
    float *at = w->input;

    for (size_t i = 0; i < w->n; i++) {
        for (size_t s = 0; s < c->slots; s++, at += e) {
            memcpy(at, w->rows + row_at(w, i, s) + 1, e * sizeof(*at));
        }
        for (size_t d = 0; d < c->dense; d++, at += e) {
            for (size_t k = 0; k < e; k++) {
                at[k] = vectors[d * e + k] * w->dense[i * c->dense + d];
            }
        }
    }
}

/* Sums the vectors of all fields of sample i into sum (E). */
static void vectors_sum(const struct ctr_work *w, size_t i, float *sum) {
    size_t e = width(w->config), fields = w->config->slots + w->config->dense;
    const float *at = w->input + i * fields * e;

    memset(sum, 0, e * sizeof(*sum));
    for (size_t f = 0; f < fields; f++, at += e) {
        for (size_t k = 0; k < e; k++) {
            sum[k] += at[k];
        }
    }
}

static float first_order(const struct ctr_work *w, size_t i) {
    const struct ctr_config *c = w->config;
    const float *weights = w->params + weights_at(w);
    float sum = 0.0F;

    for (size_t s = 0; s < c->slots; s++) {
        sum += w->rows[row_at(w, i, s)];
    }
    for (size_t d = 0; d < c->dense; d++) {
        sum += weights[d] * w->dense[i * c->dense + d];
    }
    return sum;
}

/* The sum over all pairs of fields: half of (square of the sum - sum of the squares). */
static float second_order(const struct ctr_work *w, size_t i) {
    size_t e = width(w->config), n = inputs(w->config);
    const float *at = w->input + i * n;
    float sum[CTR_EMBED_MAX], twice = 0.0F;

    vectors_sum(w, i, sum);
    for (size_t k = 0; k < e; k++) {
        twice += sum[k] * sum[k];
    }
    for (size_t k = 0; k < n; k++) {
        twice -= at[k] * at[k];
    }
    return 0.5F * twice;
}

static void add(const struct ctr_work *w) {
    for (size_t i = 0; i < w->n; i++) {
        w->logit[i] += first_order(w, i) + second_order(w, i);
    }
}

/* The gradient of v_f x_f is the tower's plus that of its pairs, dlogit (sum of all - v_f x_f). */
static void sample_backward(const struct ctr_work *w, size_t i) {
    const struct ctr_config *c = w->config;
    size_t e = width(c), at = i * inputs(c);
    float *dweights = w->grads + weights_at(w), *dvectors = w->grads + vectors_at(w);
    float sum[CTR_EMBED_MAX], dz = w->dlogit[i];

    vectors_sum(w, i, sum);
    for (size_t s = 0; s < c->slots; s++, at += e) {
        float *drow = w->row_grads + row_at(w, i, s);

        drow[0] += dz;
        for (size_t k = 0; k < e; k++) {
            drow[1 + k] += w->dinput[at + k] + dz * (sum[k] - w->input[at + k]);
        }
    }
    for (size_t d = 0; d < c->dense; d++, at += e) {
        float x = w->dense[i * c->dense + d];

        dweights[d] += dz * x;
        for (size_t k = 0; k < e; k++) {
            dvectors[d * e + k] += x * (w->dinput[at + k] + dz * (sum[k] - w->input[at + k]));
        }
    }
}

static void backward(const struct ctr_work *w) {
    const struct ctr_config *c = w->config;

    memset(w->row_grads, 0, w->n_rows * c->embed * sizeof(*w->row_grads));
    memset(w->grads + weights_at(w), 0, c->dense * sizeof(*w->grads));
    memset(w->grads + vectors_at(w), 0, c->dense * width(c) * sizeof(*w->grads));
    for (size_t i = 0; i < w->n; i++) {
        sample_backward(w, i);
    }
}

const struct ctr_net fm_net = {
    .name = "deepfm",
    .config = {.vocabulary = 1000001,
        .embed = 10,
        .slots = 26,
        .dense = 13,
        .hidden = {512, 256, 128, 32},
        .n_hidden = 4},
    .row_init = "truncated_normal:std=0.0333",
    .inputs = inputs,
    .wanted = inputs,
    .layout = layout,
    .fill = fill,
    .add = add,
    .backward = backward,
};
