/* A hash table from u64 ids to u32 numbers, in two arrays. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_idmap {
    uint64_t *ids;
    uint32_t *values; /* value + 1; 0: empty */
    size_t n, cap;    /* cap: a power of two, or 0 */
};

enum { RT_IDMAP_BYTES = 24 }; /* of an id, about: a third of the places is empty */

#define RT_IDMAP_NONE UINT32_MAX

void rt_idmap_done(struct rt_idmap *m); /* it is empty then, and can be used again */
/* RT_IDMAP_NONE: it is not there. */
uint32_t rt_idmap_find(const struct rt_idmap *m, uint64_t id);
/* False: the id is in the map already and keeps its value. value must be below RT_IDMAP_NONE. */
bool rt_idmap_add(struct rt_idmap *m, uint64_t id, uint32_t value);

/* A bijection that mixes all bits, for hashing and for dividing ids into shares. */
static inline uint64_t rt_idmap_mix(uint64_t id) {
    id = (id ^ (id >> 32)) * 0xd6e8feb86659fd93ULL;
    id = (id ^ (id >> 32)) * 0xd6e8feb86659fd93ULL;
    return id ^ (id >> 32);
}
