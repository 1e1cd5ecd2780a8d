/* The rows of a table that is only read, in layers: a full checkpoint and the deltas on it.
 *
 *     newest   rows that were set | ids that were erased
 *     ...      the same, older
 *     oldest   all rows
 *
 * A lookup goes from the newest layer to the oldest.  A new layer is merged with the layers below
 * that are at most twice as large.  So there are few layers, and a row is copied only a few times.
 * Lists may share layers.  Once other threads know a layer it never changes, so reading takes no
 * lock. */
#pragma once

#include "runtime/train/ps/spec.h"
#include "runtime/train/table/store.h"

enum { PSC_LAYERS_MAX = 40 }; /* each is more than twice as large as the one above */

struct psc_layer {
    uint32_t holders; /* atomic */
    struct table_store *rows;
    struct table_store *gone; /* ids that were erased */
};

struct psc_layers {
    struct psc_layer *at[PSC_LAYERS_MAX]; /* held; newest first */
    uint32_t n;
};

struct psc_layer *psc_layer_new(uint32_t dim);
void psc_layer_drop(struct psc_layer *l); /* NULL allowed */
/* values: f32 [dim], little-endian at any address. */
CO_MUST_CHECK int psc_layer_set(
    struct psc_layer *l, uint64_t id, const void *values, struct co_err *err);
CO_MUST_CHECK int psc_layer_erase(struct psc_layer *l, uint64_t id, struct co_err *err);

/* The ids of all rows, each once: n of them at most, and how many there are. */
size_t psc_layers_ids(const struct psc_layers *l, uint64_t *ret_ids, size_t n);

/* Makes a list: a new layer above those of `old`.  old may be empty, and stays as it is. */
CO_MUST_CHECK int psc_layers_push(const struct psc_layers *old, struct psc_layer *layer_own,
    struct psc_layers *ret, struct co_err *err);
/* Makes a second list of the same layers. */
void psc_layers_hold(const struct psc_layers *from, struct psc_layers *ret);
void psc_layers_done(struct psc_layers *l);
/* ret_rows [n][dim]; an id without a row reads as it does from servers. */
void psc_layers_read(const struct psc_layers *l, const struct ps_table *t, const uint64_t *ids,
    size_t n, float *ret_rows);
