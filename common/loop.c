/* The event loop on libuv.  The only file that includes uv.h. */
#include "common/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include <uv.h>

/* What timers, polls and signals have in common.  libuv needs the memory of a handle until its
 * close callback has run, so a freed handle leaves the list at once but lives until then. */
struct handle {
    struct handle *prev, *next; /* in co_loop.open */
    struct co_loop *loop;
    bool closing;
    union {
        uv_handle_t any;
        uv_timer_t timer;
        uv_poll_t poll;
        uv_signal_t signal;
    } uv;
};

struct post {
    struct post *next;
    void (*fn)(void *arg);
    void *arg;
};

struct co_loop {
    uv_loop_t uv;
    uv_async_t async;
    struct handle open; /* ring of handles that are not freed */
    bool running;
    bool stopped;
    /* Timers without a delay, oldest first.  They do not use libuv's timers, which cost more and
     * would wait for 1 ms when one is started by another. */
    uv_idle_t idle; /* active while the list is not empty */
    struct co_timer *soon_first, *soon_last;
    unsigned turn; /* counts runs of the list */
    pthread_mutex_t lock;
    struct post *first, **last; /* guarded by lock */
};

enum {
    AWAKE_PARTS = 8,
    LOOP_FILES = 6, /* two pipes, epoll, an eventfd */
};

struct co_timer {
    struct handle h;
    void (*fn)(void *arg);
    void *arg;
    struct co_timer *soon_prev, *soon_next;
    bool soon;     /* in co_loop.soon_* */
    unsigned turn; /* in which it was added */
    /* co_timer_start_awake: the delay in equal parts.  A part that ends late by more than its
     * length does not count, as often as there are parts. */
    int64_t part_ms; /* 0: started by co_timer_start */
    int64_t part_due;
    int parts, excuses; /* that are left */
};

struct co_poll {
    struct handle h;
    void (*fn)(void *arg, int events);
    void *arg;
    int events; /* requested, CO_POLL_* */
};

struct co_signal {
    struct handle h;
    void (*fn)(void *arg, int signo);
    void *arg;
    int signo;
};

/* libuv sets a signal to SIG_DFL when its last handler stops.  This keeps the disposition that was
 * set before, for all loops of the process. */
static struct {
    pthread_mutex_t lock;
    struct {
        unsigned users;
        struct sigaction before;
    } of[NSIG];
} dispositions = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void handle_link(struct co_loop *l, struct handle *h) {
    h->loop = l;
    h->uv.any.data = h;
    h->next = &l->open;
    h->prev = l->open.prev;
    h->prev->next = h;
    l->open.prev = h;
}

static void handle_closed(uv_handle_t *uv) {
    free(uv->data);
}

static void handle_free(struct handle *h) {
    assert(!h->closing);
    h->closing = true;
    h->prev->next = h->next;
    h->next->prev = h->prev;
    uv_close(&h->uv.any, handle_closed);
}

/* Runs what was posted until now; what is posted meanwhile waits for the next turn. */
static bool run_posted(struct co_loop *l) {
    pthread_mutex_lock(&l->lock);
    struct post *p = l->first;
    l->first = NULL;
    l->last = &l->first;
    pthread_mutex_unlock(&l->lock);
    bool any = p != NULL;
    while (p) {
        struct post *next = p->next;
        void (*fn)(void *arg) = p->fn;
        void *arg = p->arg;
        free(p);
        fn(arg);
        p = next;
    }
    return any;
}

static void on_async(uv_async_t *a) {
    run_posted(a->data);
}

/* libuv ends the process where it has no descriptor for what all loops share.  0, or an error
 * number. */
static int try_descriptors(void) {
    int fds[LOOP_FILES], n = 0, e = 0;
    while (n < LOOP_FILES && e == 0) {
        fds[n] = eventfd(0, EFD_CLOEXEC);
        e = fds[n] < 0 ? errno : 0;
        n += e == 0;
    }
    while (n > 0) {
        co_close(fds[--n]);
    }
    return e;
}

int co_loop_new(struct co_loop **ret, struct co_err *err) {
    int e = try_descriptors();
    if (e) {
        return co_err_errno(err, e, "cannot start an event loop");
    }
    struct co_loop *l = co_xcalloc(1, sizeof(*l));
    int r = uv_loop_init(&l->uv);
    if (r < 0) {
        free(l);
        return co_err_errno(err, -r, "cannot start an event loop");
    }
    r = uv_async_init(&l->uv, &l->async, on_async);
    if (r < 0) {
        (void)uv_loop_close(&l->uv);
        free(l);
        return co_err_errno(err, -r, "cannot start an event loop");
    }
    (void)uv_idle_init(&l->uv, &l->idle);
    l->idle.data = l;
    l->async.data = l;
    uv_unref((uv_handle_t *)&l->async);
    pthread_mutex_init(&l->lock, NULL);
    l->last = &l->first;
    l->open.next = l->open.prev = &l->open;
    *ret = l;
    return 0;
}

static void close_foreign(uv_handle_t *uv, void *arg) {
    (void)arg;
    if (!uv_is_closing(uv)) {
        uv_close(uv, NULL);
    }
}

void co_loop_free(struct co_loop *l) {
    if (!l) {
        return;
    }
    assert(!l->running);
    while (l->open.next != &l->open) {
        struct handle *h = l->open.next;
        if (h->uv.any.type == UV_SIGNAL) {
            co_signal_free((struct co_signal *)h);
        } else {
            handle_free(h);
        }
    }
    uv_walk(&l->uv, close_foreign, NULL);
    /* no wait: all that is left to do is to close handles */
    (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    int r = uv_loop_close(&l->uv);
    assert(r == 0);
    (void)r;
    while (l->first) {
        struct post *p = l->first;
        l->first = p->next;
        free(p);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void begin_running(struct co_loop *l) {
    assert(!l->running);
    l->running = true;
}

static void end_running(struct co_loop *l) {
    l->running = false;
    l->stopped = false;
}

void co_loop_run(struct co_loop *l) {
    begin_running(l);
    while (!l->stopped) {
        /* no deadline: until co_loop_stop, or until nothing is armed */
        (void)uv_run(&l->uv, UV_RUN_DEFAULT);
        /* With nothing armed libuv does not check the async handle. */
        if (!l->stopped && !run_posted(l) && !uv_loop_alive(&l->uv)) {
            break;
        }
    }
    end_running(l);
}

void co_loop_turn(struct co_loop *l) {
    begin_running(l);
    if (!l->stopped) {
        bool alive = uv_loop_alive(&l->uv);
        /* no deadline: until something that the caller has armed */
        (void)uv_run(&l->uv, UV_RUN_ONCE);
        if (!alive) {
            run_posted(l);
        }
    }
    end_running(l);
}

int co_loop_fd(const struct co_loop *l) {
    return uv_backend_fd(&l->uv);
}

int co_loop_patience(struct co_loop *l) {
    uv_update_time(&l->uv);
    return uv_loop_alive(&l->uv) ? uv_backend_timeout(&l->uv) : -1;
}

void co_loop_serve(struct co_loop *l) {
    begin_running(l);
    if (!l->stopped) {
        (void)uv_run(&l->uv, UV_RUN_NOWAIT);
    }
    end_running(l);
}

void co_loop_stop(struct co_loop *l) {
    l->stopped = true;
    if (l->running) {
        uv_stop(&l->uv);
    }
}

int64_t co_loop_now(const struct co_loop *l) {
    return (int64_t)uv_now(&l->uv);
}

int64_t co_wall_seconds(void) {
    return co_wall_ms() / 1000;
}

int64_t co_wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void co_loop_post(struct co_loop *l, void (*fn)(void *arg), void *arg) {
    struct post *p = co_xmalloc(sizeof(*p));
    *p = (struct post){.fn = fn, .arg = arg};
    pthread_mutex_lock(&l->lock);
    *l->last = p;
    l->last = &p->next;
    /* Inside the lock, because the loop may be freed as soon as fn has run. */
    (void)uv_async_send(&l->async);
    pthread_mutex_unlock(&l->lock);
}

struct co_timer *co_timer_new(struct co_loop *l, void (*fn)(void *arg), void *arg) {
    struct co_timer *t = co_xcalloc(1, sizeof(*t));
    t->fn = fn;
    t->arg = arg;
    (void)uv_timer_init(&l->uv, &t->h.uv.timer);
    handle_link(l, &t->h);
    return t;
}

static void soon_add(struct co_timer *t) {
    struct co_loop *l = t->h.loop;
    t->soon = true;
    t->turn = l->turn;
    t->soon_next = NULL;
    t->soon_prev = l->soon_last;
    *(l->soon_last ? &l->soon_last->soon_next : &l->soon_first) = t;
    l->soon_last = t;
}

static void soon_remove(struct co_timer *t) {
    struct co_loop *l = t->h.loop;
    if (t->soon) {
        *(t->soon_prev ? &t->soon_prev->soon_next : &l->soon_first) = t->soon_next;
        *(t->soon_next ? &t->soon_next->soon_prev : &l->soon_last) = t->soon_prev;
        t->soon = false;
    }
}

/* Timers that are added meanwhile run in the next turn, after descriptors have been polled. */
static void run_soon(uv_idle_t *uv) {
    struct co_loop *l = uv->data;
    struct co_timer *t;
    l->turn++;
    while ((t = l->soon_first) && t->turn != l->turn) {
        soon_remove(t);
        t->fn(t->arg);
    }
    if (!l->soon_first) {
        (void)uv_idle_stop(&l->idle);
    }
}

static void start_part(struct co_timer *t);

static void on_timer(uv_timer_t *uv) {
    struct co_timer *t = uv->data;
    if (t->part_ms) {
        bool late = co_now_ms() - t->part_due > t->part_ms;
        *(late && t->excuses ? &t->excuses : &t->parts) -= 1;
        if (t->parts) {
            start_part(t);
            return;
        }
    }
    t->fn(t->arg);
}

static void start_delay(struct co_timer *t, int64_t delay_ms) {
    /* libuv counts from the start of the turn, which may be a while ago. */
    int64_t late = co_now_ms() - co_loop_now(t->h.loop);
    if (late > 0 && delay_ms <= INT64_MAX - late) {
        delay_ms += late;
    }
    (void)uv_timer_start(&t->h.uv.timer, on_timer, (uint64_t)delay_ms, 0);
}

static void start_part(struct co_timer *t) {
    t->part_due = co_now_ms() + t->part_ms;
    start_delay(t, t->part_ms);
}

void co_timer_start(struct co_timer *t, int64_t delay_ms) {
    struct co_loop *l = t->h.loop;
    assert(!t->h.closing);
    co_timer_stop(t);
    t->part_ms = 0;
    if (delay_ms <= 0) {
        soon_add(t);
        (void)uv_idle_start(&l->idle, run_soon);
        return;
    }
    start_delay(t, delay_ms);
}

void co_timer_start_awake(struct co_timer *t, int64_t delay_ms) {
    assert(!t->h.closing);
    co_timer_stop(t);
    t->part_ms = delay_ms > 0 ? delay_ms / AWAKE_PARTS + 1 : 1;
    t->parts = t->excuses = AWAKE_PARTS;
    start_part(t);
}

void co_timer_stop(struct co_timer *t) {
    soon_remove(t);
    (void)uv_timer_stop(&t->h.uv.timer);
}

bool co_timer_armed(const struct co_timer *t) {
    return t->soon || uv_is_active(&t->h.uv.any) != 0;
}

void co_timer_free(struct co_timer *t) {
    if (t) {
        soon_remove(t);
        handle_free(&t->h);
    }
}

int co_poll_new(struct co_loop *l, int fd, void (*fn)(void *arg, int events), void *arg,
    struct co_poll **ret, struct co_err *err) {
    struct co_poll *p = co_xcalloc(1, sizeof(*p));
    p->fn = fn;
    p->arg = arg;
    int r = uv_poll_init(&l->uv, &p->h.uv.poll, fd);
    if (r < 0) {
        free(p);
        return co_err_errno(err, -r, "cannot watch file descriptor %d", fd);
    }
    handle_link(l, &p->h);
    *ret = p;
    return 0;
}

static void on_poll(uv_poll_t *uv, int status, int uv_events);

static void poll_start(struct co_poll *p) {
    int events =
        (p->events & CO_POLL_IN ? UV_READABLE : 0) | (p->events & CO_POLL_OUT ? UV_WRITABLE : 0);
    if (events) {
        (void)uv_poll_start(&p->h.uv.poll, events, on_poll);
    } else {
        (void)uv_poll_stop(&p->h.uv.poll);
    }
}

static void on_poll(uv_poll_t *uv, int status, int uv_events) {
    struct co_poll *p = uv->data;
    int events =
        (uv_events & UV_READABLE ? CO_POLL_IN : 0) | (uv_events & UV_WRITABLE ? CO_POLL_OUT : 0);
    if (status < 0) {
        events = CO_POLL_IN | CO_POLL_OUT;
    }
    p->fn(p->arg, events);
    /* libuv stops polling a descriptor that has an error; our events are level-triggered. */
    if (status < 0 && !p->h.closing) {
        poll_start(p);
    }
}

void co_poll_set(struct co_poll *p, int events) {
    assert(!p->h.closing);
    if (p->events != events) {
        p->events = events;
        poll_start(p);
    }
}

void co_poll_free(struct co_poll *p) {
    if (p) {
        handle_free(&p->h);
    }
}

static void on_signal(uv_signal_t *uv, int signo) {
    struct co_signal *s = uv->data;
    s->fn(s->arg, signo);
}

static int signal_start(struct co_signal *s) {
    pthread_mutex_lock(&dispositions.lock);
    struct sigaction before;
    int r = sigaction(s->signo, NULL, &before) < 0 ? -errno : 0;
    if (r == 0) {
        r = uv_signal_start(&s->h.uv.signal, on_signal, s->signo);
    }
    if (r == 0 && dispositions.of[s->signo].users++ == 0) {
        dispositions.of[s->signo].before = before;
    }
    pthread_mutex_unlock(&dispositions.lock);
    return r;
}

bool co_signal_ignored(int signo) {
    struct sigaction a;
    return sigaction(signo, NULL, &a) == 0 && a.sa_handler == SIG_IGN;
}

int co_signal_new(struct co_loop *l, int signo, void (*fn)(void *arg, int signo), void *arg,
    struct co_signal **ret, struct co_err *err) {
    if (signo <= 0 || signo >= NSIG) {
        return co_err_set(err, CO_INVALID, "%d is not a signal", signo);
    }
    struct co_signal *s = co_xcalloc(1, sizeof(*s));
    s->fn = fn;
    s->arg = arg;
    s->signo = signo;
    int r = uv_signal_init(&l->uv, &s->h.uv.signal);
    if (r < 0) {
        free(s);
        return co_err_errno(err, -r, "cannot watch signal %d", signo);
    }
    handle_link(l, &s->h);
    r = signal_start(s);
    if (r < 0) {
        handle_free(&s->h);
        return co_err_errno(err, -r, "cannot watch signal %d", signo);
    }
    *ret = s;
    return 0;
}

void co_signal_free(struct co_signal *s) {
    if (!s) {
        return;
    }
    pthread_mutex_lock(&dispositions.lock);
    handle_free(&s->h);
    if (--dispositions.of[s->signo].users == 0) {
        (void)sigaction(s->signo, &dispositions.of[s->signo].before, NULL);
    }
    pthread_mutex_unlock(&dispositions.lock);
}
