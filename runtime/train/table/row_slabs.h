/* The memory of a store's rows: a slab allocator for blocks of one size, which never move.
 *
 *     slab:  live, 1 bit a row | marks of the clock, likewise | row 0 | row 1 | ...
 *     row:   id | head | values | state        (store.h; here only the id matters)
 *
 * The first slabs are allocated one by one; those of a table that grows are cut from areas
 * (row_area.h), whose memory has huge pages.
 *
 * Row `slot` is number slot % 2^shift of slab slot / 2^shift.  A free slot holds the number of the
 * next free one in place of the id.
 *
 * The clock, which is optional, finds rows that were not used for long.  Each use marks a row.  A
 * hand goes round: rows without a mark are idle, and it removes the marks of the others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/err.h"
#include "runtime/train/table/budget.h"
#include "runtime/train/table/row_area.h"

#define TABLE_SLOT_NONE UINT32_MAX

struct table_rows {
    struct table_budget *budget;
    uint64_t **slabs; /* [n_slabs]: the words of bits, then the rows */
    uint32_t n_slabs, cap_slabs;
    uint32_t n_single; /* slabs before the first one in an area */
    struct table_areas areas;
    uint32_t shift;  /* a slab has 2^shift rows */
    uint32_t words;  /* 64-bit words of bits in a slab, before its rows */
    uint32_t marks;  /* the first of them with the clock's marks; 0: no clock */
    uint32_t hand;   /* the clock's hand: the first slot of a word */
    uint32_t stride; /* bytes of a row, a multiple of 4 */
    uint32_t used;   /* slots that ever held a row */
    uint32_t free;   /* the first free slot, or TABLE_SLOT_NONE */
    uint32_t live;   /* rows */
    size_t bytes;    /* taken from the budget */
};

void table_rows_init(struct table_rows *r, uint32_t stride, struct table_budget *budget);
void table_rows_done(struct table_rows *r);
void table_rows_clock(struct table_rows *r); /* adds a clock; before the first row */

/* Takes a slot for id.  The row is zero after the id. */
CO_MUST_CHECK int table_rows_add(
    struct table_rows *r, uint64_t id, uint32_t *ret_slot, struct co_err *err);
void table_rows_drop(struct table_rows *r, uint32_t slot);
/* Drops all rows. */
void table_rows_clear(struct table_rows *r);

/* Rows that can be added without more memory. */
uint64_t table_rows_room(const struct table_rows *r);
/* Adds a slab, if at most `most` bytes of the budget are used afterwards. */
bool table_rows_grow(struct table_rows *r, size_t most);

/* The words of marks in one round of the hand. */
uint64_t table_rows_round(const struct table_rows *r);
/* Up to n slots of idle rows.  The hand moves on by at most *words words; *words is reduced by as
 * many as it moved. */
uint32_t table_rows_idle(struct table_rows *r, uint32_t *ret_slots, uint32_t n, uint64_t *words);

/* Whether the slot, which must be below `used`, has a row. */
bool table_rows_has(const struct table_rows *r, uint32_t slot);
/* The first slot in from .. end - 1 with a row, or TABLE_SLOT_NONE.  It looks at all bits up to
 * there: whoever asks about one slot calls table_rows_has, and who may stop early gives an end. */
uint32_t table_rows_next(const struct table_rows *r, uint32_t from, uint32_t end);

static inline unsigned char *table_rows_at(const struct table_rows *r, uint32_t slot) {
    unsigned char *first = (unsigned char *)(r->slabs[slot >> r->shift] + r->words);
    return first + (size_t)(slot & ((1U << r->shift) - 1)) * r->stride;
}

static inline uint64_t table_rows_id(const struct table_rows *r, uint32_t slot) {
    uint64_t id;
    memcpy(&id, table_rows_at(r, slot), sizeof(id));
    return id;
}

/* Marks the row as used; only with a clock. */
static inline void table_rows_mark(struct table_rows *r, uint32_t slot) {
    uint32_t in = slot & ((1U << r->shift) - 1);
    r->slabs[slot >> r->shift][r->marks + in / 64] |= 1ULL << (slot % 64);
}
