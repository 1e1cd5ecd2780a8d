/* Areas of huge pages: mapping them, and replacing small pages (row_area.h). */
#include "runtime/train/table/row_area.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/mem.h"

enum {
    HUGE_BYTES = 2 << 20,
    AREA_BYTES = 32 << 20,
    SMALL_AREAS = 2, /* 64 MB; from there on a huge page too much is 3 % */
};

/* Maps `bytes`, a multiple of HUGE_BYTES, aligned to HUGE_BYTES.  NULL: no memory. */
static unsigned char *map_aligned(size_t bytes) {
    unsigned char *p = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    unsigned char *aligned = p + (HUGE_BYTES - (uintptr_t)p % HUGE_BYTES) % HUGE_BYTES;
    if (aligned > p) {
        (void)munmap(p, (size_t)(aligned - p));
    }
    (void)munmap(aligned + bytes, HUGE_BYTES - (size_t)(aligned - p));
    return aligned;
}

static int add_area(struct table_areas *a, struct co_err *err) {
    unsigned char *p = map_aligned(AREA_BYTES);
    if (!p) {
        return co_err_set(err, CO_NOMEMORY, "no memory for rows");
    }
    (void)madvise(p, AREA_BYTES, a->n < SMALL_AREAS ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    a->all = co_xrealloc(a->all, a->n + 1, sizeof(unsigned char *));
    a->all[a->n++] = p;
    a->used = 0;
    return 0;
}

/* Puts a huge page with the same bytes in the place of small pages.  MADV_COLLAPSE would do the
 * same, three times slower. */
static void replace(unsigned char *old) {
    unsigned char *fresh = map_aligned(HUGE_BYTES);
    if (!fresh) {
        return;
    }
    (void)madvise(fresh, HUGE_BYTES, MADV_HUGEPAGE);
    memcpy(fresh, old, HUGE_BYTES);
    if (mremap(fresh, HUGE_BYTES, HUGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, old) == old) {
        return;
    }
    /* Kernels before 6.17 may have unmapped the old pages already. */
    void *again = mmap(
        old, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (again != old) {
        abort();
    }
    memcpy(old, fresh, HUGE_BYTES);
    (void)munmap(fresh, HUGE_BYTES);
}

int table_areas_cut(struct table_areas *a, size_t bytes, void **ret, struct co_err *err) {
    if (a->n == 0 || bytes > AREA_BYTES - a->used) {
        CO_TRY(add_area(a, err));
    }
    unsigned char *piece = a->all[a->n - 1] + a->used;
    size_t full = a->used / HUGE_BYTES;
    a->used += (bytes + 7) / 8 * 8;
    if (a->used / HUGE_BYTES > full && a->n <= SMALL_AREAS) {
        replace(a->all[a->n - 1] + full * HUGE_BYTES);
    }
    *ret = piece;
    return 0;
}

void table_areas_done(struct table_areas *a) {
    for (uint32_t i = 0; i < a->n; i++) {
        (void)munmap(a->all[i], AREA_BYTES);
    }
    free(a->all);
    *a = (struct table_areas){0};
}
