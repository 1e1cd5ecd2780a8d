/* Memory for the slabs of a large table, in huge pages: rows that are read in no order cost a walk
 * of the page tables each, which in a virtual machine takes as long as the row.
 *
 *     area:  | huge page | huge page | ...        pieces are cut from it, one behind the other
 *
 * A huge page is resident as a whole.  So that a table takes no more memory than its rows need, the
 * first areas have small pages at first, and a huge page replaces those that are all in use, which
 * takes a millisecond or less.  Later areas have huge pages at once: what the last of these has too
 * much is then little.  Addresses never change.  Where the kernel has no huge pages, all stay
 * small. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { TABLE_AREA_PIECE_MAX = 1 << 20 };

struct table_areas {
    unsigned char **all; /* [n] */
    uint32_t n;
    size_t used; /* bytes of the last one that were cut off */
};

/* Cuts off `bytes`, at most TABLE_AREA_PIECE_MAX: zeros, aligned to 8.  Zero-initialised areas are
 * empty ones. */
CO_MUST_CHECK int table_areas_cut(
    struct table_areas *a, size_t bytes, void **ret, struct co_err *err);
/* Unmaps all. */
void table_areas_done(struct table_areas *a);
