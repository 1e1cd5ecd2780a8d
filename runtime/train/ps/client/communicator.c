/* Merges async pushes to sparse tables.  rt_push_sparse copies a push into its table's queue;
 * sender threads merge pushes and send them, while the trainer computes.
 *
 *     rt_push_sparse --copy--> [push][push][push]      at most queue_max wait, then it blocks
 *                               \_____________/
 *                              merge_max of them       joined; psc_send_rows sums equal ids
 *                                     |
 *                               psc_send_rows           one call at a time for each table
 *
 * The order in which pushes are summed changes only the rounding.  A pull may miss the newest
 * pushes of its own trainer.  The failure of a sender is the result of all later calls, until the
 * client rejoins. */
#include <string.h>

#include "common/interrupt.h"
#include "common/thread.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"

struct push {
    struct push *next;
    size_t n;
    uint64_t *ids;    /* [n], in this allocation */
    float *gradients; /* [n][dim], in this allocation */
};

struct queue {
    struct push *first, **end;
    uint32_t n;
    bool busy; /* a thread merges and sends */
};

struct psc_communicator {
    struct rt_client *c;
    uint32_t n_threads;
    pthread_t *threads;
    pthread_mutex_t m; /* guards what follows; never held together with the client's */
    pthread_cond_t changed;
    struct queue *queues; /* by table */
    uint32_t next;        /* the table where the next search for work begins */
    uint32_t flushing;    /* threads in flush: no push waits for others meanwhile */
    bool clearing;        /* the client rejoins: senders start nothing */
    bool stopping;
    struct co_err err;
};

/* ---- sending ---- */

static struct queue *find_work(struct psc_communicator *m) {
    for (uint32_t i = 0; i < m->c->n_tables && !m->clearing; i++) {
        struct queue *q = &m->queues[(m->next + i) % m->c->n_tables];
        if (q->n > 0 && !q->busy) {
            m->next = (uint32_t)(q - m->queues) + 1;
            return q;
        }
    }
    return NULL;
}

static bool may_wait(const struct psc_communicator *m) {
    return !m->flushing && !m->clearing && !m->stopping;
}

/* Waits for more pushes to merge, as long as each comes within send_wait_ms of the one before.  The
 * lock is held. */
static void await_others(struct psc_communicator *m, const struct queue *q) {
    const struct rt_client_options *o = &m->c->options;
    int64_t until = co_now_ms() + o->send_wait_ms;
    uint32_t seen = q->n;
    while (q->n < o->merge_max && may_wait(m) && co_now_ms() < until) {
        (void)co_cond_wait_until(&m->changed, &m->m, until);
        until = q->n > seen ? co_now_ms() + o->send_wait_ms : until;
        seen = q->n;
    }
}

/* Takes the pushes to merge from the front of the queue.  *ret_n: their rows in all. */
static struct push *take_pushes(
    struct psc_communicator *m, struct queue *q, uint32_t *ret_pushes, size_t *ret_n) {
    struct push *first = q->first, **end = &q->first;
    *ret_pushes = 0;
    *ret_n = 0;
    while (*end && *ret_pushes < m->c->options.merge_max &&
           (*ret_pushes == 0 || *ret_n + (*end)->n <= PSC_SPARSE_IDS_MAX)) {
        *ret_n += (*end)->n;
        (*ret_pushes)++;
        end = &(*end)->next;
    }
    q->first = *end;
    q->end = q->first ? q->end : &q->first;
    q->n -= *ret_pushes;
    *end = NULL;
    return first;
}

static struct push *push_new(size_t n, size_t dim) {
    struct push *p = co_xmalloc(sizeof(*p) + n * (sizeof(uint64_t) + dim * sizeof(float)));
    *p = (struct push){.n = n, .ids = (uint64_t *)(void *)(p + 1)};
    p->gradients = (float *)(void *)(p->ids + n);
    return p;
}

static void drop_pushes(struct push *p) {
    for (struct push *next; p; p = next) {
        next = p->next;
        free(p);
    }
}

/* Joins the list to one push. */
static struct push *join_pushes(struct push *list_own, size_t n, size_t dim) {
    if (!list_own->next) {
        return list_own;
    }
    struct push *all = push_new(n, dim);
    size_t at = 0;
    for (const struct push *p = list_own; p; p = p->next) {
        memcpy(all->ids + at, p->ids, p->n * sizeof(*p->ids));
        memcpy(all->gradients + at * dim, p->gradients, p->n * dim * sizeof(float));
        at += p->n;
    }
    drop_pushes(list_own);
    return all;
}

static int send_pushes(struct psc_communicator *m, uint32_t table, struct push *list_own,
    uint32_t pushes, size_t n, struct co_err *err) {
    size_t dim = m->c->tables[table].spec.dim;
    struct push *p = join_pushes(list_own, n, dim);
    if (m->c->options.merge_mean) {
        ps_mean(p->gradients, n * dim, pushes);
    }
    int rc = psc_send_rows(m->c, table, RPC_FRAME_PUSH_SPARSE, p->ids, n, p->gradients, dim, err);
    free(p);
    return rc;
}

static void *run_sender(void *arg) {
    struct psc_communicator *m = arg;
    pthread_mutex_lock(&m->m);
    while (!m->stopping) {
        struct queue *q = find_work(m);
        if (!q) {
            /* no deadline: until there is a push to send, or the communicator stops */
            pthread_cond_wait(&m->changed, &m->m);
            continue;
        }
        q->busy = true;
        await_others(m, q);
        uint32_t pushes;
        size_t n;
        struct push *list = take_pushes(m, q, &pushes, &n);
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->m);
        struct co_err err = {0};
        int rc = send_pushes(m, (uint32_t)(q - m->queues), list, pushes, n, &err);
        pthread_mutex_lock(&m->m);
        q->busy = false;
        if (rc < 0 && !m->err.code) {
            m->err = err;
        }
        pthread_cond_broadcast(&m->changed);
    }
    pthread_mutex_unlock(&m->m);
    return NULL;
}

/* ---- handing over ---- */

static int read_error(const struct psc_communicator *m, struct co_err *err) {
    return m->err.code ? co_err_set(err, m->err.code, "%s", m->err.msg) : 0;
}

/* The wait here is bounded: a sender's call ends in time, or fails with CO_TIMEOUT. */
int psc_communicator_push(struct psc_communicator *m, uint32_t table, const uint64_t *ids, size_t n,
    const float *gradients, struct co_err *err) {
    size_t dim = m->c->tables[table].spec.dim;
    struct push *p = push_new(n, dim);
    memcpy(p->ids, ids, n * sizeof(*ids));
    memcpy(p->gradients, gradients, n * dim * sizeof(float));
    struct queue *q = &m->queues[table];
    int64_t ask_ms = co_interrupt_next();
    bool ended = false;
    pthread_mutex_lock(&m->m);
    while (q->n >= m->c->options.queue_max && !m->err.code && !ended) {
        /* no deadline: the call of a sender ends in time, or fails */
        ended = co_interrupt_wait(&m->changed, &m->m, INT64_MAX, &ask_ms);
    }
    int rc = ended ? co_interrupt_error("push", err) : read_error(m, err);
    if (rc == 0) {
        *q->end = p;
        q->end = &p->next;
        q->n++;
        pthread_cond_broadcast(&m->changed);
    }
    pthread_mutex_unlock(&m->m);
    if (rc < 0) {
        free(p);
    }
    return rc;
}

static bool is_idle(const struct psc_communicator *m) {
    for (uint32_t i = 0; i < m->c->n_tables; i++) {
        if (m->queues[i].n > 0 || m->queues[i].busy) {
            return false;
        }
    }
    return true;
}

int psc_communicator_flush(struct psc_communicator *m, struct co_err *err) {
    int64_t ask_ms = co_interrupt_next();
    bool ended = false;
    pthread_mutex_lock(&m->m);
    m->flushing++;
    pthread_cond_broadcast(&m->changed);
    while (!is_idle(m) && !m->err.code && !ended) {
        /* no deadline: the call of a sender ends in time, or fails */
        ended = co_interrupt_wait(&m->changed, &m->m, INT64_MAX, &ask_ms);
    }
    m->flushing--;
    int rc = ended ? co_interrupt_error("flush", err) : read_error(m, err);
    pthread_mutex_unlock(&m->m);
    return rc;
}

/* ---- rejoining ---- */

static bool is_sending(const struct psc_communicator *m) {
    for (uint32_t i = 0; i < m->c->n_tables; i++) {
        if (m->queues[i].busy) {
            return true;
        }
    }
    return false;
}

/* The wait here is short: calls of a failed client end at once. */
void psc_communicator_clear(struct psc_communicator *m) {
    if (!m) {
        return;
    }
    pthread_mutex_lock(&m->m);
    m->clearing = true;
    pthread_cond_broadcast(&m->changed);
    while (is_sending(m)) {
        /* no deadline: calls of a failed client end at once */
        pthread_cond_wait(&m->changed, &m->m);
    }
    for (uint32_t i = 0; i < m->c->n_tables; i++) {
        struct queue *q = &m->queues[i];
        drop_pushes(q->first);
        *q = (struct queue){.end = &q->first};
    }
    m->clearing = false;
    m->err = (struct co_err){0};
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->m);
}

/* ---- opening, closing ---- */

static uint32_t count_threads(const struct rt_client *c) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_tables; i++) {
        n += c->tables[i].spec.kind == RT_SPARSE && c->tables[i].spec.mode == RT_ASYNC;
    }
    return n < c->options.send_threads ? n : c->options.send_threads;
}

int psc_communicator_start(struct rt_client *c, struct psc_communicator **ret, struct co_err *err) {
    uint32_t n = c->options.queue_max > 0 ? count_threads(c) : 0;
    if (n == 0) {
        *ret = NULL;
        return 0;
    }
    struct psc_communicator *m = co_xcalloc(1, sizeof(*m));
    co_cond_init(&m->changed);
    pthread_mutex_init(&m->m, NULL);
    m->c = c;
    m->queues = co_xcalloc(c->n_tables, sizeof(*m->queues));
    for (uint32_t i = 0; i < c->n_tables; i++) {
        m->queues[i].end = &m->queues[i].first;
    }
    m->threads = co_xcalloc(n, sizeof(*m->threads));
    while (m->n_threads < n) {
        int e = pthread_create(&m->threads[m->n_threads], NULL, run_sender, m);
        if (e) {
            psc_communicator_stop(m);
            return co_err_errno(err, e, "cannot start a sending thread");
        }
        m->n_threads++;
    }
    *ret = m;
    return 0;
}

void psc_communicator_stop(struct psc_communicator *m) {
    if (!m) {
        return;
    }
    pthread_mutex_lock(&m->m);
    m->stopping = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->m);
    for (uint32_t i = 0; i < m->n_threads; i++) {
        /* no deadline: calls of a failed client end at once */
        pthread_join(m->threads[i], NULL);
    }
    for (uint32_t i = 0; i < m->c->n_tables; i++) {
        drop_pushes(m->queues[i].first);
    }
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->m);
    free(m->threads);
    free(m->queues);
    free(m);
}
