/* A first-fit allocator for the arena: the part of the shared memory that one rank owns.  A rank
 * that is alone on its machine has no arena; its allocations come from the heap. */
#include "runtime/train/coll/arena.h"

#include <string.h>
#include <sys/mman.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/gpu.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

/* A used or free range of the arena.  The list is ordered and without gaps.  Without shared memory
 * a piece is one heap allocation, and the list has no order. */
struct arena_range {
    struct arena_range *next;
    size_t at, bytes;
    bool used;
    void *own; /* owned; NULL: the piece is shared memory */
};

struct coll_arena {
    struct arena_range *first;
};

void coll_arena_free(struct coll_arena *a) {
    if (a) {
        for (struct arena_range *p = a->first, *next; p; p = next) {
            next = p->next;
            free(p->own);
            free(p);
        }
        free(a);
    }
}

/* bytes 0: no arena, allocate from the heap. */
static struct coll_arena *arena_new(size_t bytes) {
    struct coll_arena *a = co_xcalloc(1, sizeof(*a));
    if (bytes > 0) {
        a->first = co_xcalloc(1, sizeof(*a->first));
        a->first->bytes = bytes;
    }
    return a;
}

static int alloc_own(
    struct coll_arena *a, size_t bytes, size_t align, void **ret_memory, struct co_err *err) {
    void *own = NULL;
    int e = posix_memalign(&own, align, bytes ? bytes : 1);
    if (e) {
        return co_err_errno(err, e, "%zu bytes for the group", bytes);
    }
    memset(own, 0, bytes);
    struct arena_range *p = co_xcalloc(1, sizeof(*p));
    *p = (struct arena_range){.next = a->first, .own = own};
    a->first = p;
    *ret_memory = own;
    return 0;
}

static void free_own(struct coll_arena *a, const void *memory) {
    for (struct arena_range **at = &a->first, *p; memory && (p = *at); at = &p->next) {
        if (p->own == memory) {
            *at = p->next;
            free(p->own);
            free(p);
            return;
        }
    }
}

/* Splits p so that a piece begins at `at`; returns that piece. */
static struct arena_range *cut(struct arena_range *p, size_t at) {
    if (at == p->at) {
        return p;
    }
    struct arena_range *q = co_xcalloc(1, sizeof(*q));
    *q = (struct arena_range){.next = p->next, .at = at, .bytes = p->at + p->bytes - at};
    p->bytes = at - p->at;
    p->next = q;
    return q;
}

static struct arena_range *find(struct coll_arena *a, size_t bytes, size_t align) {
    for (struct arena_range *p = a->first; p; p = p->next) {
        size_t at = (p->at + align - 1) / align * align;
        if (!p->used && at - p->at < p->bytes && bytes <= p->bytes - (at - p->at)) {
            p = cut(p, at);
            if (p->bytes > bytes) {
                (void)cut(p, at + bytes);
            }
            p->used = true;
            return p;
        }
    }
    return NULL;
}

int rt_group_alloc(struct rt_group *g, size_t bytes, void **ret_memory, struct co_err *err) {
    if (g->fork.forked) {
        return co_fork_refuse("the group", err);
    }
    if (g->gpu) {
        return coll_gpu_alloc(g, bytes, ret_memory, err);
    }
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
    if (!g->arena) {
        g->arena = arena_new(g->shm.base ? g->shm.arena : 0);
    }
    if (!g->shm.base) { /* no neighbours */
        return alloc_own(g->arena, bytes, align, ret_memory, err);
    }
    struct arena_range *p = NULL;
    if (bytes < g->shm.arena) {
        p = find(g->arena, bytes ? (bytes + PAGE - 1) / PAGE * PAGE : PAGE, align);
    }
    if (!p) {
        return co_err_set(err, CO_NOMEMORY, "%zu bytes: more than is left of the group's %zu",
            bytes, g->shm.arena);
    }
    *ret_memory = coll_shm_arena(&g->shm, g->shm.me) + p->at;
    return 0;
}

static void join_next(struct arena_range *p) {
    struct arena_range *q = p->next;
    if (q && !p->used && !q->used) {
        p->bytes += q->bytes;
        p->next = q->next;
        free(q);
    }
}

void rt_group_free(struct rt_group *g, void *memory) {
    if (g->fork.forked) {
        return; /* the pages are the parent's, too */
    }
    if (g->gpu) {
        coll_gpu_free(g, memory);
        return;
    }
    if (!g->arena) {
        return;
    }
    if (!g->shm.base) {
        free_own(g->arena, memory);
        return;
    }
    size_t at = (size_t)((unsigned char *)memory - coll_shm_arena(&g->shm, g->shm.me));
    struct arena_range *before = NULL, *p = memory ? g->arena->first : NULL;
    while (p && p->at != at) {
        before = p;
        p = p->next;
    }
    if (p) {
        p->used = false;
        (void)madvise(memory, p->bytes, MADV_REMOVE); /* frees the pages; they read as zero again */
        join_next(p);
        if (before) {
            join_next(before);
        }
    }
}
