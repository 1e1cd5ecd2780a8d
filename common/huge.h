/* Large arrays in huge pages.  With small ones each walk of the page tables, and each first touch,
 * takes its time, in a virtual machine most of all.
 *
 *     array:  | huge page | huge page | ... | small pages |
 *
 * A huge page is resident as a whole, so only what fills whole ones has them, and an array takes no
 * more memory than its bytes.  Where the kernel gives none, or the cgroup has no room for one,
 * small pages take their place: that is no error.  Thread-safe. */
#pragma once

#include <stddef.h>

enum {
    CO_HUGE_PAGE = 2 << 20,
    CO_HUGE_MIN = 2 * CO_HUGE_PAGE, /* bytes of an array that has huge pages */
};

/* Zeros, aligned to a huge page: small pages, until the caller advises otherwise.  munmap frees
 * them.  NULL: no memory. */
void *co_huge_map(size_t bytes);

/* Zeros.  NULL: no memory. */
void *co_huge_alloc(size_t bytes);
void *co_huge_xalloc(size_t bytes) __attribute__((returns_nonnull)); /* aborts in place of NULL */
/* bytes: as they were asked for.  Frees what malloc gave, too, if they are less than CO_HUGE_MIN.
 * NULL allowed. */
void co_huge_free(void *p, size_t bytes);
