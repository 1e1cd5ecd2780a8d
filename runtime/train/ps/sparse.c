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
    size_t bytes, bytes_max;
    size_t n_rows;
    struct block **blocks;
    size_t n_blocks, cap_blocks;
    struct slot *slots;
    size_t mask;
};

struct rt_sparse *rt_sparse_new(size_t stride, size_t bytes_max) {
    struct rt_sparse *t = co_xcalloc(1, sizeof(*t));
    t->stride = stride;
    t->bytes_max = bytes_max;
    t->slots = co_xcalloc(SLOTS_MIN, sizeof(*t->slots));
    t->mask = SLOTS_MIN - 1;
    t->bytes = SLOTS_MIN * sizeof(*t->slots);
    return t;
}

void rt_sparse_free(struct rt_sparse *t) {
    if (!t) {
        return;
    }
    for (size_t i = 0; i < t->n_blocks; i++) {
        free(t->blocks[i]);
    }
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
    const struct slot *s = find_slot(t, id);
    return s->row ? row_at(t, s->row - 1) : NULL;
}

static int check_bytes(const struct rt_sparse *t, size_t more, struct co_err *err) {
    if (t->bytes + more <= t->bytes_max) {
        return 0;
    }
    return co_err_set(err, CO_NORESOURCE,
        "%zu rows take %zu MiB, the limit of this shard is %zu MiB", t->n_rows, t->bytes >> 20,
        t->bytes_max >> 20);
}

static int grow_slots(struct rt_sparse *t, struct co_err *err) {
    size_t n = (t->mask + 1) * 2;
    int rc = check_bytes(t, n / 2 * sizeof(*t->slots), err);
    void *fresh = NULL;
    rc = rc < 0 ? rc : co_try_alloc(n, sizeof(*t->slots), t->bytes_max, "row index", &fresh, err);
    if (rc < 0) {
        return rc;
    }
    struct slot *old = t->slots;
    size_t old_n = t->mask + 1;
    t->slots = fresh;
    t->mask = n - 1;
    for (size_t i = 0; i < old_n; i++) {
        if (old[i].row) {
            *find_slot(t, old[i].id) = old[i];
        }
    }
    t->bytes += n / 2 * sizeof(*t->slots);
    free(old);
    return 0;
}

static int grow_blocks(struct rt_sparse *t, struct co_err *err) {
    size_t size = sizeof(struct block) + BLOCK_ROWS * t->stride * sizeof(float);
    int rc = check_bytes(t, size, err);
    void *fresh = NULL;
    rc = rc < 0 ? rc : co_try_alloc(1, size, t->bytes_max, "rows", &fresh, err);
    if (rc < 0) {
        return rc;
    }
    if (t->n_blocks == t->cap_blocks) {
        t->cap_blocks = t->cap_blocks ? t->cap_blocks * 2 : 16;
        t->blocks = co_xrealloc(t->blocks, t->cap_blocks, sizeof(struct block *));
    }
    t->blocks[t->n_blocks++] = fresh;
    t->bytes += size;
    return 0;
}

int rt_sparse_make(
    struct rt_sparse *t, uint64_t id, float **ret_row, int *ret_new, struct co_err *err) {
    struct slot *s = find_slot(t, id);
    *ret_new = !s->row;
    if (s->row) {
        *ret_row = row_at(t, s->row - 1);
        return 0;
    }
    if (t->n_rows + 1 > (t->mask + 1) / 8 * 5) {
        int rc = grow_slots(t, err);
        if (rc < 0) {
            return rc;
        }
        s = find_slot(t, id);
    }
    if (t->n_rows == t->n_blocks * BLOCK_ROWS) {
        int rc = grow_blocks(t, err);
        if (rc < 0) {
            return rc;
        }
    }
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
