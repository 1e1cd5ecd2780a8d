/* A set of slot numbers: pages of bits, which are allocated when a number is first added.
 *
 *     pages [n]  -> 65536 bits, or NULL: no number of this page is in the set
 *
 * No function copies the whole set, so none takes long.  Belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_bits {
    uint64_t **pages;
    size_t n;
};

enum { SHARD_BITS_PAGE = 65536 };
#define SHARD_BITS_NONE SIZE_MAX

static inline bool shard_bits_has(const struct shard_bits *b, size_t i) {
    const uint64_t *page = i / SHARD_BITS_PAGE < b->n ? b->pages[i / SHARD_BITS_PAGE] : NULL;
    return page && (page[i % SHARD_BITS_PAGE / 64] >> (i % 64) & 1);
}
/* Prefetches the word of i. */
__attribute__((always_inline)) static inline void shard_bits_fetch(
    const struct shard_bits *b, size_t i) {
    const uint64_t *page = i / SHARD_BITS_PAGE < b->n ? b->pages[i / SHARD_BITS_PAGE] : NULL;
    if (page) {
        __builtin_prefetch(&page[i % SHARD_BITS_PAGE / 64]);
    }
}
void shard_bits_add(struct shard_bits *b, size_t i);
void shard_bits_remove(struct shard_bits *b, size_t i);
/* Adds all numbers of the other set, which is empty afterwards. */
void shard_bits_join(struct shard_bits *b, struct shard_bits *other);
/* The smallest number from `from` on; SHARD_BITS_NONE: there is none. */
size_t shard_bits_next(const struct shard_bits *b, size_t from);
void shard_bits_clear(struct shard_bits *b); /* removes all numbers and frees the pages */
