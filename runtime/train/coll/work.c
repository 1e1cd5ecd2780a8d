/* Started calls: a queue and a thread that makes them in order.  The thread begins with the first
 * of them. */
#include "runtime/train/coll/coll.h"

struct rt_work {
    struct rt_work *next;
    struct rt_queue *queue;
    struct rt_group *g;
    struct rt_coll call;
    _Atomic bool done;
    int code;
    struct co_err err;
};

struct rt_queue {
    pthread_t thread;
    pthread_mutex_t m;
    pthread_cond_t changed;
    struct rt_work *first, **end; /* not ended yet */
    _Atomic uint32_t waiting;     /* how many these are */
    bool stop;
};

static void make(struct rt_work *w) {
    w->code = rt_call_make(w->g, &w->call);
    if (w->code < 0) {
        (void)rt_group_why(w->g, &w->err);
        (void)co_err_wrap(&w->err, "%s", rt_kind_name(w->call.kind));
    }
}

static void *queue_run(void *arg) {
    struct rt_queue *q = arg;
    pthread_mutex_lock(&q->m);
    for (;;) {
        while (!q->first && !q->stop) {
            pthread_cond_wait(&q->changed, &q->m);
        }
        struct rt_work *w = q->first;
        if (!w) {
            break;
        }
        pthread_mutex_unlock(&q->m);
        make(w);
        pthread_mutex_lock(&q->m);
        q->first = w->next;
        q->end = q->first ? q->end : &q->first;
        atomic_fetch_sub(&q->waiting, 1);
        atomic_store(&w->done, true); /* and w may be gone */
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->m);
    return NULL;
}

bool rt_queue_busy(const struct rt_group *g) {
    return g->queue && atomic_load_explicit(&g->queue->waiting, memory_order_acquire) > 0;
}

static int queue_start(struct rt_group *g, struct co_err *err) {
    CO_AUTOFREE struct rt_queue *q = co_xcalloc(1, sizeof(*q));
    pthread_mutex_init(&q->m, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->end = &q->first;
    int e = pthread_create(&q->thread, NULL, queue_run, q);
    if (e) {
        return co_err_errno(err, e, "a thread for started calls");
    }
    g->queue = co_steal_ptr(q);
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
        pthread_mutex_destroy(&q->m);
        pthread_cond_destroy(&q->changed);
        free(q);
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
