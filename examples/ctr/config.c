/* Lays out the dense parameters, and sets their initial values. */
#include "examples/ctr/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/ctr/net.h"
#include "examples/nn/rng.h"

enum { SIZE_MAX_EACH = 1 << 20 };

static int sizes_check(const struct ctr_config *c, struct co_err *err) {
    const struct {
        const char *name;
        size_t value, max;
    } sizes[] = {{"embed", c->embed, CTR_EMBED_MAX}, {"slots", c->slots, SIZE_MAX_EACH},
        {"dense", c->dense, SIZE_MAX_EACH}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i].value == 0 || sizes[i].value > sizes[i].max) {
            return co_err_set(err, CO_INVALID, "%s is %zu, expected 1 to %zu", sizes[i].name,
                sizes[i].value, sizes[i].max);
        }
    }
    if (c->vocabulary == 0) {
        return co_err_set(err, CO_INVALID, "vocabulary is 0");
    }
    if (c->n_hidden == 0 || c->n_hidden > CTR_HIDDEN_MAX) {
        return co_err_set(
            err, CO_INVALID, "%zu hidden layers, expected 1 to %d", c->n_hidden, CTR_HIDDEN_MAX);
    }
    for (size_t i = 0; i < c->n_hidden; i++) {
        if (c->hidden[i] == 0 || c->hidden[i] > SIZE_MAX_EACH) {
            return co_err_set(err, CO_INVALID, "hidden layer %zu has %zu units, expected 1 to %d",
                i + 1, c->hidden[i], SIZE_MAX_EACH);
        }
    }
    return 0;
}

void ctr_layout_add(struct ctr_layout *l, const char *name, size_t rows, size_t cols,
    enum ctr_first first, float deviation) {
    struct ctr_view *v = &l->views[l->n_views++];

    *v = (struct ctr_view){
        .offset = l->total, .rows = rows, .cols = cols, .first = first, .deviation = deviation};
    (void)snprintf(v->name, sizeof(v->name), "%s", name);
    l->total += rows * cols;
}

/* Adds weights (in, out) and bias (out) of one layer of the tower. */
static void layer_add(struct ctr_layout *l, const char *name, size_t in, size_t out) {
    char text[12];

    (void)snprintf(text, sizeof(text), "%.8s_w", name);
    ctr_layout_add(l, text, in, out, CTR_NORMAL, 1.0F / sqrtf((float)in));
    (void)snprintf(text, sizeof(text), "%.8s_b", name);
    ctr_layout_add(l, text, 1, out, CTR_ZERO, 0.0F);
}

struct nn_tower_shape ctr_tower_shape(const struct ctr_net *net) {
    struct nn_tower_shape s = {
        .in = net->inputs(&net->config), .n_hidden = net->config.n_hidden, .out = 1};

    memcpy(s.hidden, net->config.hidden, sizeof(s.hidden));
    return s;
}

int ctr_layout_make(const struct ctr_net *net, struct ctr_layout *ret_layout, struct co_err *err) {
    const struct ctr_config *c = &net->config;
    struct ctr_layout l = {.n_views = 0};
    CO_TRY(sizes_check(c, err));
    size_t in = net->inputs(c);
    for (size_t i = 0; i < c->n_hidden; i++) {
        char name[8] = {'f', 'c', (char)('1' + (char)i)};

        layer_add(&l, name, in, c->hidden[i]);
        in = c->hidden[i];
    }
    layer_add(&l, "out", in, 1);
    if (net->layout) {
        net->layout(c, &l);
    }
    *ret_layout = l;
    return 0;
}

const struct ctr_view *ctr_layout_find(const struct ctr_layout *l, const char *name) {
    for (size_t i = 0; i < l->n_views; i++) {
        if (strcmp(l->views[i].name, name) == 0) {
            return &l->views[i];
        }
    }
    return NULL;
}

void ctr_layout_init(const struct ctr_layout *l, uint64_t seed, float *params) {
    for (size_t i = 0; i < l->n_views; i++) {
        const struct ctr_view *v = &l->views[i];
        float *at = params + v->offset;
        size_t n = v->rows * v->cols;
        struct nn_rng r;

        /* Each view has its own stream, so that a new layer does not change the others' values. */
        nn_rng_init(&r, seed, i);
        if (v->first == CTR_TRUNCATED) {
            nn_rng_fill_truncated(&r, 0.0F, v->deviation, n, at);
        } else if (v->first == CTR_NORMAL) {
            nn_rng_fill_normal(&r, 0.0F, v->deviation, n, at);
        } else {
            memset(at, 0, n * sizeof(*at));
        }
    }
}
