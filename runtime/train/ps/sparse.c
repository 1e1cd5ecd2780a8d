#include "runtime/train/ps/sparse.h"

#include <string.h>

#include "runtime/train/ps/init.h"

enum { BLOCK_ROWS = 1024, SLOTS_MIN = 1024 };

struct slot {
    uint64_t id;
    uint64_t row; /* row number + 1; 0: empty */
};

struct block {
    uint64_t ids[BLOCK_ROWS];
    float rows[];
};

struct rt_sparse {
    size_t stride;
    size_t bytes;
    struct rt_budget *budget;
    size_t n_rows;
    struct block **blocks;
    size_t n_blocks, cap_blocks;
    struct slot *slots;
    size_t mask;
};

struct rt_sparse *rt_sparse_new(size_t stride, struct rt_budget *budget) {
    struct rt_sparse *t = co_xcalloc(1, sizeof(*t));
    t->stride = stride;
    t->budget = budget;
    return t;
}

void rt_sparse_free(struct rt_sparse *t) {
    if (!t) {
        return;
    }
    for (size_t i = 0; i < t->n_blocks; i++) {
        free(t->blocks[i]);
    }
    rt_budget_give(t->budget, t->bytes);
    free(t->blocks);
    free(t->slots);
    free(t);
}

/* The slot of id, or the empty one where it belongs.  Never full: at most 5/8 are used. */
static struct slot *find_slot(const struct rt_sparse *t, uint64_t id) {
    /* Server and shard came from the same hash: mix again, or half the slots stay empty. */
    size_t i = (size_t)(rt_mix64(id) * 0x9e3779b97f4a7c15ULL >> 20) & t->mask;
    while (t->slots[i].row && t->slots[i].id != id) {
        i = (i + 1) & t->mask;
    }
    return &t->slots[i];
}

static float *row_at(const struct rt_sparse *t, size_t i) {
    return t->blocks[i / BLOCK_ROWS]->rows + (i % BLOCK_ROWS) * t->stride;
}

float *rt_sparse_find(const struct rt_sparse *t, uint64_t id) {
    const struct slot *s = t->slots ? find_slot(t, id) : NULL;
    return s && s->row ? row_at(t, s->row - 1) : NULL;
}

static int take_memory(
    struct rt_sparse *t, size_t n, size_t size, const char *what, void **ret, struct co_err *err) {
    int rc = rt_budget_take(t->budget, n * size, err);
    if (rc < 0) {
        return rc;
    }
    rc = co_try_alloc(n, size, n * size, what, ret, err);
    if (rc < 0) {
        rt_budget_give(t->budget, n * size);
        return rc;
    }
    t->bytes += n * size;
    return 0;
}

/* n is a power of two. */
static int grow_slots(struct rt_sparse *t, size_t n, struct co_err *err) {
    void *fresh = NULL;
    int rc = take_memory(t, n, sizeof(*t->slots), "row index", &fresh, err);
    if (rc < 0) {
        return rc;
    }
    struct slot *old = t->slots;
    size_t old_n = old ? t->mask + 1 : 0;
    t->slots = fresh;
    t->mask = n - 1;
    for (size_t i = 0; i < old_n; i++) {
        if (old[i].row) {
            *find_slot(t, old[i].id) = old[i];
        }
    }
    t->bytes -= old_n * sizeof(*t->slots);
    rt_budget_give(t->budget, old_n * sizeof(*t->slots));
    free(old);
    return 0;
}

static int grow_blocks(struct rt_sparse *t, struct co_err *err) {
    size_t size = sizeof(struct block) + BLOCK_ROWS * t->stride * sizeof(float);
    void *fresh = NULL;
    int rc = take_memory(t, 1, size, "rows", &fresh, err);
    if (rc < 0) {
        return rc;
    }
    if (t->n_blocks == t->cap_blocks) {
        t->cap_blocks = t->cap_blocks ? t->cap_blocks * 2 : 16;
        t->blocks = co_xrealloc(t->blocks, t->cap_blocks, sizeof(struct block *));
    }
    t->blocks[t->n_blocks++] = fresh;
    return 0;
}

/* Rows that so many slots are for. */
static size_t slots_hold(size_t slots) {
    return slots / 8 * 5;
}

bool rt_sparse_has_room(const struct rt_sparse *t, size_t more) {
    return t->slots && t->n_rows + more <= slots_hold(t->mask + 1) &&
           t->n_rows + more <= t->n_blocks * BLOCK_ROWS;
}

int rt_sparse_reserve(struct rt_sparse *t, size_t more, struct co_err *err) {
    size_t slots = t->slots ? t->mask + 1 : SLOTS_MIN;
    while (slots_hold(slots) < t->n_rows + more) {
        slots *= 2;
    }
    int rc = !t->slots || slots > t->mask + 1 ? grow_slots(t, slots, err) : 0;
    while (rc == 0 && t->n_rows + more > t->n_blocks * BLOCK_ROWS) {
        rc = grow_blocks(t, err);
    }
    return rc;
}

int rt_sparse_make(
    struct rt_sparse *t, uint64_t id, float **ret_row, int *ret_new, struct co_err *err) {
    float *row = rt_sparse_find(t, id);
    *ret_new = !row;
    if (row) {
        *ret_row = row;
        return 0;
    }
    int rc = rt_sparse_has_room(t, 1) ? 0 : rt_sparse_reserve(t, 1, err);
    if (rc < 0) {
        return rc;
    }
    struct slot *s = find_slot(t, id);
    size_t i = t->n_rows++;
    s->id = id;
    s->row = i + 1;
    t->blocks[i / BLOCK_ROWS]->ids[i % BLOCK_ROWS] = id;
    *ret_row = row_at(t, i);
    memset(*ret_row, 0, t->stride * sizeof(float));
    return 0;
}

float *rt_sparse_row(const struct rt_sparse *t, size_t i, uint64_t *ret_id) {
    *ret_id = t->blocks[i / BLOCK_ROWS]->ids[i % BLOCK_ROWS];
    return row_at(t, i);
}

size_t rt_sparse_rows(const struct rt_sparse *t) {
    return t->n_rows;
}

size_t rt_sparse_bytes(const struct rt_sparse *t) {
    return t->bytes;
}

void rt_sparse_clear(struct rt_sparse *t) {
    if (t->n_rows > 0) {
        memset(t->slots, 0, (t->mask + 1) * sizeof(*t->slots));
        t->n_rows = 0;
    }
}
