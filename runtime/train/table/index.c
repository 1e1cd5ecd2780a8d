/* The index: searching, adding and dropping entries, and how segments grow and split. */
#include "runtime/train/table/index.h"

#include <sys/mman.h>

#include "common/mem.h"

enum {
    PAGE = TABLE_PAGE_BUCKETS * sizeof(struct table_bucket),
    ENTRIES = TABLE_PAGE_BUCKETS * TABLE_BUCKET, /* of a page */
    FILL = 86,                           /* percent of entries in use at which a segment grows */
    REGION = TABLE_SEGMENT_PAGES * PAGE, /* address space of a segment */
    AREA = 32,                           /* regions mapped at a time; the first holds the link */
    DEPTH_MAX = 22,                      /* 20 are enough for 4 G rows, unless hashes collide */
};

void table_index_init(struct table_index *x, struct table_budget *budget) {
    *x = (struct table_index){.budget = budget};
}

static size_t directory_bytes(uint32_t depth) {
    return sizeof(struct table_segment *) << depth;
}

void table_index_done(struct table_index *x) {
    size_t n = x->directory ? 1UL << x->depth : 0;
    for (size_t i = 0; i < n;) {
        struct table_segment *g = x->directory[i];
        i += 1UL << (x->depth - g->depth);
        free(g);
    }
    free(x->directory);
    while (x->areas) {
        void *next;
        memcpy(&next, x->areas, sizeof(next));
        (void)munmap(x->areas, (size_t)AREA * REGION);
        x->areas = next;
    }
    table_budget_give(x->budget, x->bytes);
}

/* ---- one segment ---- */

static uint32_t next_bucket(const struct table_segment *g, uint32_t b) {
    return b + 1 == g->n ? 0 : b + 1;
}

uint32_t table_index_find(
    const struct table_index *x, const struct table_rows *rows, uint64_t hash, uint64_t id) {
    if (!x->directory) {
        return TABLE_SLOT_NONE;
    }
    const struct table_segment *g = table_index_segment(x, hash);
    uint32_t tag = table_index_tag(hash);
    for (uint32_t b = table_segment_home(g, tag); g->n > 0; b = next_bucket(g, b)) {
        const struct table_bucket *k = &g->buckets[b];
        for (uint32_t bits = table_bucket_match(k, tag); bits; bits &= bits - 1) {
            uint32_t slot = k->slot[__builtin_ctz(bits)] - 1;
            if (slot != TABLE_SLOT_NONE && table_rows_id(rows, slot) == id) {
                return slot;
            }
        }
        if (!table_bucket_full(k)) {
            break;
        }
    }
    return TABLE_SLOT_NONE;
}

static uint32_t bucket_used(const struct table_bucket *b) {
    uint32_t n = 0;
    while (n < TABLE_BUCKET && b->slot[n]) {
        n++;
    }
    return n;
}

static void add_entry(struct table_segment *g, uint32_t tag, uint32_t slot) {
    uint32_t b = table_segment_home(g, tag);
    while (table_bucket_full(&g->buckets[b])) {
        b = next_bucket(g, b);
    }
    uint32_t i = bucket_used(&g->buckets[b]);
    g->buckets[b].tag[i] = tag;
    g->buckets[b].slot[i] = slot + 1;
    g->used++;
}

/* Removes entry i from a bucket with n entries. */
static void cut_entry(struct table_bucket *b, uint32_t i, uint32_t n) {
    b->tag[i] = b->tag[n - 1];
    b->slot[i] = b->slot[n - 1];
    b->tag[n - 1] = 0;
    b->slot[n - 1] = 0;
}

/* Finds an entry of bucket `from` that may move to the earlier bucket `to`: one whose probing from
 * its home passed `to`.  Returns its index; TABLE_BUCKET: none. */
static uint32_t home_slot(const struct table_segment *g, uint32_t from, uint32_t n, uint32_t to) {
    uint32_t way = (from + g->n - to) % g->n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t home = table_segment_home(g, g->buckets[from].tag[i]);
        if ((from + g->n - home) % g->n >= way) {
            return i;
        }
    }
    return TABLE_BUCKET;
}

/* An entry of a full bucket was erased.  Searches now end there, so later entries that probed past
 * it must move up. */
static void shift_back(struct table_segment *g, uint32_t gap) {
    for (uint32_t b = next_bucket(g, gap); b != gap; b = next_bucket(g, b)) {
        struct table_bucket *k = &g->buckets[b];
        uint32_t n = bucket_used(k), i = home_slot(g, b, n, gap);
        if (i < TABLE_BUCKET) {
            g->buckets[gap].tag[TABLE_BUCKET - 1] = k->tag[i];
            g->buckets[gap].slot[TABLE_BUCKET - 1] = k->slot[i];
            cut_entry(k, i, n);
            gap = b;
        }
        if (n < TABLE_BUCKET) {
            return;
        }
    }
}

void table_index_drop(struct table_index *x, uint64_t hash, uint32_t slot) {
    struct table_segment *g = x->directory[hash >> (64 - x->depth)];
    for (uint32_t b = table_segment_home(g, table_index_tag(hash));; b = next_bucket(g, b)) {
        struct table_bucket *k = &g->buckets[b];
        uint32_t n = bucket_used(k), i = 0;
        while (i < n && k->slot[i] != slot + 1) {
            i++;
        }
        if (i < n) {
            cut_entry(k, i, n);
            g->used--;
            if (n == TABLE_BUCKET) {
                shift_back(g, b);
            }
            return;
        }
    }
}

size_t table_index_range(
    const struct table_index *x, uint64_t from, uint64_t to, uint32_t *ret_slots, size_t n) {
    size_t found = 0, segments = x->directory ? 1UL << x->depth : 0;
    for (size_t i = segments > 0 ? from >> (TABLE_HASH_BITS - x->depth) : 0; i < segments;) {
        const struct table_segment *g = x->directory[i];
        uint64_t top = (uint64_t)i >> (x->depth - TABLE_HASH_TOP) << 32;
        if ((uint64_t)i << (TABLE_HASH_BITS - x->depth) >= to) {
            break;
        }
        for (uint32_t k = 0; k < g->n * TABLE_BUCKET; k++) {
            const struct table_bucket *b = &g->buckets[k / TABLE_BUCKET];
            uint64_t bits = top | b->tag[k % TABLE_BUCKET];
            if (b->slot[k % TABLE_BUCKET] && bits >= from && bits < to) {
                if (found < n) {
                    ret_slots[found] = b->slot[k % TABLE_BUCKET] - 1;
                }
                found++;
            }
        }
        i = (i | ((1UL << (x->depth - g->depth)) - 1)) + 1;
    }
    return found;
}

void table_index_clear(struct table_index *x) {
    size_t n = x->directory ? 1UL << x->depth : 0;
    for (size_t i = 0; i < n;) {
        struct table_segment *g = x->directory[i];
        i += 1UL << (x->depth - g->depth);
        if (g->used > 0) {
            memset(g->buckets, 0, g->n * sizeof(*g->buckets));
            g->used = 0;
        }
    }
}

/* ---- growth ---- */

/* The pages that a number of entries needs. */
static uint32_t pages_for(uint32_t entries) {
    uint32_t pages = entries / (ENTRIES * FILL / 100) + 1;
    return pages < TABLE_SEGMENT_PAGES ? pages : TABLE_SEGMENT_PAGES;
}

/* Rebuilds the segment with that many pages from the buckets `from`, all of whose entries belong to
 * it.  The fill of each bucket is counted in a separate array: reading back buckets that were just
 * written would stall the processor. */
static void fill_segment(
    struct table_segment *g, uint32_t pages, const struct table_bucket *from, uint32_t n_from) {
    unsigned char count[TABLE_SEGMENT_PAGES * TABLE_PAGE_BUCKETS] = {0};
    g->n = pages * TABLE_PAGE_BUCKETS;
    g->used = 0;
    memset(g->buckets, 0, g->n * sizeof(*g->buckets));
    for (uint32_t k = 0; k < n_from; k++) {
        for (uint32_t i = 0; i < TABLE_BUCKET && from[k].slot[i]; i++) {
            uint32_t b = table_segment_home(g, from[k].tag[i]);
            while (count[b] == TABLE_BUCKET) {
                b = next_bucket(g, b);
            }
            g->buckets[b].tag[count[b]] = from[k].tag[i];
            g->buckets[b].slot[count[b]++] = from[k].slot[i];
            g->used++;
        }
    }
}

/* Maps an area of zero pages.  No huge pages: often only few pages of an area are ever used. */
static int map_area(struct table_index *x, struct co_err *err) {
    void *p = mmap(NULL, (size_t)AREA * REGION, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return co_err_set(err, CO_NOMEMORY, "no memory for an index of rows");
    }
    (void)madvise(p, (size_t)AREA * REGION, MADV_NOHUGEPAGE);
    memcpy(p, &x->areas, sizeof(x->areas));
    x->areas = p;
    x->area = (struct table_bucket *)p + REGION / sizeof(struct table_bucket);
    x->area_left = AREA - 1;
    return 0;
}

/* A segment with no page in use. */
static int new_segment(
    struct table_index *x, uint32_t depth, struct table_segment **ret, struct co_err *err) {
    if (x->area_left == 0) {
        CO_TRY(map_area(x, err));
    }
    struct table_segment *g = co_xcalloc(1, sizeof(*g));
    g->depth = depth;
    g->buckets = x->area;
    x->area += REGION / sizeof(struct table_bucket);
    x->area_left--;
    *ret = g;
    return 0;
}

static int take(struct table_index *x, size_t bytes, struct co_err *err) {
    int rc = table_budget_take(x->budget, bytes, err);
    x->bytes += rc < 0 ? 0 : bytes;
    return rc;
}

static void give(struct table_index *x, size_t bytes) {
    x->bytes -= bytes;
    table_budget_give(x->budget, bytes);
}

static int make_directory(struct table_index *x, struct co_err *err) {
    CO_TRY(take(x, directory_bytes(TABLE_HASH_TOP), err));
    int rc = map_area(x, err);
    if (rc < 0) {
        give(x, directory_bytes(TABLE_HASH_TOP));
        return rc;
    }
    x->depth = TABLE_HASH_TOP;
    x->directory = co_xcalloc(1UL << x->depth, sizeof(*x->directory));
    for (uint32_t i = 0; i < 1U << x->depth; i++) {
        CO_TRY(new_segment(x, x->depth, &x->directory[i], err)); /* the area has room for all */
    }
    return 0;
}

static int double_directory(struct table_index *x, struct co_err *err) {
    if (x->depth == DEPTH_MAX) {
        return co_err_set(err, CO_NORESOURCE, "too many ids of a shard's rows have the same hash");
    }
    CO_TRY(take(x, directory_bytes(x->depth), err));
    x->depth++;
    struct table_segment **fresh = co_xmalloc(directory_bytes(x->depth));
    for (size_t i = 0; i < 1UL << x->depth; i++) {
        fresh[i] = x->directory[i / 2];
    }
    free(x->directory);
    x->directory = fresh;
    return 0;
}

/* Adds a page to the segment. */
static int grow_segment(struct table_index *x, struct table_segment *g, struct co_err *err) {
    CO_TRY(take(x, PAGE, err));
    uint32_t pages = g->n / TABLE_PAGE_BUCKETS;
    CO_AUTOFREE struct table_bucket *old = co_xmalloc((size_t)(pages + 1) * PAGE);
    memcpy(old, g->buckets, (size_t)pages * PAGE);
    fill_segment(g, pages + 1, old, g->n);
    return 0;
}

/* Copies the entries whose next hash bit is `bit` to ret, and returns their number.  copy: a copy
 * of the segment's buckets. */
static uint32_t pick(const struct table_segment *g, const struct table_bucket *copy, uint32_t bit,
    struct table_bucket *ret) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n; k++) {
        for (uint32_t i = 0; i < TABLE_BUCKET && copy[k].slot[i]; i++) {
            if (copy[k].tag[i] << (g->depth - TABLE_HASH_TOP) >> 31 == bit) {
                ret[n / TABLE_BUCKET].tag[n % TABLE_BUCKET] = copy[k].tag[i];
                ret[n / TABLE_BUCKET].slot[n % TABLE_BUCKET] = copy[k].slot[i];
                n++;
            }
        }
    }
    for (uint32_t i = n; i % TABLE_BUCKET; i++) {
        ret[i / TABLE_BUCKET].slot[i % TABLE_BUCKET] = 0;
    }
    return n;
}

/* Moves the upper half of a full segment to a new one of as many pages as it needs. */
static void split(struct table_segment *g, struct table_segment *upper) {
    CO_AUTOFREE struct table_bucket *copy = co_xmalloc(2UL * REGION);
    struct table_bucket *half = copy + REGION / sizeof(*copy);
    memcpy(copy, g->buckets, REGION);
    uint32_t n_upper = pick(g, copy, 1, half);
    fill_segment(upper, pages_for(n_upper), half, (n_upper + TABLE_BUCKET - 1) / TABLE_BUCKET);
    uint32_t n_lower = pick(g, copy, 0, half);
    g->depth++;
    fill_segment(g, pages_for(n_lower), half, (n_lower + TABLE_BUCKET - 1) / TABLE_BUCKET);
    if (g->n < TABLE_SEGMENT_PAGES * TABLE_PAGE_BUCKETS) {
        (void)madvise(g->buckets + g->n, REGION - g->n * sizeof(*g->buckets), MADV_DONTNEED);
    }
}

static int split_segment(
    struct table_index *x, struct table_segment *g, uint64_t hash, struct co_err *err) {
    if (g->depth == x->depth) {
        CO_TRY(double_directory(x, err));
    }
    struct table_segment *upper = NULL;
    CO_TRY(new_segment(x, g->depth + 1, &upper, err));
    /* Rounding both halves up to pages may take two pages more. */
    int rc = take(x, 2UL * PAGE, err);
    if (rc < 0) {
        free(upper);
        x->area -= REGION / sizeof(struct table_bucket);
        x->area_left++;
        return rc;
    }
    split(g, upper);
    give(x, (2UL + TABLE_SEGMENT_PAGES) * PAGE - (g->n + upper->n) * sizeof(*g->buckets));
    size_t n = 1UL << (x->depth - g->depth);
    size_t first = (hash >> (64 - g->depth) | 1) << (x->depth - g->depth);
    for (size_t i = first; i < first + n; i++) {
        x->directory[i] = upper;
    }
    return 0;
}

int table_index_add(struct table_index *x, uint64_t hash, uint32_t slot, struct co_err *err) {
    int rc = x->directory ? 0 : make_directory(x, err);
    while (rc == 0) {
        struct table_segment *g = x->directory[hash >> (64 - x->depth)];
        if (g->used < g->n * (TABLE_BUCKET * FILL) / 100) {
            add_entry(g, table_index_tag(hash), slot);
            return 0;
        }
        rc = g->n < TABLE_SEGMENT_PAGES * TABLE_PAGE_BUCKETS ? grow_segment(x, g, err)
                                                             : split_segment(x, g, hash, err);
    }
    return rc;
}
