#include "runtime/train/coll/arena.h"

#include <string.h>
#include <sys/mman.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/gpu.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

/* A piece of the arena; all pieces, in order, are the arena. */
struct piece {
    struct piece *next;
    size_t at, bytes;
    bool used;
};

struct rt_arena {
    struct piece *first;
};

void rt_arena_free(struct rt_arena *a) {
    if (a) {
        for (struct piece *p = a->first, *next; p; p = next) {
            next = p->next;
            free(p);
        }
        free(a);
    }
}

static struct rt_arena *arena_new(size_t bytes) {
    struct rt_arena *a = co_xcalloc(1, sizeof(*a));
    a->first = co_xcalloc(1, sizeof(*a->first));
    a->first->bytes = bytes;
    return a;
}

/* Cuts p so that a piece begins at `at`. */
static struct piece *cut(struct piece *p, size_t at) {
    if (at == p->at) {
        return p;
    }
    struct piece *q = co_xcalloc(1, sizeof(*q));
    *q = (struct piece){.next = p->next, .at = at, .bytes = p->at + p->bytes - at};
    p->bytes = at - p->at;
    p->next = q;
    return q;
}

static struct piece *find(struct rt_arena *a, size_t bytes, size_t align) {
    for (struct piece *p = a->first; p; p = p->next) {
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
    if (g->gpu) {
        return rt_gpu_alloc(g, bytes, ret_memory, err);
    }
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
    if (!g->shm.base) { /* no neighbours */
        void *own = NULL;
        int e = posix_memalign(&own, align, bytes ? bytes : 1);
        if (e) {
            return co_err_errno(err, e, "%zu bytes for the group", bytes);
        }
        memset(own, 0, bytes);
        *ret_memory = own;
        return 0;
    }
    if (!g->arena) {
        g->arena = arena_new(g->shm.arena);
    }
    struct piece *p = NULL;
    if (bytes <= g->shm.arena - PAGE) {
        p = find(g->arena, bytes ? (bytes + PAGE - 1) / PAGE * PAGE : PAGE, align);
    }
    if (!p) {
        return co_err_set(err, CO_NOMEMORY, "%zu bytes: more than is left of the group's %zu",
            bytes, g->shm.arena);
    }
    *ret_memory = rt_shm_arena(&g->shm, g->shm.me) + p->at;
    return 0;
}

static void join_next(struct piece *p) {
    struct piece *q = p->next;
    if (q && !p->used && !q->used) {
        p->bytes += q->bytes;
        p->next = q->next;
        free(q);
    }
}

void rt_group_free(struct rt_group *g, void *memory) {
    if (g->gpu) {
        rt_gpu_free(g, memory);
        return;
    }
    if (!g->shm.base) {
        free(memory);
        return;
    }
    size_t at = (size_t)((unsigned char *)memory - rt_shm_arena(&g->shm, g->shm.me));
    struct piece *before = NULL, *p = memory ? g->arena->first : NULL;
    while (p && p->at != at) {
        before = p;
        p = p->next;
    }
    if (p) {
        p->used = false;
        (void)madvise(memory, p->bytes, MADV_REMOVE); /* the pages go; they read as zero again */
        join_next(p);
        if (before) {
            join_next(before);
        }
    }
}
