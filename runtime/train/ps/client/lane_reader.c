/* Which thread reads the data lanes of a client:
 *
 *     nobody  -->  a thread in psc_client_wait  -->  nobody; the threads that wait are woken
 *             -->  the client's own thread     -->  nobody, at the latest when another one waits
 *
 * The reader sleeps in epoll without the lock.  A thread that changes something the reader may wait
 * for writes to `wake` if the reader sleeps. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/thread.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/link_internal.h"

enum {
    EVENTS = 16,
    NAP_MS = 2,     /* the client's own thread reads if no other has for so long */
    NAPS_MAX = 50,  /* after so many naps without need it sleeps until called */
    LOOK_MS = 1000, /* the longest wait in epoll */
};

struct psc_reader {
    struct rt_client *c;
    int epoll, wake;
    struct rpc_lane_room room; /* of the thread that reads */
    atomic_bool asleep;        /* the reader is in epoll */
    pthread_t thread;
    /* guarded by the lock of links */
    uint32_t n_lanes;
    bool reading, own;  /* a thread reads; it is the client's own */
    uint32_t followers; /* threads that wait for the reader */
    uint64_t rounds;    /* how often a thread began to read */
    bool started, stopping, idle;
    pthread_cond_t called; /* wakes the client's own thread */
};

static void wake_reader(struct psc_reader *r) {
    if (atomic_load(&r->asleep)) {
        (void)!write(r->wake, &(uint64_t){1}, sizeof(uint64_t));
    }
}

/* ---- which lanes are read ---- */

static struct epoll_event event_of(const struct psc_link *l, uint32_t shard, bool full) {
    return (struct epoll_event){.events = EPOLLIN | (full ? EPOLLOUT : 0U),
        .data.u64 = (uint64_t)(l->index + 1) << 32 | shard};
}

int psc_reader_add(struct psc_reader *r, const struct psc_link *l, uint32_t shard,
    const struct rpc_lane *lane, struct co_err *err) {
    struct epoll_event e = event_of(l, shard, false);
    r->n_lanes++;
    return epoll_ctl(r->epoll, EPOLL_CTL_ADD, rpc_lane_fd(lane), &e) == 0
               ? 0
               : co_err_errno(err, errno, "cannot watch a data lane");
}

void psc_reader_watch(
    const struct psc_link *l, uint32_t shard, const struct rpc_lane *lane, bool full) {
    struct epoll_event e = event_of(l, shard, full);
    (void)epoll_ctl(l->c->reader->epoll, EPOLL_CTL_MOD, rpc_lane_fd(lane), &e);
}

void psc_reader_remove(struct psc_reader *r, const struct rpc_lane *lane) {
    (void)epoll_ctl(r->epoll, EPOLL_CTL_DEL, rpc_lane_fd(lane), NULL);
    r->n_lanes--;
}

/* ---- reading ---- */

/* Reads for all threads, until something arrives or the deadline passes.  The lock is held, and
 * released meanwhile. */
static void read_lanes(struct rt_client *c, int64_t deadline_ms, bool own) {
    struct psc_reader *r = c->reader;
    struct epoll_event events[EVENTS];
    r->reading = true;
    r->own = own;
    r->rounds++;
    atomic_store(&r->asleep, true);
    psc_unlock(c);
    int64_t left = deadline_ms - co_now_ms();
    int n =
        epoll_wait(r->epoll, events, EVENTS, left > 0 ? (int)(left < LOOK_MS ? left : LOOK_MS) : 0);
    atomic_store(&r->asleep, false);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == 0) {
            uint64_t count;
            /* no wait: the descriptor is non-blocking */
            (void)!read(r->wake, &count, sizeof(count));
        } else {
            uint64_t at = events[i].data.u64;
            uint32_t happened = events[i].events;
            psc_lane_serve(&c->links->at[(at >> 32) - 1], (uint32_t)at,
                happened & ~(uint32_t)EPOLLOUT, happened & EPOLLOUT, &r->room);
        }
    }
    psc_lock(c);
    r->reading = false;
    if (r->followers > 0) {
        pthread_cond_broadcast(&c->links->changed);
    }
}

bool psc_client_wait(struct rt_client *c, int64_t deadline_ms) {
    struct psc_reader *r = c->reader;
    if (r && r->n_lanes > 0 && !r->reading) {
        read_lanes(c, deadline_ms, false);
        return co_now_ms() < deadline_ms;
    }
    if (r && r->reading && r->own) {
        wake_reader(r);
    }
    if (r) {
        r->followers++;
    }
    bool in_time = co_cond_wait_until(&c->links->changed, &c->links->m, deadline_ms);
    if (r) {
        r->followers--;
    }
    return in_time;
}

void psc_client_changed(struct rt_client *c) {
    pthread_cond_broadcast(&c->links->changed);
    if (c->reader) {
        wake_reader(c->reader);
    }
}

/* ---- the client's own thread ---- */

bool psc_client_is_idle(const struct rt_client *c) {
    return c->reader && c->reader->idle;
}

void psc_client_expects(struct rt_client *c) {
    if (c->reader && c->reader->idle) {
        c->reader->idle = false;
        pthread_cond_signal(&c->reader->called);
    }
}

/* Reads when answers are due and, during one nap, no other thread has read or waited. */
static void *run_own(void *arg) {
    struct psc_reader *r = arg;
    struct rt_client *c = r->c;
    uint64_t seen = 0;
    uint32_t naps = 0;
    psc_lock(c);
    while (!r->stopping) {
        bool wanted = c->links->slots.used > 0 && r->n_lanes > 0;
        if (wanted && !r->reading && r->rounds == seen && r->followers == 0) {
            read_lanes(c, co_now_ms() + LOOK_MS, true);
            seen = r->rounds;
            continue;
        }
        seen = r->rounds;
        naps = wanted ? 0 : naps + 1;
        if (naps > NAPS_MAX) {
            r->idle = true;
            /* no deadline: until psc_client_expects, or psc_reader_free */
            pthread_cond_wait(&r->called, &c->links->m);
            naps = 0;
        } else {
            (void)co_cond_wait_until(&r->called, &c->links->m, co_now_ms() + NAP_MS);
        }
    }
    psc_unlock(c);
    return NULL;
}

CO_DEFINE_CLEANUP(struct psc_reader *, psc_reader_free)

int psc_reader_new(struct rt_client *c, struct psc_reader **ret, struct co_err *err) {
    CO_CLEANUP(psc_reader_freep) struct psc_reader *r = co_xcalloc(1, sizeof(*r));
    r->c = c;
    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    co_cond_init(&r->called);
    struct epoll_event e = {.events = EPOLLIN};
    if (r->epoll < 0 || r->wake < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->wake, &e) < 0) {
        return co_err_errno(err, errno, "cannot watch data lanes");
    }
    int failed = co_thread_start(&r->thread, run_own, r);
    if (failed) {
        return co_err_errno(err, failed, "cannot start a thread for data lanes");
    }
    r->started = true;
    *ret = co_steal_ptr(r);
    return 0;
}

void psc_reader_free(struct psc_reader *r) {
    if (!r) {
        return;
    }
    if (r->started) {
        psc_lock(r->c);
        r->stopping = true;
        pthread_cond_signal(&r->called);
        wake_reader(r);
        psc_unlock(r->c);
        /* no deadline: it is woken, and reads for LOOK_MS at most */
        pthread_join(r->thread, NULL);
    }
    if (r->epoll >= 0) {
        co_close(r->epoll);
    }
    if (r->wake >= 0) {
        co_close(r->wake);
    }
    pthread_cond_destroy(&r->called);
    free(r);
}
