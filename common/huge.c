/* Large arrays in huge pages, by madvise (huge.h). */
#include "common/huge.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/mem.h"

enum { SMALL_PAGE = 64 << 10 /* or a part of that, on any machine */ };

static size_t round_up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

void *co_huge_map(size_t bytes) {
    if (bytes == 0 || bytes > PTRDIFF_MAX - 2 * CO_HUGE_PAGE) {
        return NULL;
    }
    size_t size = round_up(bytes, SMALL_PAGE);
    unsigned char *p =
        mmap(NULL, size + CO_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    unsigned char *aligned = p + (CO_HUGE_PAGE - (uintptr_t)p % CO_HUGE_PAGE) % CO_HUGE_PAGE;
    if (aligned > p) {
        (void)munmap(p, (size_t)(aligned - p));
    }
    (void)munmap(aligned + size, CO_HUGE_PAGE - (size_t)(aligned - p));
    return aligned;
}

void *co_huge_alloc(size_t bytes) {
    if (bytes >= CO_HUGE_MIN) {
        void *p = co_huge_map(bytes);
        if (p) {
            (void)madvise(p, bytes / CO_HUGE_PAGE * CO_HUGE_PAGE, MADV_HUGEPAGE);
        }
        return p;
    }
    return calloc(bytes ? bytes : 1, 1);
}

void *co_huge_xalloc(size_t bytes) {
    return co_xmemory(co_huge_alloc(bytes));
}

void co_huge_free(void *p, size_t bytes) {
    if (p && bytes >= CO_HUGE_MIN) {
        (void)munmap(p, round_up(bytes, SMALL_PAGE));
    } else {
        free(p);
    }
}
