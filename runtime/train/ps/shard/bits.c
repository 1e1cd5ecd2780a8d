/* A set of slot numbers as pages of bits (bits.h).  Runs on the thread that owns the set. */
#include "runtime/train/ps/shard/bits.h"

#include "common/mem.h"

enum { WORDS = RT_BITS_PAGE / 64 };

static void grow(struct rt_bits *b, size_t n) {
    if (n > b->n) {
        size_t to = n > 2 * b->n ? n : 2 * b->n;
        b->pages = co_xrealloc(b->pages, to, sizeof(*b->pages));
        for (size_t i = b->n; i < to; i++) {
            b->pages[i] = NULL;
        }
        b->n = to;
    }
}

void rt_bits_add(struct rt_bits *b, size_t i) {
    size_t p = i / RT_BITS_PAGE;
    grow(b, p + 1);
    if (!b->pages[p]) {
        b->pages[p] = co_xcalloc(WORDS, sizeof(uint64_t));
    }
    b->pages[p][i % RT_BITS_PAGE / 64] |= UINT64_C(1) << (i % 64);
}

void rt_bits_remove(struct rt_bits *b, size_t i) {
    if (rt_bits_has(b, i)) {
        b->pages[i / RT_BITS_PAGE][i % RT_BITS_PAGE / 64] &= ~(UINT64_C(1) << (i % 64));
    }
}

void rt_bits_join(struct rt_bits *b, struct rt_bits *other) {
    grow(b, other->n);
    for (size_t p = 0; p < other->n; p++) {
        if (!b->pages[p]) {
            b->pages[p] = co_steal_ptr(other->pages[p]);
        }
        for (size_t w = 0; other->pages[p] && w < WORDS; w++) {
            b->pages[p][w] |= other->pages[p][w];
        }
    }
    rt_bits_clear(other);
}

size_t rt_bits_next(const struct rt_bits *b, size_t from) {
    for (size_t p = from / RT_BITS_PAGE; p < b->n; p++, from = p * RT_BITS_PAGE) {
        for (size_t w = from % RT_BITS_PAGE / 64; b->pages[p] && w < WORDS; w++) {
            uint64_t word = b->pages[p][w];
            if (p * RT_BITS_PAGE + w * 64 < from) {
                word &= ~UINT64_C(0) << (from % 64);
            }
            if (word) {
                return p * RT_BITS_PAGE + w * 64 + (size_t)__builtin_ctzll(word);
            }
        }
    }
    return RT_BITS_NONE;
}

void rt_bits_clear(struct rt_bits *b) {
    for (size_t p = 0; p < b->n; p++) {
        free(b->pages[p]);
    }
    free(b->pages);
    *b = (struct rt_bits){0};
}
