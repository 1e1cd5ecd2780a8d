/* Started calls: a queue and a thread that makes them in order.  The thread begins with the first
 * of them.
 *
 * Sends and receives that follow one another in the queue move side by side, those that are
 * started meanwhile, too: two ranks may both start to send before they receive.  To one rank they
 * go in their order, and so they come from one. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "runtime/train/coll/gpu.h"
#include "runtime/train/coll/message.h"

struct rt_work {
    struct rt_work *next;
    struct rt_queue *queue;
    struct rt_group *g;
    struct rt_coll call;
    _Atomic bool done;
    int code;
    struct co_err err;
    /* Of a send or a receive: */
    bool begun;
    struct rt_exchange_part part;
    struct rt_flow flow;
    struct rt_patience patience;
};

struct rt_queue {
    pthread_t thread;
    pthread_mutex_t m;
    pthread_cond_t changed;
    struct rt_work *first, **end; /* not ended yet */
    _Atomic uint32_t waiting;     /* how many these are */
    bool stop, pairing;           /* pairing: `more` tells of new ones */
    int more;                     /* event */
    /* The thread's: */
    bool *taken;        /* owned [2][size]: a flow to or from the rank goes first */
    struct pollfd *fds; /* owned */
    size_t fds_max;
};

static bool is_pair(const struct rt_work *w) {
    bool pair = w->call.kind == RT_SEND || w->call.kind == RT_RECV;
    return pair && !(w->g->gpu && rt_gpu_takes(w->g, &w->call));
}

/* Takes the call out of the queue; its owner may free it at once. */
static void finish(struct rt_queue *q, struct rt_work *w, int code) {
    w->code = code;
    if (code < 0) {
        (void)rt_group_why(w->g, &w->err);
        (void)co_err_wrap(&w->err, "%s", rt_kind_name(w->call.kind));
    }
    pthread_mutex_lock(&q->m);
    struct rt_work **at = &q->first;
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    q->end = *at ? q->end : at;
    atomic_fetch_sub(&q->waiting, 1);
    atomic_store(&w->done, true);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->m);
}

/* ---- sends and receives ---- */

/* How many there are before the next call of all ranks. */
static uint32_t pairs_ahead(struct rt_queue *q) {
    uint32_t n = 0;
    pthread_mutex_lock(&q->m);
    for (const struct rt_work *w = q->first; w && is_pair(w); w = w->next) {
        n++;
    }
    q->pairing = n > 0;
    pthread_mutex_unlock(&q->m);
    return n;
}

/* 1: it has moved, 0: it has not, or the code the group failed with. */
static int pair_move(struct rt_work *w, bool patient) {
    struct rt_group *g = w->g;
    int code = atomic_load_explicit(&g->failed, memory_order_acquire);
    if (code < 0) {
        return code;
    }
    if (!w->begun) {
        w->begun = true;
        w->part = rt_msg_pair_part(g, &w->call);
        rt_flow_begin(g, &w->flow, &w->part, w->call.kind == RT_SEND);
    }
    int moved = rt_flow_move(g, &w->flow);
    if (moved > 0) {
        w->patience = (struct rt_patience){0};
    }
    return moved != 0 || patient ? moved : rt_patience_check(g, &w->patience, w->call.root);
}

/* One try at the first send to and the first receive from each rank, of n calls.  True: something
 * has moved or ended. */
static bool pairs_move(struct rt_queue *q, struct rt_group *g, uint32_t n, bool patient) {
    bool moved = false;
    memset(q->taken, 0, 2 * (size_t)g->size * sizeof(*q->taken));
    struct rt_work *w = q->first, *next;
    for (uint32_t i = 0; i < n; i++, w = next) {
        bool *taken = &q->taken[(w->call.kind == RT_SEND) * g->size + w->call.root];
        next = i + 1 < n ? w->next : NULL;
        if (!*taken) {
            *taken = true;
            int rc = pair_move(w, patient);
            moved |= rc != 0;
            if (rc < 0 || w->flow.left == 0) {
                finish(q, w, rc < 0 ? rc : 0);
                moved = true;
            }
        }
    }
    return moved;
}

static void pairs_wait(struct rt_queue *q, struct rt_group *g, uint32_t n, uint32_t tries) {
    size_t most = (size_t)n * RT_LANES_MAX + 2;
    nfds_t k = 0;
    bool ring = false;
    if (most > q->fds_max) {
        free(q->fds);
        q->fds = co_xcalloc(most, sizeof(*q->fds));
        q->fds_max = most;
    }
    memset(q->taken, 0, 2 * (size_t)g->size * sizeof(*q->taken));
    const struct rt_work *w = q->first;
    for (uint32_t i = 0; i < n; i++) {
        bool *taken = &q->taken[(w->call.kind == RT_SEND) * g->size + w->call.root];
        if (!*taken) {
            *taken = true;
            k += rt_flow_fds(g, &w->flow, q->fds + k);
            ring |= rt_flow_rings(&w->flow);
        }
        w = i + 1 < n ? w->next : NULL;
    }
    q->fds[k++] = (struct pollfd){.fd = g->alarm, .events = POLLIN};
    q->fds[k++] = (struct pollfd){.fd = q->more, .events = POLLIN};
    rt_flows_wait(q->fds, k, ring, tries);
    eventfd_t none;
    (void)eventfd_read(q->more, &none);
}

/* Until the queue is empty or a call of all ranks is its first. */
static void pairs_make(struct rt_queue *q, struct rt_group *g) {
    uint32_t n, tries = 0;
    while ((n = pairs_ahead(q)) > 0) {
        if (pairs_move(q, g, n, tries < RT_TRIES)) {
            tries = 0;
        } else if (tries++ >= RT_TRIES) {
            pairs_wait(q, g, n, tries);
        }
    }
}

/* ---- the queue ---- */

static struct rt_work *queue_next(struct rt_queue *q) {
    pthread_mutex_lock(&q->m);
    while (!q->first && !q->stop) {
        pthread_cond_wait(&q->changed, &q->m);
    }
    struct rt_work *w = q->first;
    pthread_mutex_unlock(&q->m);
    return w;
}

static void *queue_run(void *arg) {
    struct rt_queue *q = arg;
    struct rt_work *w;
    while ((w = queue_next(q))) {
        if (is_pair(w)) {
            pairs_make(q, w->g);
        } else {
            finish(q, w, rt_call_make(w->g, &w->call));
        }
    }
    return NULL;
}

bool rt_queue_busy(const struct rt_group *g) {
    return g->queue && atomic_load_explicit(&g->queue->waiting, memory_order_acquire) > 0;
}

static void queue_free(struct rt_queue *q) {
    co_close(q->more);
    pthread_mutex_destroy(&q->m);
    pthread_cond_destroy(&q->changed);
    free(q->taken);
    free(q->fds);
    free(q);
}

static int queue_start(struct rt_group *g, struct co_err *err) {
    int more = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (more < 0) {
        return co_err_errno(err, errno, "an event");
    }
    struct rt_queue *q = co_xcalloc(1, sizeof(*q));
    pthread_mutex_init(&q->m, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->end = &q->first;
    q->more = more;
    q->taken = co_xcalloc(2 * (size_t)g->size, sizeof(*q->taken));
    int e = pthread_create(&q->thread, NULL, queue_run, q);
    if (e) {
        queue_free(q);
        return co_err_errno(err, e, "a thread for started calls");
    }
    g->queue = q;
    return 0;
}

void rt_queue_stop(struct rt_group *g) {
    struct rt_queue *q = g->queue;
    if (q) {
        pthread_mutex_lock(&q->m);
        q->stop = true;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->m);
        pthread_join(q->thread, NULL);
        queue_free(q);
        g->queue = NULL;
    }
}

int rt_coll_start(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err) {
    int rc = rt_call_check(g, call, err);
    if (rc == 0 && !g->queue) {
        rc = queue_start(g, err);
    }
    if (rc < 0) {
        return rc;
    }
    struct rt_work *w = co_xcalloc(1, sizeof(*w));
    struct rt_queue *q = g->queue;
    *w = (struct rt_work){.queue = q, .g = g, .call = *call};
    pthread_mutex_lock(&q->m);
    *q->end = w;
    q->end = &w->next;
    atomic_fetch_add(&q->waiting, 1);
    if (q->pairing) {
        (void)eventfd_write(q->more, 1);
    }
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->m);
    *ret_work = w;
    return 0;
}

bool rt_work_test(const struct rt_work *work) {
    return atomic_load(&work->done);
}

int rt_work_wait(struct rt_work *work_own, struct co_err *err) {
    struct rt_queue *q = work_own->queue;
    pthread_mutex_lock(&q->m);
    while (!atomic_load(&work_own->done)) {
        pthread_cond_wait(&q->changed, &q->m);
    }
    pthread_mutex_unlock(&q->m);
    int rc = work_own->code;
    if (rc < 0 && err) {
        *err = work_own->err;
    }
    free(work_own);
    return rc;
}
