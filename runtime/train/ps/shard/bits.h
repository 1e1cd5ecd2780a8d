/* A set of slot numbers: pages of bits, which are allocated when a number is first added.
 *
 *     pages [n]  -> 65536 bits, or NULL: no number of this page is in the set
 *
 * No function copies the whole set, so none takes long.  Belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_bits {
    uint64_t **pages;
    size_t n;
};

enum { RT_BITS_PAGE = 65536 };
#define RT_BITS_NONE SIZE_MAX

static inline bool rt_bits_has(const struct rt_bits *b, size_t i) {
    const uint64_t *page = i / RT_BITS_PAGE < b->n ? b->pages[i / RT_BITS_PAGE] : NULL;
    return page && (page[i % RT_BITS_PAGE / 64] >> (i % 64) & 1);
}
/* Prefetches the word of i. */
__attribute__((always_inline)) static inline void rt_bits_fetch(const struct rt_bits *b, size_t i) {
    const uint64_t *page = i / RT_BITS_PAGE < b->n ? b->pages[i / RT_BITS_PAGE] : NULL;
    if (page) {
        __builtin_prefetch(&page[i % RT_BITS_PAGE / 64]);
    }
}
void rt_bits_add(struct rt_bits *b, size_t i);
void rt_bits_remove(struct rt_bits *b, size_t i);
/* Adds all numbers of the other set, which is empty afterwards. */
void rt_bits_join(struct rt_bits *b, struct rt_bits *other);
/* The smallest number from `from` on; RT_BITS_NONE: there is none. */
size_t rt_bits_next(const struct rt_bits *b, size_t from);
void rt_bits_clear(struct rt_bits *b); /* removes all numbers and frees the pages */
