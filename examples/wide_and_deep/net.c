/* The wide part, forward and backward; the deep part is the shared tower of layers. */
#include "examples/wide_and_deep/net.h"

#include <math.h>
#include <string.h>

static void layout(const struct ctr_config *c, struct ctr_layout *l) {
    ctr_layout_add(l, "wide_w", c->dense, 1, CTR_TRUNCATED, 1.0F / sqrtf((float)c->dense));
    ctr_layout_add(l, "wide_b", 1, 1, CTR_ZERO, 0.0F);
}

static size_t wide_at(const struct ctr_work *w) {
    return ctr_layout_find(w->layout, "wide_w")->offset;
}

static void wide_add(const struct ctr_work *w) {
    size_t d = w->config->dense;
    const float *weights = w->params + wide_at(w), *bias = weights + d;

    for (size_t i = 0; i < w->n; i++) {
        float sum = *bias;

        for (size_t k = 0; k < d; k++) {
            sum += weights[k] * w->dense[i * d + k];
        }
        w->logit[i] += sum;
    }
}

static void backward(const struct ctr_work *w) {
    size_t d = w->config->dense;
    float *dweights = w->grads + wide_at(w), *dbias = dweights + d;

    ctr_concat_backward(w);
    memset(dweights, 0, (d + 1) * sizeof(*dweights));
    for (size_t i = 0; i < w->n; i++) {
        for (size_t k = 0; k < d; k++) {
            dweights[k] += w->dlogit[i] * w->dense[i * d + k];
        }
        *dbias += w->dlogit[i];
    }
}

const struct ctr_net wd_net = {
    .name = "wide_and_deep",
    .config = {.vocabulary = 1000001,
        .embed = 10,
        .slots = 26,
        .dense = 13,
        .hidden = {400, 400, 400},
        .n_hidden = 3},
    .row_init = "uniform:min=-1,max=1",
    .inputs = ctr_concat_inputs,
    .wanted = ctr_concat_wanted,
    .layout = layout,
    .fill = ctr_concat_fill,
    .add = wide_add,
    .backward = backward,
};
