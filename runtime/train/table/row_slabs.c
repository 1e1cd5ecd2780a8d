/* Slabs of rows: hands out slots, keeps the list of free ones, and runs the clock (row_slabs.h). */
#include "runtime/train/table/row_slabs.h"

#include "common/mem.h"

enum {
    SLAB_BYTES = 64 << 10,
    SINGLE = 16, /* a small table's slabs; an area would only take address space */
};
#define SLOTS_MAX (TABLE_SLOT_NONE - 1)

void table_rows_init(struct table_rows *r, uint32_t stride, struct table_budget *budget) {
    *r = (struct table_rows){.budget = budget, .stride = stride, .free = TABLE_SLOT_NONE};
    while ((size_t)stride << (r->shift + 1) <= SLAB_BYTES) {
        r->shift++;
    }
    r->words = ((1U << r->shift) + 63) / 64;
}

void table_rows_clock(struct table_rows *r) {
    r->marks = r->words;
    r->words *= 2;
}

void table_rows_done(struct table_rows *r) {
    for (uint32_t i = 0; i < r->n_single; i++) {
        free(r->slabs[i]);
    }
    free(r->slabs);
    table_areas_done(&r->areas);
    table_budget_give(r->budget, r->bytes);
}

static size_t slab_bytes(const struct table_rows *r) {
    return 8UL * r->words + ((size_t)r->stride << r->shift);
}

/* Adds a slab.  The caller has taken its size from the budget. */
static int add_slab(struct table_rows *r, struct co_err *err) {
    size_t size = slab_bytes(r);
    void *fresh = NULL;
    bool single = r->n_slabs < SINGLE || size > TABLE_AREA_PIECE_MAX;
    int rc = single ? co_try_alloc(1, size, size, "rows", &fresh, err)
                    : table_areas_cut(&r->areas, size, &fresh, err);
    if (rc < 0) {
        table_budget_give(r->budget, size);
        return rc;
    }
    if (r->n_slabs == r->cap_slabs) {
        r->cap_slabs = r->cap_slabs ? r->cap_slabs * 2 : 16;
        r->slabs = co_xrealloc(r->slabs, r->cap_slabs, sizeof(uint64_t *));
    }
    r->bytes += size;
    r->n_single += single;
    r->slabs[r->n_slabs++] = fresh;
    return 0;
}

static uint64_t *word_of(const struct table_rows *r, uint32_t slot) {
    uint32_t in = slot & ((1U << r->shift) - 1);
    return &r->slabs[slot >> r->shift][in / 64];
}

static uint64_t bit_of(uint32_t slot) {
    return 1ULL << (slot % 64);
}

int table_rows_add(struct table_rows *r, uint64_t id, uint32_t *ret_slot, struct co_err *err) {
    uint32_t slot = r->free;
    if (slot != TABLE_SLOT_NONE) {
        memcpy(&r->free, table_rows_at(r, slot), sizeof(r->free));
    } else {
        /* The last two numbers are not slots: TABLE_SLOT_NONE, and one that the index cannot hold.
         */
        if (r->used >= SLOTS_MAX) {
            return co_err_set(err, CO_NORESOURCE,
                "%u rows are the most that a shard of a table holds; use more servers or shards",
                r->used);
        }
        if (r->used >> r->shift >= r->n_slabs) {
            CO_TRY(table_budget_take(r->budget, slab_bytes(r), err));
            CO_TRY(add_slab(r, err));
        }
        slot = r->used++;
    }
    unsigned char *row = table_rows_at(r, slot);
    memcpy(row, &id, sizeof(id));
    memset(row + sizeof(id), 0, r->stride - sizeof(id));
    *word_of(r, slot) |= bit_of(slot);
    if (r->marks > 0) {
        table_rows_mark(r, slot);
    }
    r->live++;
    *ret_slot = slot;
    return 0;
}

void table_rows_drop(struct table_rows *r, uint32_t slot) {
    *word_of(r, slot) &= ~bit_of(slot);
    memcpy(table_rows_at(r, slot), &r->free, sizeof(r->free));
    r->free = slot;
    r->live--;
}

void table_rows_clear(struct table_rows *r) {
    uint32_t slabs = r->used == 0 ? 0 : ((r->used - 1) >> r->shift) + 1;
    for (uint32_t i = 0; i < slabs; i++) {
        memset(r->slabs[i], 0, 8UL * r->words);
    }
    r->used = r->live = 0;
    r->free = TABLE_SLOT_NONE;
}

bool table_rows_has(const struct table_rows *r, uint32_t slot) {
    return *word_of(r, slot) & bit_of(slot);
}

uint32_t table_rows_next(const struct table_rows *r, uint32_t from, uint32_t end) {
    end = end < r->used ? end : r->used;
    while (from < end) {
        uint64_t word = *word_of(r, from) >> (from % 64);
        if (word) {
            from += (uint32_t)__builtin_ctzll(word);
            return from < end ? from : TABLE_SLOT_NONE;
        }
        /* last: of the slab.  It wraps to 0 after the last possible slot. */
        uint32_t next = (from | 63) + 1, last = ((from >> r->shift) + 1) << r->shift;
        from = next - 1 < last - 1 ? next : last;
        if (from == 0) {
            break;
        }
    }
    return TABLE_SLOT_NONE;
}

/* ---- the clock ---- */

uint64_t table_rows_room(const struct table_rows *r) {
    uint64_t slots = (uint64_t)r->n_slabs << r->shift;
    return (slots < SLOTS_MAX ? slots : SLOTS_MAX) - r->live;
}

bool table_rows_grow(struct table_rows *r, size_t most) {
    return (uint64_t)r->n_slabs << r->shift < SLOTS_MAX &&
           table_budget_try(r->budget, slab_bytes(r), most) && add_slab(r, NULL) == 0;
}

/* The slots in a word of bits: fewer than 64 if a slab has fewer rows. */
static uint32_t word_slots(const struct table_rows *r) {
    return r->shift < 6 ? 1U << r->shift : 64;
}

uint64_t table_rows_round(const struct table_rows *r) {
    return ((uint64_t)r->used + word_slots(r) - 1) / word_slots(r);
}

uint32_t table_rows_idle(struct table_rows *r, uint32_t *ret_slots, uint32_t n, uint64_t *words) {
    uint32_t found = 0;
    while (*words > 0 && found < n) {
        r->hand = r->hand < r->used ? r->hand : 0;
        uint32_t first = r->hand - r->hand % 64;
        uint64_t *live = word_of(r, r->hand), *marks = live + r->marks;
        uint64_t idle = *live & ~*marks;
        for (; idle && found < n; idle &= idle - 1) {
            ret_slots[found++] = first + (uint32_t)__builtin_ctzll(idle);
        }
        if (idle) {
            break; /* n were found; the hand stays, as this word has more */
        }
        *marks = 0;
        r->hand += word_slots(r);
        (*words)--;
    }
    return found;
}
