/* Started (asynchronous) calls: a queue, and a thread that makes the calls in order.  The first
 * started call of a group starts the thread.
 *
 * Sends and receives that follow one another in the queue move at the same time, also those that
 * are added meanwhile.  Otherwise two ranks that both start a send before their receive would wait
 * for each other.  Between two ranks, messages of one direction keep their order.
 *
 * On a GPU nothing can be added once NCCL has begun a batch.  There the sends and receives are
 * collected; they begin together when the caller waits for one of them or tests it, or when
 * another call follows. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "common/interrupt.h"
#include "common/thread.h"
#include "runtime/train/coll/gpu.h"
#include "runtime/train/coll/message.h"

/* A call of all ranks; a send or a receive; the same with a buffer on the GPU. */
enum sort { OF_ALL, PAIR, GPU_PAIR };

struct rt_work {
    struct rt_work *next;
    enum sort sort;
    uint64_t number;          /* from 1 */
    struct coll_queue *queue; /* this and g may be gone once `done` is set */
    struct rt_group *g;
    struct rt_coll call;
    _Atomic bool done;
    int code;
    struct co_err err;
    /* Only for PAIR: */
    bool begun;
    struct coll_exchange_part part;
    struct coll_flow flow;
    struct coll_patience patience;
};

struct coll_queue {
    pthread_t thread;
    pthread_mutex_t m;
    pthread_cond_t changed;
    struct rt_work *first, **end; /* calls that have not ended yet */
    _Atomic uint32_t waiting;     /* how many these are */
    uint64_t started, pressed;    /* number of the last call; GPU pairs up to this one may begin */
    bool stop, pairing;           /* pairing: the thread may sleep in poll; `more` wakes it */
    int more;                     /* an eventfd */
    /* Only the thread uses these: */
    bool *taken;        /* owned [2][size]: an earlier call has the turn to or from the rank */
    struct pollfd *fds; /* owned */
    size_t fds_max;
    const struct coll_flow **flows; /* owned; as many as there may be fds */
};

static enum sort sort_of(const struct rt_group *g, const struct rt_coll *c) {
    bool pair = c->kind == RT_SEND || c->kind == RT_RECV;
    return !pair ? OF_ALL : g->gpu && coll_gpu_takes(g, c) ? GPU_PAIR : PAIR;
}

/* Ends a call and takes it out of the queue.  Do not touch it afterwards: its owner may free it at
 * once. */
static void finish(struct coll_queue *q, struct rt_work *w, int code) {
    w->code = code;
    if (code < 0) {
        (void)coll_group_why(w->g, &w->err);
        (void)co_err_wrap(&w->err, "%s", coll_call_name(&w->call));
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

/* How many sends and receives precede the next call of all ranks. */
static uint32_t pairs_ahead(struct coll_queue *q) {
    uint32_t n = 0;
    pthread_mutex_lock(&q->m);
    for (const struct rt_work *w = q->first; w && w->sort == PAIR; w = w->next) {
        n++;
    }
    q->pairing = n > 0;
    pthread_mutex_unlock(&q->m);
    return n;
}

/* 1: data has moved; 0: none has; negative: the code with which the group failed.  patient: do not
 * check the time limit yet if nothing moves. */
static int pair_move(struct rt_work *w, bool patient) {
    struct rt_group *g = w->g;
    CO_TRY(atomic_load_explicit(&g->failed, memory_order_acquire));
    if (!w->begun) {
        w->begun = true;
        w->part = coll_msg_pair_part(g, &w->call);
        w->patience.call = &w->call;
        coll_flow_begin(g, &w->flow, &w->part, w->call.kind == RT_SEND);
    }
    int moved = coll_flow_move(g, &w->flow);
    if (moved < 0 || w->flow.left == 0 || (moved == 0 && patient)) {
        return moved;
    }
    CO_TRY(moved > 0 ? coll_deadline_check(g, &w->patience, w->call.root, co_now_ms())
                     : coll_patience_check(g, &w->patience, w->call.root, co_now_ms()));
    return moved;
}

/* Tries the first send to each rank and the first receive from each rank, among the first n calls.
 * True: data has moved, or a call has ended. */
static bool pairs_move(struct coll_queue *q, struct rt_group *g, uint32_t n, bool patient) {
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

static void pairs_wait(struct coll_queue *q, struct rt_group *g, uint32_t n, uint32_t tries) {
    size_t most = (size_t)n * COLL_LANES_MAX + 2;
    if (most > q->fds_max) {
        free(q->fds);
        free(q->flows);
        q->fds = co_xcalloc(most, sizeof(*q->fds));
        q->flows = co_xcalloc(most, sizeof(*q->flows));
        q->fds_max = most;
    }
    struct coll_wait_set set = {.fds = q->fds, .flows = q->flows};
    memset(q->taken, 0, 2 * (size_t)g->size * sizeof(*q->taken));
    const struct rt_work *w = q->first;
    for (uint32_t i = 0; i < n; i++) {
        bool *taken = &q->taken[(w->call.kind == RT_SEND) * g->size + w->call.root];
        if (!*taken) {
            *taken = true;
            set.n_fds += coll_flow_fds(g, &w->flow, q->fds + set.n_fds);
            q->flows[set.n_flows++] = &w->flow;
        }
        w = i + 1 < n ? w->next : NULL;
    }
    set.tcp = set.n_fds > 0;
    q->fds[set.n_fds++] = (struct pollfd){.fd = g->alarm, .events = POLLIN};
    q->fds[set.n_fds++] = (struct pollfd){.fd = q->more, .events = POLLIN};
    coll_flows_wait(g, &set, tries);
    eventfd_t none;
    /* no wait: the descriptor is non-blocking */
    (void)eventfd_read(q->more, &none);
}

/* Makes sends and receives until the queue is empty or begins with a call of all ranks. */
static void pairs_make(struct coll_queue *q, struct rt_group *g) {
    uint32_t n, tries = 0;
    while ((n = pairs_ahead(q)) > 0) {
        if (pairs_move(q, g, n, tries < COLL_TRIES)) {
            tries = 0;
        } else if (tries++ >= COLL_TRIES) {
            pairs_wait(q, g, n, tries);
        }
    }
}

/* ---- sends and receives on a GPU ---- */

static bool may_begin(const struct coll_queue *q) {
    return q->first && (q->first->sort != GPU_PAIR || q->first->number <= q->pressed);
}

/* Makes all sends and receives at the head of the queue as one batch. */
static void gpu_pairs_make(struct coll_queue *q, struct rt_group *g) {
    uint32_t n = 0;
    pthread_mutex_lock(&q->m);
    for (const struct rt_work *w = q->first; w && w->sort == GPU_PAIR; w = w->next) {
        n++;
    }
    CO_AUTOFREE struct rt_coll *calls = co_xcalloc(n, sizeof(*calls));
    const struct rt_work *from = q->first;
    for (uint32_t i = 0; i < n; i++, from = from->next) {
        calls[i] = from->call;
    }
    pthread_mutex_unlock(&q->m);
    int rc = coll_gpu_make(g, calls, n);
    for (uint32_t i = 0; i < n; i++) {
        finish(q, q->first, rc);
    }
}

/* ---- the queue ---- */

static struct rt_work *queue_next(struct coll_queue *q) {
    pthread_mutex_lock(&q->m);
    while (!may_begin(q) && !q->stop) {
        /* no deadline: until a call is started, or the queue ends */
        pthread_cond_wait(&q->changed, &q->m);
    }
    struct rt_work *w = q->first;
    pthread_mutex_unlock(&q->m);
    return w;
}

static void *queue_run(void *arg) {
    struct coll_queue *q = arg;
    struct rt_work *w;
    while ((w = queue_next(q))) {
        if (w->sort == PAIR) {
            pairs_make(q, w->g);
        } else if (w->sort == GPU_PAIR) {
            gpu_pairs_make(q, w->g);
        } else {
            finish(q, w, coll_call_make(w->g, &w->call));
        }
    }
    return NULL;
}

bool coll_queue_busy(const struct rt_group *g) {
    return g->queue && atomic_load_explicit(&g->queue->waiting, memory_order_acquire) > 0;
}

static void queue_free(struct coll_queue *q) {
    co_close(q->more);
    pthread_mutex_destroy(&q->m);
    pthread_cond_destroy(&q->changed);
    free(q->taken);
    free(q->fds);
    free(q->flows);
    free(q);
}

/* Its mutex and conditions may be in use by the thread that is not here. */
void coll_queue_forget(struct rt_group *g) {
    if (g->queue) {
        co_close(g->queue->more);
        free(g->queue->taken);
        free(g->queue->fds);
        free(g->queue->flows);
        free(g->queue);
    }
}

static int queue_start(struct rt_group *g, struct co_err *err) {
    int more = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (more < 0) {
        return co_err_errno(err, errno, "an event");
    }
    struct coll_queue *q = co_xcalloc(1, sizeof(*q));
    pthread_mutex_init(&q->m, NULL);
    co_cond_init(&q->changed);
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

void coll_queue_stop(struct rt_group *g) {
    struct coll_queue *q = g->queue;
    if (q) {
        pthread_mutex_lock(&q->m);
        q->stop = true;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->m);
        /* no deadline: the calls in the queue have the group's time limit */
        pthread_join(q->thread, NULL);
        queue_free(q);
        g->queue = NULL;
    }
}

int coll_queue_add(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err) {
    if (!g->queue) {
        CO_TRY(queue_start(g, err));
    }
    struct rt_work *w = co_xcalloc(1, sizeof(*w));
    struct coll_queue *q = g->queue;
    *w = (struct rt_work){.queue = q, .g = g, .call = *call, .sort = sort_of(g, call)};
    pthread_mutex_lock(&q->m);
    w->number = ++q->started;
    q->pressed = w->sort == GPU_PAIR ? q->pressed : w->number;
    *q->end = w;
    q->end = &w->next;
    atomic_fetch_add(&q->waiting, 1);
    if (q->pairing) {
        (void)eventfd_write(q->more, 1);
        if (g->shm.base) {
            coll_bell_ring(&g->shm, g->shm.me);
        }
    }
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->m);
    *ret_work = w;
    return 0;
}

int coll_call_start(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err) {
    CO_TRY(coll_group_enter(g, coll_call_name(call), err));
    int rc = coll_queue_add(g, call, ret_work, err);
    coll_group_leave(g);
    return rc;
}

int rt_coll_start(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err) {
    CO_TRY(coll_call_check(g, call, err));
    return coll_call_start(g, call, ret_work, err);
}

/* In a forked child the call never ends: the thread that makes it is the parent's. */
static bool is_parents(const struct rt_work *w) {
    return !atomic_load(&w->done) && w->g->fork.forked;
}

bool rt_work_test(const struct rt_work *work) {
    struct coll_queue *q = work->queue;
    if (is_parents(work)) {
        return true;
    }
    if (!atomic_load(&work->done) && work->sort == GPU_PAIR) {
        pthread_mutex_lock(&q->m);
        q->pressed = q->started;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->m);
    }
    return atomic_load(&work->done);
}

int rt_work_wait(struct rt_work *work_own, struct co_err *err) {
    struct coll_queue *q = work_own->queue;
    if (is_parents(work_own)) {
        free(work_own);
        return co_fork_refuse("the started call", err);
    }
    if (!rt_work_test(work_own)) {
        int64_t ask_ms = co_interrupt_next();
        pthread_mutex_lock(&q->m);
        while (!atomic_load(&work_own->done)) {
            /* no deadline: the calls in the queue have the group's time limit */
            if (co_interrupt_wait(&q->changed, &q->m, INT64_MAX, &ask_ms)) {
                pthread_mutex_unlock(&q->m);
                rt_group_abort(work_own->g, "the program has ended the wait");
                pthread_mutex_lock(&q->m);
            }
        }
        pthread_mutex_unlock(&q->m);
    }
    int rc = work_own->code;
    if (rc < 0 && err) {
        *err = work_own->err;
    }
    free(work_own);
    return rc;
}
