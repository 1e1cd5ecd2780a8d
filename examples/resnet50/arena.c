/* Places the largest value first, each at the lowest offset that is free during its whole life.
 * The best plan is NP-hard to find; for networks that are chains of blocks this one is within a few
 * percent of the bound.  It takes quadratic time, but runs only once. */
#include "examples/resnet50/arena.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/mem.h"

static bool together(const struct rn_span *a, const struct rn_span *b) {
    return a->first <= b->last && b->first <= a->last;
}

static int by_size(const void *a, const void *b) {
    const struct rn_span *x = *(struct rn_span *const *)a, *y = *(struct rn_span *const *)b;

    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? 1 : -1;
    }
    return x->first < y->first ? -1 : x->first > y->first;
}

static int by_offset(const void *a, const void *b) {
    const struct rn_span *x = *(struct rn_span *const *)a, *y = *(struct rn_span *const *)b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* placed [n] is sorted by offset. */
static size_t lowest_place(const struct rn_span *s, struct rn_span *const *placed, size_t n) {
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        if (together(s, placed[i]) && placed[i]->offset < at + rn_arena_aligned(s->bytes)) {
            size_t end = placed[i]->offset + rn_arena_aligned(placed[i]->bytes);

            at = end > at ? end : at;
        }
    }
    return at;
}

size_t rn_arena_plan(struct rn_span *spans, size_t n) {
    CO_AUTOFREE struct rn_span **order = co_xcalloc(n + 1, sizeof(struct rn_span *));
    size_t total = 0;

    for (size_t i = 0; i < n; i++) {
        order[i] = &spans[i];
    }
    qsort(order, n, sizeof(struct rn_span *), by_size);
    for (size_t i = 0; i < n; i++) {
        struct rn_span *s = order[i];

        s->offset = lowest_place(s, order, i);
        if (s->offset + rn_arena_aligned(s->bytes) > total) {
            total = s->offset + rn_arena_aligned(s->bytes);
        }
        qsort(order, i + 1, sizeof(struct rn_span *), by_offset);
    }
    return total;
}
