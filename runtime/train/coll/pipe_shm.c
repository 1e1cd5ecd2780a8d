/* The transport inside a machine: a ring buffer for each direction between two ranks. */
#include <string.h>

#include "runtime/train/coll/message.h"

/* Copies between the ring and the caller's buffers.  A buffer takes two copies at most, as the ring
 * wraps around once. */
static size_t move(
    struct coll_shm_pipe *p, uint32_t at, size_t room, const struct iovec *v, int n, bool out) {
    size_t moved = 0;
    for (int i = 0; i < n && moved < room; i++) {
        size_t left = v[i].iov_len < room - moved ? v[i].iov_len : room - moved;
        unsigned char *base = v[i].iov_base;
        while (left > 0) {
            size_t place = (at + moved) % COLL_SHM_PIPE;
            size_t k = left < COLL_SHM_PIPE - place ? left : COLL_SHM_PIPE - place;
            memcpy(out ? p->bytes + place : base, out ? base : p->bytes + place, k);
            base += k;
            moved += k;
            left -= k;
        }
    }
    return moved;
}

static ssize_t shm_write(
    struct rt_group *g, uint32_t to, uint32_t lane, const struct iovec *v, int n) {
    (void)lane;
    struct coll_shm_pipe *p = coll_shm_pipe(&g->shm, g->local, g->peers[to].local);
    uint32_t head = atomic_load_explicit(&p->head, memory_order_relaxed);
    uint32_t used = head - atomic_load_explicit(&p->tail, memory_order_acquire);
    size_t moved = used < COLL_SHM_PIPE ? move(p, head, COLL_SHM_PIPE - used, v, n, true) : 0;
    atomic_store_explicit(&p->head, head + (uint32_t)moved, memory_order_release);
    if (moved > 0) {
        coll_bell_ring(&g->shm, g->peers[to].local);
    }
    return (ssize_t)moved;
}

static ssize_t shm_read(
    struct rt_group *g, uint32_t from, uint32_t lane, const struct iovec *v, int n) {
    (void)lane;
    struct coll_shm_pipe *p = coll_shm_pipe(&g->shm, g->peers[from].local, g->local);
    uint32_t tail = atomic_load_explicit(&p->tail, memory_order_relaxed);
    uint32_t used = atomic_load_explicit(&p->head, memory_order_acquire) - tail;
    size_t moved = used <= COLL_SHM_PIPE ? move(p, tail, used, v, n, false) : 0;
    atomic_store_explicit(&p->tail, tail + (uint32_t)moved, memory_order_release);
    if (moved > 0) {
        coll_bell_ring(&g->shm, g->peers[from].local);
    }
    return (ssize_t)moved;
}

bool coll_ring_ready(const struct rt_group *g, const struct coll_flow *f) {
    if (!coll_flow_rings(f)) {
        return false;
    }
    uint32_t other = g->peers[f->peer].local, from = f->out ? g->local : other;
    struct coll_shm_pipe *p = coll_shm_pipe(&g->shm, from, f->out ? other : g->local);
    uint32_t used = atomic_load(&p->head) - atomic_load(&p->tail);
    return f->out ? used < COLL_SHM_PIPE : used > 0;
}

const struct coll_pipe_ops coll_pipe_shm = {.name = "shm", .write = shm_write, .read = shm_read};
