/* Pages of blocks of one size, cut from mappings of 1 MiB. */
#include "common/slab.h"

#include "common/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

enum { PAGE = 4096, REGION_PAGES = 256 };

/* With AddressSanitizer blocks come from malloc.  gcc and clang announce it differently. */
#if defined(__SANITIZE_ADDRESS__)
#define WATCHED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED true
#endif
#endif
#ifndef WATCHED
#define WATCHED false
#endif

struct block {
    struct block *next;
};

/* The head of a page; the blocks follow. */
struct co_slab_page {
    struct co_slab_page *prev, *next; /* in the list of its size, while a block is free */
    struct block *free;               /* list of blocks that were freed */
    uint16_t size, used;              /* bytes of a block; blocks in use */
    uint16_t fresh;                   /* offset of the first block that was never used */
};

static struct co_slab_page *page_of(void *block) {
    return (struct co_slab_page *)((char *)block - (uintptr_t)block % PAGE);
}

static bool is_full(const struct co_slab_page *p) {
    return !p->free && p->fresh + p->size > PAGE;
}

static bool from_malloc(size_t size) {
    return WATCHED || size > CO_SLAB_MAX;
}

static size_t row_of(size_t size) {
    return size ? (size - 1) / CO_SLAB_STEP : 0;
}

/* ---- pages ------------------------------------------------------------------------------ */

static void add_region(struct co_slab *s) {
    void *mem = mmap(NULL, (size_t)PAGE * REGION_PAGES, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED) {
        (void)fputs("out of memory\n", stderr);
        abort();
    }
    s->region = co_xrealloc(s->region, s->n_regions + 1, sizeof(*s->region));
    s->region[s->n_regions++] = mem;
    s->cap_empty += REGION_PAGES;
    s->empty = co_xrealloc((void *)s->empty, s->cap_empty, sizeof(struct co_slab_page *));
    for (size_t i = REGION_PAGES; i > 0; i--) {
        s->empty[s->n_empty++] = (void *)((char *)mem + (i - 1) * PAGE);
    }
}

static void join_room(struct co_slab *s, struct co_slab_page *p) {
    struct co_slab_page **head = &s->room[row_of(p->size)];
    p->prev = NULL;
    p->next = *head;
    if (p->next) {
        p->next->prev = p;
    }
    *head = p;
}

static void leave_room(struct co_slab *s, struct co_slab_page *p) {
    if (p->prev) {
        p->prev->next = p->next;
    } else {
        s->room[row_of(p->size)] = p->next;
    }
    if (p->next) {
        p->next->prev = p->prev;
    }
}

static struct co_slab_page *page_new(struct co_slab *s, size_t size) {
    if (!s->n_empty) {
        add_region(s);
    }
    struct co_slab_page *p = s->empty[--s->n_empty];
    enum { HEAD = (sizeof(*p) + CO_SLAB_STEP - 1) / CO_SLAB_STEP * CO_SLAB_STEP };
    *p = (struct co_slab_page){.size = (uint16_t)size, .fresh = HEAD};
    join_room(s, p);
    return p;
}

/* ---- blocks ----------------------------------------------------------------------------- */

void *co_slab_alloc(struct co_slab *s, size_t size) {
    if (from_malloc(size)) {
        return co_xmalloc(size);
    }
    size_t row = row_of(size);
    struct co_slab_page *p = s->room[row];
    p = p ? p : page_new(s, (row + 1) * CO_SLAB_STEP);
    void *block = p->free;
    if (block) {
        p->free = p->free->next;
    } else {
        block = (char *)p + p->fresh;
        p->fresh = (uint16_t)(p->fresh + p->size);
    }
    p->used++;
    if (is_full(p)) {
        leave_room(s, p);
    }
    return block;
}

void co_slab_free(struct co_slab *s, void *block, size_t size) {
    if (!block || from_malloc(size)) {
        free(block);
        return;
    }
    struct co_slab_page *p = page_of(block);
    if (is_full(p)) {
        join_room(s, p);
    }
    struct block *b = block;
    b->next = p->free;
    p->free = b;
    if (--p->used == 0 && (p->prev || p->next)) { /* keep the last page of its size */
        leave_room(s, p);
        (void)madvise(p, PAGE, MADV_DONTNEED);
        s->empty[s->n_empty++] = p;
    }
}

void co_slab_done(struct co_slab *s) {
    for (size_t i = 0; i < s->n_regions; i++) {
        (void)munmap(s->region[i], (size_t)PAGE * REGION_PAGES);
    }
    free(s->region);
    free((void *)s->empty);
    *s = (struct co_slab){0};
}
