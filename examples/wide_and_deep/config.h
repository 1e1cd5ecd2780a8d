/* Sizes of a wide & deep network and the layout of its dense parameters: one flat vector with
 * named views, so that a parameter server needs to know only its length.  The embedding table is
 * not part of it: its rows are looked up by id.
 * Pure: no I/O, threads or globals. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { WD_HIDDEN_MAX = 6, WD_VIEWS_MAX = 2 * WD_HIDDEN_MAX + 4 };

struct wd_config {
    size_t vocabulary; /* V: ids are below this */
    size_t embed;      /* E: floats of an embedding row, shared by all slots */
    size_t slots;      /* S: categorical features a sample */
    size_t dense;      /* D: numeric features a sample */
    size_t hidden[WD_HIDDEN_MAX];
    size_t n_hidden;
};

/* The network of the Criteo example: 1000001 x 10 embeddings, 26 slots, 13 numbers, three hidden
 * layers of 400; 430815 dense parameters. */
extern const struct wd_config wd_config_criteo;

/* A matrix (or, with rows 1, a vector) inside the flat vector. */
struct wd_view {
    char name[12]; /* fc1_w, fc1_b, ..., out_w, out_b, wide_w, wide_b */
    size_t offset; /* floats from the start */
    size_t rows, cols;
};

struct wd_layout {
    struct wd_view views[WD_VIEWS_MAX];
    size_t n_views;
    size_t total; /* P: dense parameters */
};

/* CO_INVALID names the size that is zero or too large. */
CO_MUST_CHECK int wd_layout_make(
    const struct wd_config *c, struct wd_layout *ret_layout, struct co_err *err);
/* NULL when there is none of that name. */
const struct wd_view *wd_layout_find(const struct wd_layout *l, const char *name);

/* Initial values of params (P): weights normal with deviation 1 / sqrt(inputs), wide weights the
 * same cut at two deviations, biases 0.  The same seed gives the same values everywhere. */
void wd_layout_init(const struct wd_layout *l, uint64_t seed, float *params);
