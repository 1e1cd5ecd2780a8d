/* A store: the rows (row_slabs.h), the index from ids to them (index.h), and batched lookups. */
#include "runtime/train/table/store.h"

#include "runtime/train/table/index.h"
#include "runtime/train/table/narrow.h"

enum { GROUP = 32, LINE = 64 };

struct table_store {
    struct table_store_shape shape;
    uint32_t values_at, state_at; /* offsets in a row */
    struct table_rows rows;
    struct table_index index;
    uint64_t random;
};

struct table_store *table_store_new(
    const struct table_store_shape *shape, struct table_budget *budget) {
    struct table_store *s = co_xcalloc(1, sizeof(*s));
    s->shape = *shape;
    s->values_at = (uint32_t)sizeof(uint64_t) + shape->head;
    size_t values = (shape->dim * table_storage_size(shape->storage) + 3) / 4 * 4;
    s->state_at = s->values_at + (uint32_t)values;
    table_rows_init(&s->rows, s->state_at + shape->state * (uint32_t)sizeof(float), budget);
    table_index_init(&s->index, budget);
    return s;
}

void table_store_free(struct table_store *s) {
    if (s) {
        table_index_done(&s->index);
        table_rows_done(&s->rows);
        free(s);
    }
}

uint32_t table_store_slots(const struct table_store *s) {
    return s->rows.used;
}

size_t table_store_rows(const struct table_store *s) {
    return s->rows.live;
}

size_t table_store_bytes(const struct table_store *s) {
    return s->rows.bytes + s->index.bytes;
}

const struct table_store_shape *table_store_shape(const struct table_store *s) {
    return &s->shape;
}

/* ---- find ---- */

uint32_t table_store_find(const struct table_store *s, uint64_t id) {
    return table_index_find(&s->index, &s->rows, table_index_hash(id), id);
}

/* Always inline: gcc 12 thinks that a function which only prefetches has no effect, and drops calls
 * to it. */
__attribute__((always_inline)) static inline void fetch_row(
    const struct table_store *s, uint32_t slot) {
    if (slot == TABLE_SLOT_NONE) {
        return;
    }
    const unsigned char *row = table_rows_at(&s->rows, slot);
    for (uint32_t at = 0; at < s->rows.stride && at < 8 * LINE; at += LINE) {
        __builtin_prefetch(row + at);
    }
    __builtin_prefetch(row + s->rows.stride - 1);
}

void table_store_fetch(const struct table_store *s, uint32_t slot) {
    fetch_row(s, slot);
}

/* A search that has begun.  A group of them takes turns, so that their cache misses overlap. */
struct search {
    uint64_t hash;
    const struct table_segment *segment;
    uint32_t tag, bucket;
    size_t i; /* which id of the group */
};

/* Whether rows are prefetched after a group's search, by fetch_long. */
static bool is_long(const struct table_store *s) {
    return s->rows.stride > 2 * LINE;
}

/* The first lines of all rows before the others: each is a walk of the page tables, the processor
 * walks for several at once, and the many prefetches of a long row would keep it from getting to
 * the next walk.  The others only into the second cache: the first one has no room for a group, and
 * who uses the rows prefetches them again.  Always inline: as fetch_row. */
__attribute__((always_inline)) static inline void fetch_long(
    const struct table_store *s, const uint32_t *slots, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (slots[i] != TABLE_SLOT_NONE) {
            __builtin_prefetch(table_rows_at(&s->rows, slots[i]));
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (slots[i] == TABLE_SLOT_NONE) {
            continue;
        }
        const unsigned char *row = table_rows_at(&s->rows, slots[i]);
        for (uint32_t at = LINE; at < s->rows.stride && at < 8 * LINE; at += LINE) {
            __builtin_prefetch(row + at, 0, 2);
        }
        __builtin_prefetch(row + s->rows.stride - 1, 0, 2);
    }
}

/* Searches one bucket.  Takes the first entry with the id's tag for its row and prefetches that;
 * the caller checks the id, which is wrong less than once in hundreds.  Without such an entry,
 * prefetches the next bucket.  Returns whether the search continues. */
static bool step(const struct table_store *s, struct search *f, uint32_t *ret_slot) {
    const struct table_bucket *b = &f->segment->buckets[f->bucket];
    uint32_t bits = table_bucket_match(b, f->tag);
    *ret_slot = bits ? b->slot[__builtin_ctz(bits)] - 1 : TABLE_SLOT_NONE;
    if (*ret_slot != TABLE_SLOT_NONE) {
        if (!is_long(s)) {
            fetch_row(s, *ret_slot);
        }
        return false;
    }
    f->bucket = f->bucket + 1 == f->segment->n ? 0 : f->bucket + 1;
    __builtin_prefetch(&f->segment->buckets[f->bucket]);
    return table_bucket_full(b);
}

static void find_group(
    const struct table_store *s, const uint64_t *ids, size_t n, uint32_t *ret_slots) {
    struct search search[GROUP];
    uint32_t going = 0;
    for (size_t i = 0; i < n; i++) {
        struct search *f = &search[going];
        f->hash = table_index_hash(ids[i]);
        f->segment = table_index_segment(&s->index, f->hash);
        f->tag = table_index_tag(f->hash);
        f->bucket = table_segment_home(f->segment, f->tag);
        f->i = i;
        ret_slots[i] = TABLE_SLOT_NONE;
        __builtin_prefetch(&f->segment->buckets[f->bucket]);
        going += f->segment->n > 0;
    }
    while (going > 0) {
        uint32_t left = 0;
        for (uint32_t k = 0; k < going; k++) {
            struct search f = search[k];
            if (step(s, &f, &ret_slots[f.i])) {
                search[left++] = f;
            }
        }
        going = left;
    }
    if (is_long(s)) {
        fetch_long(s, ret_slots, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (ret_slots[i] != TABLE_SLOT_NONE && table_rows_id(&s->rows, ret_slots[i]) != ids[i]) {
            ret_slots[i] = table_store_find(s, ids[i]);
        }
    }
}

void table_store_find_many(
    const struct table_store *s, const uint64_t *ids, size_t n, uint32_t *ret_slots) {
    if (s->rows.live == 0) {
        memset(ret_slots, 0xff, n * sizeof(*ret_slots));
        return;
    }
    for (size_t i = 0; i < n; i += GROUP) {
        find_group(s, ids + i, n - i < GROUP ? n - i : GROUP, ret_slots + i);
    }
}

/* ---- make ---- */

static int add(
    struct table_store *s, uint64_t id, uint64_t hash, uint32_t *ret, struct co_err *err) {
    uint32_t slot;
    CO_TRY(table_rows_add(&s->rows, id, &slot, err));
    int rc = table_index_add(&s->index, hash, slot, err);
    if (rc < 0) {
        table_rows_drop(&s->rows, slot);
        return rc;
    }
    *ret = slot;
    return 0;
}

int table_store_make(
    struct table_store *s, uint64_t id, uint32_t *ret_slot, bool *ret_new, struct co_err *err) {
    uint64_t hash = table_index_hash(id);
    uint32_t slot = table_index_find(&s->index, &s->rows, hash, id);
    bool fresh = slot == TABLE_SLOT_NONE;
    if (fresh) {
        CO_TRY(add(s, id, hash, &slot, err));
    }
    *ret_slot = slot;
    *ret_new = fresh;
    return 0;
}

/* Removes a row and its index entry. */
static void drop(struct table_store *s, uint32_t slot) {
    table_index_drop(&s->index, table_index_hash(table_rows_id(&s->rows, slot)), slot);
    table_rows_drop(&s->rows, slot);
}

int table_store_make_many(struct table_store *s, const uint64_t *ids, size_t n, uint32_t *ret_slots,
    bool *ret_new, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (i % GROUP == 0) {
            table_store_find_many(s, ids + i, n - i < GROUP ? n - i : GROUP, ret_slots + i);
        }
        ret_new[i] = false;
        int rc = ret_slots[i] == TABLE_SLOT_NONE
                     ? table_store_make(s, ids[i], &ret_slots[i], &ret_new[i], err)
                     : 0;
        if (rc < 0) {
            while (i-- > 0) {
                if (ret_new[i]) {
                    drop(s, ret_slots[i]);
                }
            }
            return rc;
        }
    }
    return 0;
}

/* ---- erase ---- */

void table_store_erase(struct table_store *s, uint32_t slot) {
    drop(s, slot);
}

/* Few rows in a large index are erased one by one: clearing the index would take longer. */
void table_store_clear(struct table_store *s) {
    if ((size_t)s->rows.live * 4 * LINE >= s->index.bytes) {
        table_index_clear(&s->index);
    } else {
        for (uint32_t slot = table_store_next(s, 0); slot != TABLE_SLOT_NONE;
             slot = table_store_next(s, slot + 1)) {
            table_index_drop(&s->index, table_index_hash(table_rows_id(&s->rows, slot)), slot);
        }
    }
    table_rows_clear(&s->rows);
}

void table_store_empty(struct table_store *s) {
    const uint32_t stride = s->rows.stride;
    struct table_budget *budget = s->rows.budget;
    bool clock = s->rows.marks > 0;
    table_index_done(&s->index);
    table_rows_done(&s->rows);
    table_rows_init(&s->rows, stride, budget);
    table_index_init(&s->index, budget);
    if (clock) {
        table_rows_clock(&s->rows);
    }
}

/* ---- a row ---- */

uint64_t table_store_id(const struct table_store *s, uint32_t slot) {
    return table_rows_id(&s->rows, slot);
}

void *table_store_head(const struct table_store *s, uint32_t slot) {
    return table_rows_at(&s->rows, slot) + sizeof(uint64_t);
}

void *table_store_values(const struct table_store *s, uint32_t slot) {
    return table_rows_at(&s->rows, slot) + s->values_at;
}

float *table_store_state(const struct table_store *s, uint32_t slot) {
    return (float *)(void *)(table_rows_at(&s->rows, slot) + s->state_at);
}

size_t table_store_body_bytes(const struct table_store *s) {
    return s->rows.stride - sizeof(uint64_t);
}

void *table_store_body(const struct table_store *s, uint32_t slot) {
    return table_rows_at(&s->rows, slot) + sizeof(uint64_t);
}

static unsigned char *in_body(const void *body, uint32_t at) {
    return (unsigned char *)(uintptr_t)body + at - sizeof(uint64_t);
}

void *table_store_body_values(const struct table_store *s, const void *body) {
    return in_body(body, s->values_at);
}

float *table_store_body_state(const struct table_store *s, const void *body) {
    return (float *)(void *)in_body(body, s->state_at);
}

void table_store_body_read(const struct table_store *s, const void *body, float *ret_values) {
    if (s->shape.storage == RT_F32) {
        memcpy(ret_values, in_body(body, s->values_at), s->shape.dim * sizeof(float));
    } else {
        table_widen(s->shape.storage, ret_values, in_body(body, s->values_at), s->shape.dim);
    }
}

void table_store_read(const struct table_store *s, uint32_t slot, float *ret_values) {
    table_store_body_read(s, table_store_body(s, slot), ret_values);
}

static void write_values(
    struct table_store *s, uint32_t slot, const float *values, uint64_t *random) {
    void *to = table_store_values(s, slot);
    if (s->shape.storage == RT_F32) {
        memcpy(to, values, s->shape.dim * sizeof(float));
    } else if (random) {
        table_narrow_at_random(s->shape.storage, to, values, s->shape.dim, random);
    } else {
        table_narrow_within(s->shape.storage, to, values, s->shape.dim);
    }
}

void table_store_write(struct table_store *s, uint32_t slot, const float *values) {
    write_values(s, slot, values, NULL);
}

void table_store_write_update(struct table_store *s, uint32_t slot, const float *values) {
    write_values(s, slot, values, &s->random);
}

/* ---- which rows are in use ---- */

void table_store_clock(struct table_store *s) {
    table_rows_clock(&s->rows);
}

void table_store_mark(struct table_store *s, uint32_t slot) {
    table_rows_mark(&s->rows, slot);
}

uint64_t table_store_room(const struct table_store *s) {
    return table_rows_room(&s->rows);
}

bool table_store_grow(struct table_store *s, size_t most) {
    return table_rows_grow(&s->rows, most);
}

uint64_t table_store_round(const struct table_store *s) {
    return table_rows_round(&s->rows);
}

uint32_t table_store_idle(struct table_store *s, uint32_t *ret_slots, uint32_t n, uint64_t *words) {
    return table_rows_idle(&s->rows, ret_slots, n, words);
}

/* ---- all rows ---- */

size_t table_store_range(
    const struct table_store *s, uint64_t from, uint64_t to, uint32_t *ret_slots, size_t n) {
    return table_index_range(&s->index, from, to, ret_slots, n);
}

bool table_store_has(const struct table_store *s, uint32_t slot) {
    return table_rows_has(&s->rows, slot);
}

uint32_t table_store_next(const struct table_store *s, uint32_t from) {
    return table_rows_next(&s->rows, from, TABLE_SLOT_NONE);
}

uint32_t table_store_next_below(const struct table_store *s, uint32_t from, uint32_t end) {
    return table_rows_next(&s->rows, from, end);
}
