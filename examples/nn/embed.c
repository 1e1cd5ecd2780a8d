/* Finds different ids with an open-addressing hash table; gathers and scatters with plain loops. */
#include "examples/nn/embed.h"

#include <string.h>

#include "examples/nn/rng.h"

enum { IDS_MAX = 1 << 26 };

struct slot {
    uint64_t id;
    uint32_t place; /* index in ret_unique */
    uint32_t round; /* the slot is in use only if this is the current round */
};

/* An open-addressing table, at most half full.  Each batch is a new round, so that the table need
 * not be cleared between batches. */
struct nn_distinct {
    size_t max_ids;
    size_t mask;
    uint32_t round;
    struct slot *slots;
};

int nn_distinct_new(size_t max_ids, struct nn_distinct **ret_d, struct co_err *err) {
    size_t size = 16;
    void *slots = NULL;

    if (max_ids > IDS_MAX) {
        return co_err_set(err, CO_NORESOURCE, "%zu ids a batch, at most %d", max_ids, IDS_MAX);
    }
    while (size < 2 * max_ids) {
        size *= 2;
    }
    CO_TRY(co_try_alloc(size, sizeof(struct slot), (size_t)2 * IDS_MAX * sizeof(struct slot),
        "id table", &slots, err));
    struct nn_distinct *d = co_xcalloc(1, sizeof(*d));
    d->max_ids = max_ids;
    d->mask = size - 1;
    d->slots = slots;
    *ret_d = d;
    return 0;
}

void nn_distinct_free(struct nn_distinct *d) {
    if (d) {
        free(d->slots);
        free(d);
    }
}

size_t nn_distinct_find(struct nn_distinct *d, size_t k, const uint64_t *ids, uint64_t *ret_unique,
    uint32_t *ret_index) {
    uint32_t found = 0;

    if (++d->round == 0) { /* after 2^32 batches old rounds would look current */
        memset(d->slots, 0, (d->mask + 1) * sizeof(*d->slots));
        d->round = 1;
    }
    for (size_t i = 0; i < k; i++) {
        size_t at = (size_t)nn_mix64(ids[i], 0) & d->mask;

        while (d->slots[at].round == d->round && d->slots[at].id != ids[i]) {
            at = (at + 1) & d->mask;
        }
        if (d->slots[at].round != d->round) {
            d->slots[at] = (struct slot){.id = ids[i], .place = found, .round = d->round};
            ret_unique[found++] = ids[i];
        }
        ret_index[i] = d->slots[at].place;
    }
    return found;
}

void nn_embed_gather(const struct nn_embed *m, const uint32_t *index, const float *rows, float *x) {
    for (size_t i = 0; i < m->batch; i++) {
        for (size_t s = 0; s < m->slots; s++) {
            memcpy(x + i * m->stride + s * m->width, rows + index[i * m->slots + s] * m->width,
                m->width * sizeof(*x));
        }
    }
}

void nn_embed_scatter(
    const struct nn_embed *m, const uint32_t *index, const float *dx, size_t n_rows, float *drows) {
    memset(drows, 0, n_rows * m->width * sizeof(*drows));
    for (size_t i = 0; i < m->batch; i++) {
        for (size_t s = 0; s < m->slots; s++) {
            const float *from = dx + i * m->stride + s * m->width;  /* (E) */
            float *to = drows + index[i * m->slots + s] * m->width; /* (E) */

            for (size_t j = 0; j < m->width; j++) {
                to[j] += from[j];
            }
        }
    }
}
