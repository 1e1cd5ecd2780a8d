/* Areas of huge pages: mapping them, and replacing small pages (row_area.h). */
#include "runtime/train/table/row_area.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/huge.h"
#include "common/mem.h"

enum {
    AREA_BYTES = 32 << 20,
    SMALL_AREAS = 2, /* 64 MB; from there on a huge page too much is 3 % */
};

static int add_area(struct table_areas *a, struct co_err *err) {
    unsigned char *p = co_huge_map(AREA_BYTES);
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
    unsigned char *fresh = co_huge_map(CO_HUGE_PAGE);
    if (!fresh) {
        return;
    }
    (void)madvise(fresh, CO_HUGE_PAGE, MADV_HUGEPAGE);
    memcpy(fresh, old, CO_HUGE_PAGE);
    if (mremap(fresh, CO_HUGE_PAGE, CO_HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, old) == old) {
        return;
    }
    /* Kernels before 6.17 may have unmapped the old pages already. */
    void *again = mmap(
        old, CO_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (again != old) {
        abort();
    }
    memcpy(old, fresh, CO_HUGE_PAGE);
    (void)munmap(fresh, CO_HUGE_PAGE);
}

int table_areas_cut(struct table_areas *a, size_t bytes, void **ret, struct co_err *err) {
    if (a->n == 0 || bytes > AREA_BYTES - a->used) {
        CO_TRY(add_area(a, err));
    }
    unsigned char *piece = a->all[a->n - 1] + a->used;
    size_t full = a->used / CO_HUGE_PAGE;
    a->used += (bytes + 7) / 8 * 8;
    if (a->used / CO_HUGE_PAGE > full && a->n <= SMALL_AREAS) {
        replace(a->all[a->n - 1] + full * CO_HUGE_PAGE);
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
