/* Stores the last two pieces of data that a trainer keeps here.  Runs on the shard's thread. */
#include "runtime/train/ps/shard/kept.h"

#include <string.h>

#include "common/mem.h"

void shard_kept_put(struct shard_kept kept[SHARD_KEPT_N], uint64_t step, const unsigned char *data,
    uint32_t bytes) {
    struct shard_kept *to = &kept[0];
    for (size_t i = 0; i < SHARD_KEPT_N; i++) {
        struct shard_kept *k = &kept[i];
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
    *to = (struct shard_kept){.step = step, .bytes = bytes, .data = copy};
}

const struct shard_kept *shard_kept_find(
    const struct shard_kept kept[SHARD_KEPT_N], uint64_t step) {
    const struct shard_kept *best = NULL;
    for (size_t i = 0; i < SHARD_KEPT_N; i++) {
        const struct shard_kept *k = &kept[i];
        if (k->data && k->step <= step && (!best || k->step > best->step)) {
            best = k;
        }
    }
    return best;
}

void shard_kept_clear(struct shard_kept kept[SHARD_KEPT_N]) {
    for (size_t i = 0; i < SHARD_KEPT_N; i++) {
        free(kept[i].data);
        kept[i] = (struct shard_kept){0};
    }
}
