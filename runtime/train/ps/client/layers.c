/* Layers of rows: how they are merged, shared and searched.  Only the thread that makes a layer
 * writes to it; any thread may search and hold finished ones. */
#include "runtime/train/ps/client/layers.h"

#include <string.h>

#include "common/bytes.h"

enum { GROUP = 256 }; /* ids that are searched together */

struct psc_layer *psc_layer_new(uint32_t dim) {
    struct psc_layer *l = co_xcalloc(1, sizeof(*l));
    l->holders = 1;
    l->rows = table_store_new(&(struct table_store_shape){.dim = dim, .storage = RT_F32}, NULL);
    l->gone = table_store_new(&(struct table_store_shape){.dim = 1, .storage = RT_F32}, NULL);
    return l;
}

static struct psc_layer *hold(struct psc_layer *l) {
    (void)__atomic_fetch_add(&l->holders, 1, __ATOMIC_RELAXED);
    return l;
}

void psc_layer_drop(struct psc_layer *l) {
    if (l && __atomic_fetch_sub(&l->holders, 1, __ATOMIC_ACQ_REL) == 1) {
        table_store_free(l->rows);
        table_store_free(l->gone);
        free(l);
    }
}
CO_DEFINE_CLEANUP(struct psc_layer *, psc_layer_drop)

int psc_layer_set(struct psc_layer *l, uint64_t id, const void *values, struct co_err *err) {
    uint32_t slot;
    bool fresh;
    int rc = table_store_make(l->rows, id, &slot, &fresh, err);
    if (rc == 0) {
        co_copy_f32(table_store_values(l->rows, slot), values, table_store_shape(l->rows)->dim);
    }
    return rc;
}

int psc_layer_erase(struct psc_layer *l, uint64_t id, struct co_err *err) {
    uint32_t slot;
    bool fresh;
    return table_store_make(l->gone, id, &slot, &fresh, err);
}

/* ---- merging ---- */

static bool knows(const struct psc_layer *l, uint64_t id) {
    return table_store_find(l->rows, id) != TABLE_SLOT_NONE ||
           table_store_find(l->gone, id) != TABLE_SLOT_NONE;
}

/* Copies the rows of `from` whose ids `above` neither sets nor erases; above NULL: all rows. */
static int copy_rows(struct psc_layer *to, const struct psc_layer *from,
    const struct psc_layer *above, struct co_err *err) {
    uint32_t slot = table_store_next(from->rows, 0);
    for (; slot != TABLE_SLOT_NONE; slot = table_store_next(from->rows, slot + 1)) {
        uint64_t id = table_store_id(from->rows, slot);
        uint32_t put;
        bool fresh;
        if (!above || !knows(above, id)) {
            CO_TRY(table_store_make(to->rows, id, &put, &fresh, err));
            memcpy(table_store_values(to->rows, put), table_store_values(from->rows, slot),
                table_store_shape(to->rows)->dim * sizeof(float));
        }
    }
    return 0;
}

static int copy_gone(struct psc_layer *to, const struct psc_layer *from, struct co_err *err) {
    uint32_t slot = table_store_next(from->gone, 0);
    for (; slot != TABLE_SLOT_NONE; slot = table_store_next(from->gone, slot + 1)) {
        CO_TRY(psc_layer_erase(to, table_store_id(from->gone, slot), err));
    }
    return 0;
}

/* If `below` erased an id and `above` set it again, the result has both; a search then finds the
 * row.  In the oldest layer an erased id needs no mark. */
static int merge(const struct psc_layer *above, const struct psc_layer *below, bool oldest,
    struct psc_layer **ret, struct co_err *err) {
    CO_CLEANUP(psc_layer_dropp)
    struct psc_layer *l = psc_layer_new(table_store_shape(above->rows)->dim);
    CO_TRY(copy_rows(l, above, NULL, err));
    CO_TRY(copy_rows(l, below, above, err));
    if (!oldest) {
        CO_TRY(copy_gone(l, above, err));
        CO_TRY(copy_gone(l, below, err));
    }
    *ret = co_steal_ptr(l);
    return 0;
}

static size_t weigh(const struct psc_layer *l) {
    return table_store_rows(l->rows) + table_store_rows(l->gone);
}

int psc_layers_push(const struct psc_layers *old, struct psc_layer *layer_own,
    struct psc_layers *ret, struct co_err *err) {
    CO_CLEANUP(psc_layer_dropp) struct psc_layer *top = layer_own;
    uint32_t below = 0;
    while (below < old->n && 2 * weigh(top) >= weigh(old->at[below])) {
        struct psc_layer *merged = NULL;
        CO_TRY(merge(top, old->at[below], below + 1 == old->n, &merged, err));
        psc_layer_drop(top);
        top = merged;
        below++;
    }
    if (old->n - below + 1 > PSC_LAYERS_MAX) {
        return co_err_set(err, CO_NORESOURCE, "more than %d layers", PSC_LAYERS_MAX);
    }
    *ret = (struct psc_layers){.at = {co_steal_ptr(top)}, .n = 1};
    for (; below < old->n; below++) {
        ret->at[ret->n++] = hold(old->at[below]);
    }
    return 0;
}

void psc_layers_hold(const struct psc_layers *from, struct psc_layers *ret) {
    *ret = *from;
    for (uint32_t i = 0; i < ret->n; i++) {
        (void)hold(ret->at[i]);
    }
}

void psc_layers_done(struct psc_layers *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        psc_layer_drop(l->at[i]);
    }
    l->n = 0;
}

/* ---- reading ---- */

static bool read_row(const struct psc_layers *l, uint64_t id, float *ret) {
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t slot = table_store_find(l->at[i]->rows, id);
        if (slot != TABLE_SLOT_NONE) {
            table_store_read(l->at[i]->rows, slot, ret);
            return true;
        }
        if (i + 1 < l->n && table_store_find(l->at[i]->gone, id) != TABLE_SLOT_NONE) {
            return false;
        }
    }
    return false;
}

/* Whether a layer above the one at `place` sets or erases the id. */
static bool covered(const struct psc_layers *l, uint32_t place, uint64_t id) {
    uint32_t above = 0;
    while (above < place && !knows(l->at[above], id)) {
        above++;
    }
    return above < place;
}

size_t psc_layers_ids(const struct psc_layers *l, uint64_t *ret_ids, size_t n) {
    size_t found = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const struct table_store *rows = l->at[i]->rows;
        uint32_t slot = table_store_next(rows, 0);
        for (; slot != TABLE_SLOT_NONE; slot = table_store_next(rows, slot + 1)) {
            uint64_t id = table_store_id(rows, slot);
            if (covered(l, i, id)) {
                continue;
            }
            if (found < n) {
                ret_ids[found] = id;
            }
            found++;
        }
    }
    return found;
}

void psc_layers_read(const struct psc_layers *l, const struct ps_table *t, const uint64_t *ids,
    size_t n, float *ret_rows) {
    const size_t dim = t->spec.dim;
    bool one = l->n == 1; /* the usual case: search groups, so that cache misses overlap */
    for (size_t begin = 0; begin < n; begin += GROUP) {
        uint32_t slots[GROUP];
        size_t end = n - begin < GROUP ? n : begin + GROUP;
        if (one) {
            table_store_find_many(l->at[0]->rows, ids + begin, end - begin, slots);
        }
        for (size_t i = begin; i < end; i++) {
            float *to = ret_rows + i * dim;
            if (one && slots[i - begin] != TABLE_SLOT_NONE) {
                table_store_read(l->at[0]->rows, slots[i - begin], to);
            } else if (one || !read_row(l, ids[i], to)) {
                ps_table_absent_row(t, ids[i], to);
            }
        }
    }
}
