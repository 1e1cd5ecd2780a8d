#include "examples/wide_and_deep/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/nn/rng.h"

enum { SIZE_MAX_EACH = 1 << 20 };

const struct wd_config wd_config_criteo = {
    .vocabulary = 1000001,
    .embed = 10,
    .slots = 26,
    .dense = 13,
    .hidden = {400, 400, 400},
    .n_hidden = 3,
};

static int sizes_check(const struct wd_config *c, struct co_err *err) {
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {{"embed", c->embed}, {"slots", c->slots}, {"dense", c->dense}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i].value == 0 || sizes[i].value > SIZE_MAX_EACH) {
            return co_err_set(err, CO_INVALID, "%s is %zu, expected 1 to %d", sizes[i].name,
                sizes[i].value, SIZE_MAX_EACH);
        }
    }
    if (c->vocabulary == 0) {
        return co_err_set(err, CO_INVALID, "vocabulary is 0");
    }
    if (c->n_hidden == 0 || c->n_hidden > WD_HIDDEN_MAX) {
        return co_err_set(
            err, CO_INVALID, "%zu hidden layers, expected 1 to %d", c->n_hidden, WD_HIDDEN_MAX);
    }
    for (size_t i = 0; i < c->n_hidden; i++) {
        if (c->hidden[i] == 0 || c->hidden[i] > SIZE_MAX_EACH) {
            return co_err_set(err, CO_INVALID, "hidden layer %zu has %zu units, expected 1 to %d",
                i + 1, c->hidden[i], SIZE_MAX_EACH);
        }
    }
    return 0;
}

/* Weights (in, out) and bias (out) of one layer. */
static void layer_add(struct wd_layout *l, const char *name, size_t in, size_t out) {
    struct wd_view *w = &l->views[l->n_views++], *b = &l->views[l->n_views++];

    *w = (struct wd_view){.offset = l->total, .rows = in, .cols = out};
    *b = (struct wd_view){.offset = l->total + in * out, .rows = 1, .cols = out};
    (void)snprintf(w->name, sizeof(w->name), "%.8s_w", name);
    (void)snprintf(b->name, sizeof(b->name), "%.8s_b", name);
    l->total += in * out + out;
}

int wd_layout_make(const struct wd_config *c, struct wd_layout *ret_layout, struct co_err *err) {
    struct wd_layout l = {.n_views = 0};
    int rc = sizes_check(c, err);

    if (rc < 0) {
        return rc;
    }
    size_t in = c->slots * c->embed + c->dense;
    for (size_t i = 0; i < c->n_hidden; i++) {
        char name[8] = {'f', 'c', (char)('1' + (char)i)};

        layer_add(&l, name, in, c->hidden[i]);
        in = c->hidden[i];
    }
    layer_add(&l, "out", in, 1);
    layer_add(&l, "wide", c->dense, 1);
    *ret_layout = l;
    return 0;
}

const struct wd_view *wd_layout_find(const struct wd_layout *l, const char *name) {
    for (size_t i = 0; i < l->n_views; i++) {
        if (strcmp(l->views[i].name, name) == 0) {
            return &l->views[i];
        }
    }
    return NULL;
}

void wd_layout_init(const struct wd_layout *l, uint64_t seed, float *params) {
    for (size_t i = 0; i < l->n_views; i++) {
        const struct wd_view *v = &l->views[i];
        float *at = params + v->offset, deviation = 1.0F / sqrtf((float)v->rows);
        size_t n = v->rows * v->cols;
        struct nn_rng r;

        /* A stream for each view: adding a layer does not change the others. */
        nn_rng_init(&r, seed, i);
        if (strcmp(v->name, "wide_w") == 0) {
            nn_rng_fill_truncated(&r, 0.0F, deviation, n, at);
        } else if (v->name[strlen(v->name) - 1] == 'w') {
            nn_rng_fill_normal(&r, 0.0F, deviation, n, at);
        } else {
            memset(at, 0, n * sizeof(*at));
        }
    }
}
