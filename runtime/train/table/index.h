/* Maps an id to its slot: an extendible hash table that grows in small steps, so no insert is slow.
 *
 *     directory    [2^depth] pointers, by the first bits of the id's hash; several may be equal
 *     segment      1 .. 16 pages of buckets; its depth says how many first bits its ids share
 *     page         64 buckets
 *     bucket       tag u32[8] | slot + 1 u32[8]; 0 is empty, used entries come first
 *
 *     hash: | depth bits: the segment | the bucket, as a fraction of all | rest |
 *              ^ 3 bits, then 32 of tag: enough to know an entry's bucket at any depth
 *
 * An entry is in its home bucket or, when that is full, in the next one with room, wrapping around
 * (linear probing).  So a search ends at the first bucket that is not full, and erasing an entry
 * moves later ones up.  A segment that is too full gets one more page, in place; with 16 pages it
 * is split by the next bit of the hash.  Either is one pass over at most 64 KiB.  Neither reads the
 * rows: the tags suffice. */
#pragma once

#include "runtime/train/table/row_slabs.h"

enum {
    TABLE_BUCKET = 8,
    TABLE_PAGE_BUCKETS = 64,
    TABLE_SEGMENT_PAGES = 16,
    TABLE_HASH_TOP = 3,
    TABLE_HASH_BITS = TABLE_HASH_TOP + 32, /* bits of its hash that an entry has */
};

struct table_bucket {
    uint32_t tag[TABLE_BUCKET];
    uint32_t slot[TABLE_BUCKET];
};

struct table_segment {
    struct table_bucket
        *buckets;  /* space for TABLE_SEGMENT_PAGES pages; the first ones are in use */
    uint32_t n;    /* buckets */
    uint32_t used; /* entries */
    uint32_t depth;
};

struct table_index {
    struct table_budget *budget;
    struct table_segment **directory; /* [2^depth]; NULL: nothing was ever added */
    uint32_t depth;
    struct table_bucket
        *area;          /* segments are cut from it; an area's first page links to the next */
    uint32_t area_left; /* segments */
    void *areas;
    size_t bytes; /* taken from the budget */
};

void table_index_init(struct table_index *x, struct table_budget *budget);
void table_index_done(struct table_index *x);

uint32_t table_index_find(
    const struct table_index *x, const struct table_rows *rows, uint64_t hash, uint64_t id);
/* The id must not be in the index. */
CO_MUST_CHECK int table_index_add(
    struct table_index *x, uint64_t hash, uint32_t slot, struct co_err *err);
/* Slots of up to n ids whose hashes' first TABLE_HASH_BITS bits are in from .. to - 1, in no order.
 * Returns how many such ids there are, which may be more than n. */
size_t table_index_range(
    const struct table_index *x, uint64_t from, uint64_t to, uint32_t *ret_slots, size_t n);
/* The entry must be in the index. */
void table_index_drop(struct table_index *x, uint64_t hash, uint32_t slot);
/* Removes all entries and keeps the memory. */
void table_index_clear(struct table_index *x);

/* The finaliser of MurmurHash3, which is in the public domain.  It must differ from the hash that
 * places ids on servers and shards: all ids of a shard have many bits of that in common. */
static inline uint64_t table_index_hash(uint64_t id) {
    id = (id ^ (id >> 33)) * 0xff51afd7ed558ccdULL;
    id = (id ^ (id >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return id ^ (id >> 33);
}

static inline const struct table_segment *table_index_segment(
    const struct table_index *x, uint64_t hash) {
    return x->directory[hash >> (64 - x->depth)];
}

static inline uint32_t table_index_tag(uint64_t hash) {
    return (uint32_t)(hash >> (32 - TABLE_HASH_TOP));
}

/* The inverse of table_index_hash. */
static inline uint64_t table_index_unhash(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * 0x9cb4b2f8129337dbULL;
    hash = (hash ^ (hash >> 33)) * 0x4f74430c22a54005ULL;
    return hash ^ (hash >> 33);
}

/* The number of a tag's home bucket. */
static inline uint32_t table_segment_home(const struct table_segment *g, uint32_t tag) {
    uint32_t fraction = tag << (g->depth - TABLE_HASH_TOP);
    return (uint32_t)((uint64_t)fraction * g->n >> 32);
}

/* A bit mask of the entries with this tag.  An empty entry may match, as its tag is 0. */
static inline uint32_t table_bucket_match(const struct table_bucket *b, uint32_t tag) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < TABLE_BUCKET; i++) {
        bits |= (uint32_t)(b->tag[i] == tag) << i;
    }
    return bits;
}

static inline bool table_bucket_full(const struct table_bucket *b) {
    return b->slot[TABLE_BUCKET - 1] != 0;
}
