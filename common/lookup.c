/* DNS lookups in threads, for connections on the loop. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "common/clock.h"
#include "common/conn.h"
#include "common/interrupt.h"

/* Threads that wait for the resolver at a time.  While it does not answer, each attempt of a caller
 * that tries again leaves some behind. */
enum { THREADS_MAX = 256 };
static atomic_int threads;

/* getaddrinfo cannot be interrupted, and takes half a minute if the resolver does not answer.  So
 * it runs in a thread of its own, which is not waited for.  The last owner frees the struct. */
struct co_lookup {
    atomic_int owners; /* reference count: the loop's side and the thread */
    char *host, port[8];
    int done; /* an eventfd: the thread has set list and status */
    struct addrinfo *list;
    int status; /* getaddrinfo's result */
    /* used by the loop's side only */
    struct co_poll *poll; /* on done */
    struct co_timer *now; /* for results without a thread: numeric addresses, no thread available */
    void (*fn)(void *arg, const struct addrinfo *list, const struct co_err *err);
    void *arg;
};

static void disown_lookup(struct co_lookup *q) {
    if (atomic_fetch_sub(&q->owners, 1) > 1) {
        return;
    }
    if (q->list) {
        freeaddrinfo(q->list);
    }
    co_closep(&q->done);
    free(q->host);
    free(q);
}

static int ask_resolver(struct co_lookup *q, int flags) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    /* no deadline: this thread is its own, and co_lookup_cancel does not wait for it */
    return getaddrinfo(q->host, q->port, &hints, &q->list);
}

static void *run_lookup(void *arg) {
    struct co_lookup *q = arg;
    q->status = ask_resolver(q, AI_ADDRCONFIG);
    (void)atomic_fetch_sub(&threads, 1);
    (void)eventfd_write(q->done, 1);
    disown_lookup(q);
    return NULL;
}

/* Blocks all signals in the thread, as the loop's thread handles them. */
static int start_thread(struct co_lookup *q) {
    pthread_attr_t detached;
    pthread_t id;
    sigset_t all, before;
    if (atomic_fetch_add(&threads, 1) >= THREADS_MAX) {
        (void)atomic_fetch_sub(&threads, 1);
        return EAGAIN;
    }
    sigfillset(&all);
    (void)pthread_attr_init(&detached);
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&q->owners, 2);
    int r = pthread_create(&id, &detached, run_lookup, q);
    if (r) {
        atomic_store(&q->owners, 1);
        (void)atomic_fetch_sub(&threads, 1);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&detached);
    return r;
}

static void return_result(void *arg) {
    struct co_lookup *q = arg;
    struct co_err err = {0};
    if (!q->list) {
        (void)co_err_set(
            &err, CO_NOTFOUND, "cannot find host %s: %s", q->host, gai_strerror(q->status));
    }
    q->fn(q->arg, q->list, &err);
    co_lookup_cancel(q);
}

static void on_done(void *arg, int events) {
    struct co_lookup *q = arg;
    eventfd_t n;
    (void)events;
    /* no wait: a poll has seen it */
    (void)eventfd_read(q->done, &n);
    return_result(q);
}

struct co_lookup *co_lookup_start(struct co_loop *l, const char *host, uint16_t port,
    void (*fn)(void *arg, const struct addrinfo *list, const struct co_err *err), void *arg) {
    struct co_lookup *q = co_xcalloc(1, sizeof(*q));
    atomic_init(&q->owners, 1);
    q->fn = fn;
    q->arg = arg;
    q->host = co_xstrdup(host);
    (void)snprintf(q->port, sizeof(q->port), "%u", port);
    q->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ask_resolver(q, AI_NUMERICHOST)) {
        q->status = EAI_AGAIN; /* the result if no thread can be started */
        if (q->done >= 0 && co_poll_new(l, q->done, on_done, q, &q->poll, NULL) == 0) {
            co_poll_set(q->poll, CO_POLL_IN);
            if (start_thread(q) == 0) {
                return q;
            }
        }
    }
    q->now = co_timer_new(l, return_result, q);
    co_timer_start(q->now, 0);
    return q;
}

struct asking {
    struct co_loop *loop;
    struct co_timer *timer; /* NULL: nobody has said whom to ask */
    int64_t ask_ms;
};

static void on_end(void *arg) {
    struct asking *a = arg;
    co_loop_stop(a->loop);
}

static void on_ask(void *arg) {
    struct asking *a = arg;
    if (co_interrupted(&a->ask_ms)) {
        co_loop_stop(a->loop);
    } else {
        co_timer_start(a->timer, a->ask_ms - co_now_ms());
    }
}

void co_lookup_run(struct co_loop *l, int64_t end_ms) {
    struct asking a = {.loop = l, .ask_ms = co_interrupt_next()};
    struct co_timer *end = co_timer_new(l, on_end, &a);
    co_timer_start(end, end_ms - co_now_ms());
    if (a.ask_ms < INT64_MAX) {
        a.timer = co_timer_new(l, on_ask, &a);
        co_timer_start(a.timer, a.ask_ms - co_now_ms());
    }
    co_loop_run(l);
    co_timer_free(a.timer);
    co_timer_free(end);
}

void co_lookup_cancel(struct co_lookup *q) {
    if (q) {
        co_timer_free(q->now);
        co_poll_free(q->poll);
        disown_lookup(q);
    }
}
