/* Numbers the distinct ids of a batch with a hash table, then gives each a place in its owner's
 * group. */
#include "runtime/train/ps/client/ids.h"

#include <string.h>

#include "runtime/train/ps/spec.h"

enum { AHEAD = 16 }; /* ids between a prefetch and the search */

/* The slot where the search for an id begins; size is a power of two. */
static uint32_t home(uint64_t id, uint32_t size) {
    return (uint32_t)((id * 0x9e3779b97f4a7c15ULL) >> 32) & (size - 1);
}

/* Numbers the distinct ids by open addressing; the table is at most half full.  The slots of a
 * large batch do not fit into the CPU's near caches, so they are prefetched. */
static void number_ids(struct psc_ids *b, const uint64_t *ids) {
    uint32_t size = 16;
    while (size < b->n * 2) {
        size *= 2;
    }
    CO_AUTOFREE uint32_t *slots = co_xmalloc(size * sizeof(*slots));
    memset(slots, 0xff, size * sizeof(*slots));
    CO_AUTOFREE uint32_t *last = co_xmalloc(b->n * sizeof(*last));
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t k = home(ids[i], size);
        if (i + AHEAD < b->n) {
            __builtin_prefetch(&slots[home(ids[i + AHEAD], size)]);
        }
        while (slots[k] != PSC_NONE && ids[b->first[slots[k]]] != ids[i]) {
            k = (k + 1) & (size - 1);
        }
        b->next[i] = PSC_NONE;
        if (slots[k] == PSC_NONE) {
            slots[k] = b->n_unique;
            b->first[b->n_unique++] = i;
        } else {
            b->next[last[slots[k]]] = i;
        }
        last[slots[k]] = i;
        b->unique[i] = slots[k];
    }
}

void psc_ids_init(
    struct psc_ids *b, const uint64_t *ids, uint32_t n, const uint32_t *base, uint32_t n_servers) {
    uint32_t n_targets = base[n_servers];
    uint32_t *all = co_xmalloc(((size_t)n * 5 + n_targets) * sizeof(*all));
    *b = (struct psc_ids){.n = n,
        .unique = all,
        .first = all + n,
        .next = all + 2 * (size_t)n,
        .target = all + 3 * (size_t)n,
        .place = all + 4 * (size_t)n,
        .count = all + 5 * (size_t)n};
    memset(b->count, 0, n_targets * sizeof(*b->count));
    number_ids(b, ids);
    for (uint32_t u = 0; u < b->n_unique; u++) {
        uint64_t id = ids[b->first[u]];
        uint32_t s = n_targets > 1 ? ps_sparse_server(id, n_servers) : 0;
        uint32_t shard = n_targets > 1 ? ps_sparse_shard(id, base[s + 1] - base[s]) : 0;
        b->target[u] = base[s] + shard;
        b->place[u] = b->count[b->target[u]]++;
    }
}

void psc_ids_done(struct psc_ids *b) {
    free(b->unique);
    *b = (struct psc_ids){0};
}
