/* A set of slot numbers as pages of bits (bits.h).  Runs on the thread that owns the set. */
#include "runtime/train/ps/shard/bits.h"

#include "common/mem.h"

enum { WORDS = SHARD_BITS_PAGE / 64 };

static void grow(struct shard_bits *b, size_t n) {
    if (n > b->n) {
        size_t to = n > 2 * b->n ? n : 2 * b->n;
        b->pages = co_xrealloc(b->pages, to, sizeof(*b->pages));
        for (size_t i = b->n; i < to; i++) {
            b->pages[i] = NULL;
        }
        b->n = to;
    }
}

void shard_bits_add(struct shard_bits *b, size_t i) {
    size_t p = i / SHARD_BITS_PAGE;
    grow(b, p + 1);
    if (!b->pages[p]) {
        b->pages[p] = co_xcalloc(WORDS, sizeof(uint64_t));
    }
    b->pages[p][i % SHARD_BITS_PAGE / 64] |= UINT64_C(1) << (i % 64);
}

void shard_bits_remove(struct shard_bits *b, size_t i) {
    if (shard_bits_has(b, i)) {
        b->pages[i / SHARD_BITS_PAGE][i % SHARD_BITS_PAGE / 64] &= ~(UINT64_C(1) << (i % 64));
    }
}

void shard_bits_join(struct shard_bits *b, struct shard_bits *other) {
    grow(b, other->n);
    for (size_t p = 0; p < other->n; p++) {
        if (!b->pages[p]) {
            b->pages[p] = co_steal_ptr(other->pages[p]);
        }
        for (size_t w = 0; other->pages[p] && w < WORDS; w++) {
            b->pages[p][w] |= other->pages[p][w];
        }
    }
    shard_bits_clear(other);
}

size_t shard_bits_next(const struct shard_bits *b, size_t from) {
    for (size_t p = from / SHARD_BITS_PAGE; p < b->n; p++, from = p * SHARD_BITS_PAGE) {
        for (size_t w = from % SHARD_BITS_PAGE / 64; b->pages[p] && w < WORDS; w++) {
            uint64_t word = b->pages[p][w];
            if (p * SHARD_BITS_PAGE + w * 64 < from) {
                word &= ~UINT64_C(0) << (from % 64);
            }
            if (word) {
                return p * SHARD_BITS_PAGE + w * 64 + (size_t)__builtin_ctzll(word);
            }
        }
    }
    return SHARD_BITS_NONE;
}

void shard_bits_clear(struct shard_bits *b) {
    for (size_t p = 0; p < b->n; p++) {
        free(b->pages[p]);
    }
    free(b->pages);
    *b = (struct shard_bits){0};
}
