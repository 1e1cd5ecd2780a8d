/* The input of networks that concatenate rows and numbers (net.h). */
#include <string.h>

#include "examples/ctr/net.h"
#include "examples/nn/embed.h"

size_t ctr_concat_inputs(const struct ctr_config *c) {
    return c->slots * c->embed + c->dense;
}

size_t ctr_concat_wanted(const struct ctr_config *c) {
    return c->slots * c->embed;
}

void ctr_concat_fill(const struct ctr_work *w) {
    const struct ctr_config *c = w->config;
    size_t width = ctr_concat_wanted(c), stride = ctr_concat_inputs(c);
    const struct nn_embed e = {
        .batch = w->n, .slots = c->slots, .width = c->embed, .stride = stride};

    nn_embed_gather(&e, w->index, w->rows, w->input);
    for (size_t i = 0; i < w->n; i++) {
        memcpy(
            w->input + i * stride + width, w->dense + i * c->dense, c->dense * sizeof(*w->input));
    }
}

void ctr_concat_backward(const struct ctr_work *w) {
    const struct ctr_config *c = w->config;
    const struct nn_embed e = {
        .batch = w->n, .slots = c->slots, .width = c->embed, .stride = ctr_concat_wanted(c)};

    nn_embed_scatter(&e, w->index, w->dinput, w->n_rows, w->row_grads);
}
