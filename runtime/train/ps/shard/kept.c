/* Stores the last two pieces of data that a trainer keeps here.  Runs on the shard's thread. */
#include "runtime/train/ps/shard/kept.h"

#include <string.h>

#include "common/mem.h"

void rt_kept_put(
    struct rt_kept kept[RT_KEPT_N], uint64_t step, const unsigned char *data, uint32_t bytes) {
    struct rt_kept *to = &kept[0];
    for (size_t i = 0; i < RT_KEPT_N; i++) {
        struct rt_kept *k = &kept[i];
        if (k->data && k->step == step) {
            to = k;
            break;
        }
        to = to->data && (!k->data || k->step < to->step) ? k : to;
    }
    unsigned char *copy = co_xmalloc((size_t)bytes + 1);
    if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    free(to->data);
    *to = (struct rt_kept){.step = step, .bytes = bytes, .data = copy};
}

const struct rt_kept *rt_kept_find(const struct rt_kept kept[RT_KEPT_N], uint64_t step) {
    const struct rt_kept *best = NULL;
    for (size_t i = 0; i < RT_KEPT_N; i++) {
        const struct rt_kept *k = &kept[i];
        if (k->data && k->step <= step && (!best || k->step > best->step)) {
            best = k;
        }
    }
    return best;
}

void rt_kept_clear(struct rt_kept kept[RT_KEPT_N]) {
    for (size_t i = 0; i < RT_KEPT_N; i++) {
        free(kept[i].data);
        kept[i] = (struct rt_kept){0};
    }
}
