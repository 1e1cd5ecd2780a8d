/* The sizes of a network for click data, and the layout of its dense parameters: one flat vector
 * with named views, so that a parameter server needs to know only its length.  The embedding table
 * is not part of it: its rows are looked up by id.  No I/O, threads or globals. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "examples/nn/tower.h"

enum {
    CTR_HIDDEN_MAX = NN_TOWER_HIDDEN_MAX,
    CTR_VIEWS_MAX = 2 * CTR_HIDDEN_MAX + 6,
    CTR_EMBED_MAX = 1024,
};

struct ctr_config {
    size_t vocabulary; /* V: ids are below this */
    size_t embed;      /* R: floats of a sparse row; all slots share the table */
    size_t slots;      /* S: categorical features a sample */
    size_t dense;      /* D: numeric features a sample */
    size_t hidden[CTR_HIDDEN_MAX];
    size_t n_hidden;
};

enum ctr_first {
    CTR_ZERO,
    CTR_NORMAL,
    CTR_TRUNCATED
}; /* initial values; truncated: at two deviations */

/* A matrix (or, with rows 1, a vector) inside the flat vector. */
struct ctr_view {
    char name[12]; /* fc1_w, fc1_b, ..., out_w, out_b, then the network's own */
    size_t offset; /* floats from the start */
    size_t rows, cols;
    enum ctr_first first;
    float deviation;
};

struct ctr_layout {
    struct ctr_view views[CTR_VIEWS_MAX];
    size_t n_views;
    size_t total; /* P: dense parameters */
};

struct ctr_net; /* net.h */

/* Lays out the tower's views, then the network's.  CO_INVALID names a size that is zero or too
 * large. */
CO_MUST_CHECK int ctr_layout_make(
    const struct ctr_net *net, struct ctr_layout *ret_layout, struct co_err *err);
/* Appends a view; for struct ctr_net.layout. */
void ctr_layout_add(struct ctr_layout *l, const char *name, size_t rows, size_t cols,
    enum ctr_first first, float deviation);
/* NULL: no view has that name. */
const struct ctr_view *ctr_layout_find(const struct ctr_layout *l, const char *name);
/* The shape of the network's tower. */
struct nn_tower_shape ctr_tower_shape(const struct ctr_net *net);

/* Sets the initial values of params (P); the tower's weights are normal with deviation
 * 1 / sqrt(inputs).  The same seed gives the same values on every machine. */
void ctr_layout_init(const struct ctr_layout *l, uint64_t seed, float *params);
