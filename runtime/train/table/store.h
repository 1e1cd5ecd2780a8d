/* The rows of a sparse table on one shard, by uint64 id.
 *
 * A row is one block of memory, which does not move until the row is erased:
 *
 *     | id 8 | head | values dim x (4 or 2) | pad to 4 | state f32[state] |
 *            '------------------------- body --------------------------'
 *
 * Find and make return a row's number, its slot; all other calls take slots.  Slots count from 0;
 * those of erased rows are reused, the last one first.  Memory grows in steps of at most 64 KiB (or
 * of one row, if that is larger), and the table is never rehashed or copied as a whole.  So a call
 * with one id takes at most some hundred microseconds, however large the table is.
 *
 * A store belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/table/budget.h"

#define TABLE_SLOT_NONE UINT32_MAX

struct table_store_shape {
    uint32_t dim;          /* values of a row */
    uint32_t state;        /* floats of optimizer state */
    uint32_t head;         /* bytes for the policy's data (policy.h); a multiple of 4 */
    enum rt_dtype storage; /* of values: RT_F32, RT_F16 or RT_BF16 */
};

struct table_store;

/* All memory is taken from the budget, which must outlive the store; NULL: no limit. */
struct table_store *table_store_new(
    const struct table_store_shape *shape, struct table_budget *budget);
void table_store_free(struct table_store *s); /* NULL allowed */
CO_DEFINE_CLEANUP(struct table_store *, table_store_free)

size_t table_store_rows(const struct table_store *s);
uint32_t table_store_slots(
    const struct table_store *s); /* all slots that ever held a row are below */
size_t table_store_bytes(const struct table_store *s); /* taken from the budget */

/* ---- find, make, erase ---- */

/* The slot of an id, or TABLE_SLOT_NONE. */
uint32_t table_store_find(const struct table_store *s, uint64_t id);
/* The same for n ids.  Their cache misses overlap, which is faster than n calls.  Afterwards the
 * rows are in the cache, if n is at most some hundreds. */
void table_store_find_many(
    const struct table_store *s, const uint64_t *ids, size_t n, uint32_t *ret_slots);

/* Prefetches a row: for a loop over slots, some ten slots ahead.  Ignores TABLE_SLOT_NONE. */
void table_store_fetch(const struct table_store *s, uint32_t slot);

/* Finds or creates n rows.  All of them or, when memory is short (CO_NORESOURCE, CO_NOMEMORY),
 * none: the rows are then as before.  ret_new[i]: row i was created by this call; all but its id is
 * zero, and the caller must write its initial values.  ids may repeat: only the first one is new.
 */
CO_MUST_CHECK int table_store_make_many(struct table_store *s, const uint64_t *ids, size_t n,
    uint32_t *ret_slots, bool *ret_new, struct co_err *err);
CO_MUST_CHECK int table_store_make(
    struct table_store *s, uint64_t id, uint32_t *ret_slot, bool *ret_new, struct co_err *err);

/* The slot becomes free and will be reused. */
void table_store_erase(struct table_store *s, uint32_t slot);
/* Erases all rows and keeps the memory.  The time depends on the rows that exist, not on how many
 * there ever were. */
void table_store_clear(struct table_store *s);
/* Erases all rows and gives their memory back to the budget. */
void table_store_empty(struct table_store *s);

/* ---- a row ---- */

/* Pointers into the row: valid until it is erased. */
uint64_t table_store_id(const struct table_store *s, uint32_t slot);
void *table_store_head(const struct table_store *s, uint32_t slot); /* aligned to 4 */
void *table_store_values(
    const struct table_store *s, uint32_t slot); /* [dim] of the storage's type */
float *table_store_state(const struct table_store *s, uint32_t slot); /* [state] */
const struct table_store_shape *table_store_shape(const struct table_store *s);

/* Values as floats [dim], whatever the storage. */
void table_store_read(const struct table_store *s, uint32_t slot, float *ret_values);
/* Rounds to nearest, ties to even: values that were read are written back unchanged. */
void table_store_write(struct table_store *s, uint32_t slot, const float *values);
/* For the result of an update.  Rounds stochastically: up with a probability that grows with the
 * nearness of the upper neighbour.  So updates below half a unit in the last place are not lost,
 * but count on average.  Each store has its own random sequence: the same calls give the same rows.
 */
void table_store_write_update(struct table_store *s, uint32_t slot, const float *values);

/* A row's body: all that follows its id, that is head, values and state.  Bodies can be copied;
 * these calls also work on the copies, such as those of cold rows. */
size_t table_store_body_bytes(const struct table_store *s); /* a multiple of 4 */
void *table_store_body(const struct table_store *s, uint32_t slot);
void *table_store_body_values(const struct table_store *s, const void *body);
float *table_store_body_state(const struct table_store *s, const void *body);
void table_store_body_read(const struct table_store *s, const void *body, float *ret_values);

/* ---- which rows are in use ---- */

/* Adds a clock, which notices which rows are in use (row_slabs.h).  To be called before the first
 * row.
 */
void table_store_clock(struct table_store *s);
void table_store_mark(struct table_store *s, uint32_t slot);
/* See table_rows_room, table_rows_grow, table_rows_round, table_rows_idle. */
uint64_t table_store_room(const struct table_store *s);
bool table_store_grow(struct table_store *s, size_t most);
uint64_t table_store_round(const struct table_store *s);
uint32_t table_store_idle(struct table_store *s, uint32_t *ret_slots, uint32_t n, uint64_t *words);

/* ---- all rows ---- */

/* See table_index_range. */
size_t table_store_range(
    const struct table_store *s, uint64_t from, uint64_t to, uint32_t *ret_slots, size_t n);

/* Whether the slot, which must be below table_store_slots, holds a row. */
bool table_store_has(const struct table_store *s, uint32_t slot);
/* The first slot from `from` on that holds a row, or TABLE_SLOT_NONE.  A scan with this may be
 * interrupted by other calls.  It meets a row once if that exists from the scan's start to its end.
 * It may miss rows that are created or erased meanwhile, and may meet an id twice that is erased
 * and created again. */
uint32_t table_store_next(const struct table_store *s, uint32_t from);
/* The same, of the slots below `end`: a look that takes no longer than there are such slots. */
uint32_t table_store_next_below(const struct table_store *s, uint32_t from, uint32_t end);
