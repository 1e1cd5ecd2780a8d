/* Layers of rows: how they are merged, shared and searched.  Only the thread that makes a layer
 * writes to it; any thread may search and hold finished ones. */
#include "runtime/train/ps/client/layers.h"

#include <string.h>

#include "runtime/train/rpc/bytes.h"

enum { GROUP = 256 }; /* ids that are searched together */

struct rt_layer *rt_layer_new(uint32_t dim) {
    struct rt_layer *l = co_xcalloc(1, sizeof(*l));
    l->holders = 1;
    l->rows = rt_store_new(&(struct rt_store_shape){.dim = dim, .storage = RT_F32}, NULL);
    l->gone = rt_store_new(&(struct rt_store_shape){.dim = 1, .storage = RT_F32}, NULL);
    return l;
}

static struct rt_layer *hold(struct rt_layer *l) {
    (void)__atomic_fetch_add(&l->holders, 1, __ATOMIC_RELAXED);
    return l;
}

void rt_layer_drop(struct rt_layer *l) {
    if (l && __atomic_fetch_sub(&l->holders, 1, __ATOMIC_ACQ_REL) == 1) {
        rt_store_free(l->rows);
        rt_store_free(l->gone);
        free(l);
    }
}
CO_DEFINE_CLEANUP(struct rt_layer *, rt_layer_drop)

int rt_layer_set(struct rt_layer *l, uint64_t id, const void *values, struct co_err *err) {
    uint32_t slot;
    bool fresh;
    int rc = rt_store_make(l->rows, id, &slot, &fresh, err);
    if (rc == 0) {
        rt_copy_f32(rt_store_values(l->rows, slot), values, rt_store_shape(l->rows)->dim);
    }
    return rc;
}

int rt_layer_erase(struct rt_layer *l, uint64_t id, struct co_err *err) {
    uint32_t slot;
    bool fresh;
    return rt_store_make(l->gone, id, &slot, &fresh, err);
}

/* ---- merging ---- */

static bool knows(const struct rt_layer *l, uint64_t id) {
    return rt_store_find(l->rows, id) != RT_SLOT_NONE || rt_store_find(l->gone, id) != RT_SLOT_NONE;
}

/* Copies the rows of `from` whose ids `above` neither sets nor erases; above NULL: all rows. */
static int copy_rows(struct rt_layer *to, const struct rt_layer *from, const struct rt_layer *above,
    struct co_err *err) {
    int rc = 0;
    uint32_t slot = rt_store_next(from->rows, 0);
    for (; slot != RT_SLOT_NONE && rc == 0; slot = rt_store_next(from->rows, slot + 1)) {
        uint64_t id = rt_store_id(from->rows, slot);
        uint32_t put;
        bool fresh;
        if (!above || !knows(above, id)) {
            rc = rt_store_make(to->rows, id, &put, &fresh, err);
            if (rc == 0) {
                memcpy(rt_store_values(to->rows, put), rt_store_values(from->rows, slot),
                    rt_store_shape(to->rows)->dim * sizeof(float));
            }
        }
    }
    return rc;
}

static int copy_gone(struct rt_layer *to, const struct rt_layer *from, struct co_err *err) {
    int rc = 0;
    uint32_t slot = rt_store_next(from->gone, 0);
    for (; slot != RT_SLOT_NONE && rc == 0; slot = rt_store_next(from->gone, slot + 1)) {
        rc = rt_layer_erase(to, rt_store_id(from->gone, slot), err);
    }
    return rc;
}

/* If `below` erased an id and `above` set it again, the result has both; a search then finds the
 * row.  In the oldest layer an erased id needs no mark. */
static int merge(const struct rt_layer *above, const struct rt_layer *below, bool oldest,
    struct rt_layer **ret, struct co_err *err) {
    CO_CLEANUP(rt_layer_dropp) struct rt_layer *l = rt_layer_new(rt_store_shape(above->rows)->dim);
    int rc = copy_rows(l, above, NULL, err);
    rc = rc < 0 ? rc : copy_rows(l, below, above, err);
    if (!oldest) {
        rc = rc < 0 ? rc : copy_gone(l, above, err);
        rc = rc < 0 ? rc : copy_gone(l, below, err);
    }
    if (rc < 0) {
        return rc;
    }
    *ret = co_steal_ptr(l);
    return 0;
}

static size_t weigh(const struct rt_layer *l) {
    return rt_store_rows(l->rows) + rt_store_rows(l->gone);
}

int rt_layers_push(const struct rt_layers *old, struct rt_layer *layer_own, struct rt_layers *ret,
    struct co_err *err) {
    CO_CLEANUP(rt_layer_dropp) struct rt_layer *top = layer_own;
    uint32_t below = 0;
    while (below < old->n && 2 * weigh(top) >= weigh(old->at[below])) {
        struct rt_layer *merged = NULL;
        int rc = merge(top, old->at[below], below + 1 == old->n, &merged, err);
        if (rc < 0) {
            return rc;
        }
        rt_layer_drop(top);
        top = merged;
        below++;
    }
    if (old->n - below + 1 > RT_LAYERS_MAX) {
        return co_err_set(err, CO_NORESOURCE, "more than %d layers", RT_LAYERS_MAX);
    }
    *ret = (struct rt_layers){.at = {co_steal_ptr(top)}, .n = 1};
    for (; below < old->n; below++) {
        ret->at[ret->n++] = hold(old->at[below]);
    }
    return 0;
}

void rt_layers_hold(const struct rt_layers *from, struct rt_layers *ret) {
    *ret = *from;
    for (uint32_t i = 0; i < ret->n; i++) {
        (void)hold(ret->at[i]);
    }
}

void rt_layers_done(struct rt_layers *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        rt_layer_drop(l->at[i]);
    }
    l->n = 0;
}

/* ---- reading ---- */

static bool read_row(const struct rt_layers *l, uint64_t id, float *ret) {
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t slot = rt_store_find(l->at[i]->rows, id);
        if (slot != RT_SLOT_NONE) {
            rt_store_read(l->at[i]->rows, slot, ret);
            return true;
        }
        if (i + 1 < l->n && rt_store_find(l->at[i]->gone, id) != RT_SLOT_NONE) {
            return false;
        }
    }
    return false;
}

void rt_layers_read(const struct rt_layers *l, const struct rt_initializer *initializer,
    const uint64_t *ids, size_t n, size_t dim, float *ret_rows) {
    bool one = l->n == 1; /* the usual case: search groups, so that cache misses overlap */
    for (size_t begin = 0; begin < n; begin += GROUP) {
        uint32_t slots[GROUP];
        size_t end = n - begin < GROUP ? n : begin + GROUP;
        if (one) {
            rt_store_find_many(l->at[0]->rows, ids + begin, end - begin, slots);
        }
        for (size_t i = begin; i < end; i++) {
            float *to = ret_rows + i * dim;
            if (one && slots[i - begin] != RT_SLOT_NONE) {
                rt_store_read(l->at[0]->rows, slots[i - begin], to);
            } else if (one || !read_row(l, ids[i], to)) {
                rt_initializer_row(initializer, ids[i], dim, to);
            }
        }
    }
}
