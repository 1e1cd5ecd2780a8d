/* An allocator for small long-lived blocks, apart from malloc's heap.
 *
 *   region (1 MiB, mmap): | page | page | ...       page: head | block | block | ...  (one size)
 *   room[size] -> page <-> page                      pages with a free block
 *   empty[]                                          pages without blocks, returned to the system
 *
 * In malloc's heap, long-lived blocks between megabytes of short-lived ones would keep their pages
 * resident long after a burst.  Here they lie close together.  Not thread-safe.  With
 * AddressSanitizer every block comes from malloc.
 *
 * Without it the operator has 31 % more resident with 1,000 jobs (docs/decisions.md). */
#pragma once

#include <stddef.h>

enum {
    CO_SLAB_STEP = 16,
    CO_SLAB_MAX = 1024, /* larger blocks come from malloc */
    CO_SLAB_SIZES = CO_SLAB_MAX / CO_SLAB_STEP
};

struct co_slab_page;

struct co_slab {
    struct co_slab_page *room[CO_SLAB_SIZES]; /* pages with a free block, by size */
    struct co_slab_page **empty;              /* owned list: pages without any block */
    size_t n_empty, cap_empty;
    void **region; /* owned list: mappings that are cut into pages */
    size_t n_regions;
};

/* A zeroed slab is empty.  Frees all blocks up to CO_SLAB_MAX. */
void co_slab_done(struct co_slab *s);
void *co_slab_alloc(struct co_slab *s, size_t size) __attribute__((returns_nonnull));
/* size: as in co_slab_alloc.  NULL allowed. */
void co_slab_free(struct co_slab *s, void *p, size_t size);
