/* Rows by uint64 id: open addressing over blocks of rows that never move.
 *
 * A row is `stride` floats (values, then optimizer state; the store does not care).  Row numbers
 * are dense and in order of creation, so that a scan by number survives growth.  Belongs to one
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "runtime/train/ps/budget.h"

struct rt_sparse;

/* Rows and index are taken from the budget, which must outlive it; NULL: no limit. */
struct rt_sparse *rt_sparse_new(size_t stride, struct rt_budget *budget);
void rt_sparse_free(struct rt_sparse *t);
CO_DEFINE_CLEANUP(struct rt_sparse *, rt_sparse_free)

/* NULL when there is none.  Valid until the store is freed. */
float *rt_sparse_find(const struct rt_sparse *t, uint64_t id);
/* Takes the memory for so many new rows: making them does not fail then.  On failure the rows
 * are as before. */
CO_MUST_CHECK int rt_sparse_reserve(struct rt_sparse *t, size_t more, struct co_err *err);
bool rt_sparse_has_room(const struct rt_sparse *t, size_t more);
/* Finds or makes; a new row's floats are zero and *ret_new is set. */
CO_MUST_CHECK int rt_sparse_make(
    struct rt_sparse *t, uint64_t id, float **ret_row, int *ret_new, struct co_err *err);
/* Row number i of rt_sparse_rows. */
float *rt_sparse_row(const struct rt_sparse *t, size_t i, uint64_t *ret_id);
size_t rt_sparse_rows(const struct rt_sparse *t);
size_t rt_sparse_bytes(const struct rt_sparse *t);
/* Forgets all rows, keeps the memory of blocks. */
void rt_sparse_clear(struct rt_sparse *t);
