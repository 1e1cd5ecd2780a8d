/* Sums rows of slots with several values, and distributes the gradients of the sums. */
#include "examples/ctr/pool.h"

#include <string.h>

void ctr_pool_done(struct ctr_pool *p) {
    free(p->index);
    free(p->count);
    free(p->cell);
    free(p->rows);
    free(p->grads);
    memset(p, 0, sizeof(*p));
}

static void cells_fit(struct ctr_pool *p, size_t cells) {
    if (cells > p->cells_room) {
        p->index = co_xrealloc(p->index, cells, sizeof(*p->index));
        p->count = co_xrealloc(p->count, cells, sizeof(*p->count));
        p->cell = co_xrealloc(p->cell, cells, sizeof(*p->cell));
        p->cells_room = cells;
    }
}

static void rows_fit(struct ctr_pool *p, size_t floats) {
    if (floats > p->rows_room) {
        p->rows = co_xrealloc(p->rows, floats, sizeof(*p->rows));
        p->grads = co_xrealloc(p->grads, floats, sizeof(*p->grads));
        p->rows_room = floats;
    }
}

/* Finds the slots with several values and counts these. */
static void cells_find(struct ctr_pool *p, const struct ctr_batch *b, size_t cells) {
    memcpy(p->index, b->index, cells * sizeof(*p->index));
    p->n = 0;
    for (size_t i = 0; i < b->more.n; i++) {
        uint32_t cell = b->more.at[i].cell;

        if (p->index[cell] < b->n_unique) {
            p->index[cell] = (uint32_t)(b->n_unique + p->n);
            p->cell[p->n] = cell;
            p->count[p->n++] = 1;
        }
        p->count[p->index[cell] - b->n_unique]++;
    }
}

static void add(float *to, const float *from, size_t width, float factor) {
    for (size_t k = 0; k < width; k++) {
        to[k] += from[k] * factor;
    }
}

static float factor_of(const struct ctr_pool *p, const struct ctr_batch *b, size_t i) {
    return b->mean ? 1.0F / (float)p->count[i] : 1.0F;
}

void ctr_pool_forward(
    struct ctr_pool *p, const struct ctr_batch *b, const float *rows, struct ctr_work *w) {
    size_t width = w->config->embed, cells = b->n * w->config->slots;

    if (b->more.n == 0) {
        return;
    }
    cells_fit(p, cells);
    cells_find(p, b, cells);
    rows_fit(p, (b->n_unique + p->n) * width);
    memcpy(p->rows, rows, b->n_unique * width * sizeof(*rows));
    memset(p->rows + b->n_unique * width, 0, p->n * width * sizeof(*rows));
    for (size_t i = 0; i < p->n; i++) {
        add(p->rows + (b->n_unique + i) * width, rows + b->index[p->cell[i]] * width, width,
            factor_of(p, b, i));
    }
    for (size_t i = 0; i < b->more.n; i++) {
        size_t at = p->index[b->more.at[i].cell];

        add(p->rows + at * width, rows + b->index[cells + i] * width, width,
            factor_of(p, b, at - b->n_unique));
    }
    w->index = p->index;
    w->rows = p->rows;
    w->n_rows = b->n_unique + p->n;
}

float *ctr_pool_grads(struct ctr_pool *p, const struct ctr_batch *b, float *row_grads) {
    return b->more.n == 0 ? row_grads : p->grads;
}

void ctr_pool_backward(
    struct ctr_pool *p, const struct ctr_batch *b, const struct ctr_config *c, float *row_grads) {
    size_t width = c->embed, cells = b->n * c->slots;

    if (b->more.n == 0) {
        return;
    }
    memcpy(row_grads, p->grads, b->n_unique * width * sizeof(*row_grads));
    for (size_t i = 0; i < p->n; i++) {
        add(row_grads + b->index[p->cell[i]] * width, p->grads + (b->n_unique + i) * width, width,
            factor_of(p, b, i));
    }
    for (size_t i = 0; i < b->more.n; i++) {
        size_t at = p->index[b->more.at[i].cell];

        add(row_grads + b->index[cells + i] * width, p->grads + at * width, width,
            factor_of(p, b, at - b->n_unique));
    }
}
