/* A hash table from u64 ids to u32 numbers, in two arrays. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inspect_idmap {
    uint64_t *ids;
    uint32_t *values; /* value + 1; 0: empty */
    size_t n, cap;    /* cap: a power of two, or 0 */
};

enum { INSPECT_IDMAP_BYTES = 24 }; /* of an id, about: a third of the places is empty */

#define INSPECT_IDMAP_NONE UINT32_MAX

void inspect_idmap_done(struct inspect_idmap *m); /* it is empty then, and can be used again */
/* INSPECT_IDMAP_NONE: it is not there. */
uint32_t inspect_idmap_find(const struct inspect_idmap *m, uint64_t id);
/* False: the id is in the map already and keeps its value. value must be below INSPECT_IDMAP_NONE.
 */
bool inspect_idmap_add(struct inspect_idmap *m, uint64_t id, uint32_t value);

/* A bijection that mixes all bits, for hashing and for dividing ids into shares. */
static inline uint64_t inspect_idmap_mix(uint64_t id) {
    id = (id ^ (id >> 32)) * 0xd6e8feb86659fd93ULL;
    id = (id ^ (id >> 32)) * 0xd6e8feb86659fd93ULL;
    return id ^ (id >> 32);
}
