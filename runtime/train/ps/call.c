#include "runtime/train/ps/call.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client_internal.h"

/* What a part weighs besides its payloads: bounds the slots in use. */
enum { PART_WEIGHT = 64 };

struct rt_call *rt_call_new(
    struct rt_client *c, const char *what, const struct rt_table *table, uint32_t n_parts) {
    struct rt_call *call = co_xcalloc(1, sizeof(*call) + n_parts * sizeof(call->parts[0]));
    call->c = c;
    call->what = what;
    call->table = table;
    call->n_parts = n_parts;
    return call;
}

void rt_call_free(struct rt_call *call) {
    if (call) {
        for (uint32_t i = 0; i < call->n_parts; i++) {
            rt_frame_free(call->parts[i].frame);
        }
        free(call);
    }
}

static uint32_t clamp_u32(size_t n) {
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void rt_call_part(struct rt_call *call, uint32_t i, uint32_t server,
    const struct rt_frame_head *head, size_t answer) {
    struct rt_part *p = &call->parts[i];
    p->call = call;
    p->head = *head;
    p->server = server;
    p->answer = clamp_u32(answer);
}

void rt_call_frame(
    struct rt_call *call, uint32_t i, uint32_t server, struct rt_frame *f_own, size_t answer) {
    rt_call_part(call, i, server, &f_own->head, answer);
    call->parts[i].frame = f_own;
}

bool rt_client_wait(struct rt_client *c, int64_t deadline_ms) {
    struct timespec t = {.tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000};
    return pthread_cond_timedwait(&c->changed, &c->m, &t) == 0;
}

bool rt_client_wait_moved(
    struct rt_client *c, int64_t since, const int64_t *moved_ms, int64_t timeout_ms) {
    int64_t from = *moved_ms > since ? *moved_ms : since;
    return rt_client_wait(c, from + timeout_ms) || *moved_ms > from;
}

/* ---- slots: where an answer finds its part; c->m is held ---- */

static void take_slot(struct rt_client *c, struct rt_part *p, struct rt_frame *f) {
    if (c->used_slots == c->n_slots) {
        uint32_t n = c->n_slots ? c->n_slots * 2 : 64;
        c->slots = co_xrealloc(c->slots, n, sizeof(struct rt_part *));
        c->generation = co_xrealloc(c->generation, n, sizeof(*c->generation));
        for (uint32_t i = c->n_slots; i < n; i++) {
            c->slots[i] = NULL;
            c->generation[i] = 0;
        }
        c->n_slots = n;
    }
    uint32_t i = c->used_slots & (c->n_slots - 1);
    while (c->slots[i]) {
        i = (i + 1) & (c->n_slots - 1);
    }
    c->slots[i] = p;
    c->used_slots++;
    p->slot = i;
    p->state = RT_PART_SENT;
    f->head.seq = (uint64_t)++c->generation[i] << 32 | i;
}

static size_t weigh_part(const struct rt_part *p) {
    return (size_t)p->head.bytes + p->answer + PART_WEIGHT;
}

static void give_slot(struct rt_client *c, struct rt_part *p) {
    c->slots[p->slot] = NULL;
    c->used_slots--;
    c->links[p->server].under_way -= weigh_part(p);
}

/* The part's frame was made, or will never be. */
static void part_sent(struct rt_client *c, struct rt_call *call) {
    if (--call->unsent == 0 && call->ret_sent) {
        *call->ret_sent = true;
        pthread_cond_broadcast(&c->changed);
    }
}

/* A part that is in no queue is over; true when it was the call's last and the call is detached. */
static bool part_over(struct rt_client *c, struct rt_part *p) {
    struct rt_call *call = p->call;
    if (p->state == RT_PART_SENT || p->state == RT_PART_TAKING) {
        give_slot(c, p);
    } else {
        part_sent(c, call);
    }
    p->state = RT_PART_DONE;
    c->moved_ms = call->moved_ms = net_now();
    if (c->abandoning) {
        pthread_cond_broadcast(&c->changed);
    }
    if (--call->left > 0) {
        return false;
    }
    pthread_cond_broadcast(&c->changed);
    if (!call->done) {
        return false;
    }
    c->detached--;
    return true;
}

static void end_part(
    struct rt_client *c, struct rt_part *p, const struct co_err *why, struct rt_call **list) {
    struct rt_call *call = p->call;
    if (!call->err.code) {
        call->err = *why;
    }
    if (part_over(c, p)) {
        call->next = *list;
        *list = call;
    }
}

/* Takes the parts of one call, NULL: of all, out of the queue; linked by next. */
static struct rt_part *unqueue_parts(struct rt_link *l, const struct rt_call *only) {
    struct rt_part *taken = NULL, **at = &l->queue;
    while (*at) {
        struct rt_part *p = *at;
        if (only && p->call != only) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = taken;
        taken = p;
    }
    l->queue_end = at;
    return taken;
}

static struct rt_call *end_parts(
    struct rt_client *c, const struct rt_link *only, const struct co_err *why) {
    struct rt_call *list = NULL;
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct rt_link *l = &c->links[i];
        struct rt_part *p = !only || l == only ? unqueue_parts(l, NULL) : NULL;
        for (struct rt_part *next; p; p = next) {
            next = p->next;
            end_part(c, p, why, &list);
        }
    }
    for (uint32_t i = 0; i < c->n_slots; i++) {
        struct rt_part *p = c->slots[i];
        if (p && p->state == RT_PART_SENT && (!only || p->server == only->index)) {
            end_part(c, p, why, &list);
        }
    }
    pthread_cond_broadcast(&c->changed);
    return list;
}

struct rt_call *rt_client_fail(struct rt_client *c, const struct co_err *err) {
    if (!c->failed.code) {
        c->failed = *err;
    }
    return end_parts(c, NULL, &c->failed);
}

struct rt_call *rt_client_end_link(
    struct rt_client *c, const struct rt_link *l, const struct co_err *why) {
    return end_parts(c, l, why);
}

void rt_calls_done(struct rt_call *list) {
    while (list) {
        struct rt_call *next = list->next;
        list->done(list);
        list = next;
    }
}

/* ---- start, answer, wait ---- */

static int make_frame(struct rt_part *p, struct rt_frame **ret, struct co_err *err) {
    if (p->frame) {
        *ret = co_steal_ptr(p->frame);
        return 0;
    }
    int rc = rt_frame_new(p->head.kind, p->head.bytes, ret, err);
    if (rc == 0) {
        (*ret)->head = p->head;
        if (p->head.bytes > 0) {
            p->call->fill(p->call, p, (*ret)->payload);
        }
    }
    return rc;
}

static bool has_room(const struct rt_client *c, const struct rt_link *l, const struct rt_part *p) {
    return l->under_way == 0 || l->under_way + weigh_part(p) <= c->window;
}

static void append_calls(struct rt_call **list, struct rt_call *more) {
    while (*list) {
        list = &(*list)->next;
    }
    *list = more;
}

/* Makes and sends the first part of the queue; the lock is held, but for that. */
static void send_part(struct rt_client *c, struct rt_link *l, struct rt_call **list) {
    struct rt_part *p = l->queue;
    struct rt_call *call = p->call;
    struct rt_frame *f = NULL;
    struct co_err err = {0};
    l->queue = p->next;
    if (!l->queue) {
        l->queue_end = &l->queue;
    }
    if (call->err.code) { /* a part before it failed: the rest is not asked for */
        end_part(c, p, &call->err, list);
        return;
    }
    p->state = RT_PART_MAKING;
    pthread_mutex_unlock(&c->m);
    int rc = make_frame(p, &f, &err);
    pthread_mutex_lock(&c->m);
    if (rc == 0 && (c->failed.code || !l->stream)) {
        rt_frame_free(f);
        rc = c->failed.code ? co_err_set(&err, c->failed.code, "%s", c->failed.msg)
                            : co_err_set(&err, CO_PEERLOST, "server %u (%s): connection closed",
                                  l->index, l->endpoint);
    }
    if (rc < 0) {
        if (call->done) { /* nobody waits for it: it is everybody's */
            append_calls(list, rt_client_fail(c, &err));
        }
        end_part(c, p, &err, list);
        return;
    }
    l->under_way += weigh_part(p);
    take_slot(c, p, f);
    part_sent(c, call);
    struct rt_stream *stream = rt_stream_ref(l->stream);
    pthread_mutex_unlock(&c->m);
    /* A stream that is over says so through on_close, which ends the call. */
    (void)!rt_stream_send(stream, f, NULL);
    rt_stream_unref(stream);
    pthread_mutex_lock(&c->m);
}

/* Sends what has room.  One thread at a time, so that parts keep their order; the lock is held,
 * and let go meanwhile.  The result is as rt_client_fail's. */
static struct rt_call *pump_link(struct rt_client *c, struct rt_link *l) {
    struct rt_call *list = NULL;
    if (l->pumping) {
        return NULL;
    }
    l->pumping = true;
    while (l->queue && (l->queue->call->err.code || has_room(c, l, l->queue))) {
        send_part(c, l, &list);
    }
    l->pumping = false;
    return list;
}

/* False: nothing was sent, call->err says why.  Else a detached call may be gone already. */
static bool start_call(struct rt_call *call, bool detached, bool *ret_sent) {
    struct rt_client *c = call->c;
    pthread_mutex_lock(&c->m);
    call->err = c->failed;
    for (uint32_t i = 0; i < call->n_parts && !call->err.code; i++) {
        const struct rt_link *l = &c->links[call->parts[i].server];
        if (!l->stream) {
            co_err_set(&call->err, CO_UNAVAILABLE, "%s: no connection to server %u (%s)",
                call->what, l->index, l->endpoint);
        }
    }
    if (call->err.code) {
        pthread_mutex_unlock(&c->m);
        return false;
    }
    call->left = call->unsent = call->n_parts;
    call->ret_sent = ret_sent;
    call->moved_ms = net_now();
    c->detached += detached;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        struct rt_part *p = &call->parts[i];
        struct rt_link *l = &c->links[p->server];
        p->next = NULL;
        *l->queue_end = p;
        l->queue_end = &p->next;
    }
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct rt_call *list = pump_link(c, &c->links[i]);
        if (list) {
            pthread_mutex_unlock(&c->m);
            rt_calls_done(list);
            pthread_mutex_lock(&c->m);
        }
    }
    pthread_mutex_unlock(&c->m);
    return true;
}

void rt_call_start(struct rt_call *call) {
    (void)start_call(call, false, NULL);
}

/* Until all frames of a detached call are made; when they are not in time, the client fails. */
static int await_sent(struct rt_client *c, const bool *sent, struct co_err *err) {
    int64_t begin = net_now();
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    while (!*sent) {
        if (c->failed.code) { /* only what is being made at this moment is left */
            pthread_cond_wait(&c->changed, &c->m);
        } else if (!rt_client_wait_moved(c, begin, &c->moved_ms, c->options.call_timeout_ms)) {
            struct co_err late = {0};
            co_err_set(&late, CO_TIMEOUT, "no push was answered for %lld ms",
                (long long)c->options.call_timeout_ms);
            list = rt_client_fail(c, &late);
        }
    }
    struct co_err failed = c->failed;
    pthread_mutex_unlock(&c->m);
    rt_calls_done(list);
    return failed.code ? co_err_set(err, failed.code, "%s", failed.msg) : 0;
}

int rt_call_detach(struct rt_call *call_own, bool sent, struct co_err *err) {
    struct rt_client *c = call_own->c;
    bool all_sent = false;
    if (call_own->n_parts > 0 && start_call(call_own, true, sent ? &all_sent : NULL)) {
        return sent ? await_sent(c, &all_sent, err) : 0;
    }
    int rc = call_own->err.code ? co_err_set(err, call_own->err.code, "%s", call_own->err.msg) : 0;
    call_own->done(call_own);
    return rc;
}

void rt_client_answer(struct rt_client *c, struct rt_link *l, struct rt_frame *f_own) {
    CO_CLEANUP(rt_frame_freep) struct rt_frame *f = f_own;
    uint32_t slot = (uint32_t)f->head.seq;
    pthread_mutex_lock(&c->m);
    struct rt_part *p = slot < c->n_slots ? c->slots[slot] : NULL;
    if (!p || c->generation[slot] != f->head.seq >> 32 || p->server != l->index ||
        p->state != RT_PART_SENT) {
        pthread_mutex_unlock(&c->m); /* given up, or never asked */
        return;
    }
    p->state = RT_PART_TAKING;
    pthread_mutex_unlock(&c->m);

    struct rt_call *call = p->call;
    struct co_err err = {0};
    if (f->head.kind == RT_FRAME_ERROR) {
        rt_frame_error_read(f, &err);
        co_err_wrap(&err, "server %u (%s)", l->index, l->endpoint);
    } else if (call->take && call->take(call, p, f, &err) < 0) {
        co_err_wrap(&err, "%s: answer of server %u (%s)", call->what, l->index, l->endpoint);
    } else if (call->keep) {
        rt_frame_detach(f);
        p->frame = co_steal_ptr(f);
    }

    pthread_mutex_lock(&c->m);
    if (err.code && !call->err.code) {
        call->err = err;
    }
    struct rt_call *list = NULL;
    if (err.code && call->done) {
        list = rt_client_fail(c, &err); /* nobody waits for it: it is everybody's */
    }
    if (part_over(c, p)) {
        call->next = list;
        list = call;
    }
    struct rt_call *more = pump_link(c, l);
    pthread_mutex_unlock(&c->m);
    rt_calls_done(list);
    rt_calls_done(more);
}

/* Takes the call's parts out of queues and slots; what is being made or taken is waited for. */
static void abandon_call(struct rt_client *c, struct rt_call *call) {
    c->abandoning++;
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct rt_part *p = unqueue_parts(&c->links[i], call);
        for (struct rt_part *next; p; p = next) {
            next = p->next;
            (void)part_over(c, p);
        }
    }
    for (uint32_t i = 0; i < call->n_parts; i++) {
        struct rt_part *p = &call->parts[i];
        while (p->state == RT_PART_TAKING || p->state == RT_PART_MAKING) {
            pthread_cond_wait(&c->changed, &c->m);
        }
        if (p->state == RT_PART_SENT) {
            (void)part_over(c, p);
        }
    }
    c->abandoning--;
}

static void timed_out(struct rt_client *c, struct rt_call *call, int64_t timeout_ms) {
    char who[512] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        const struct rt_link *l = &c->links[call->parts[i].server];
        if (call->parts[i].state == RT_PART_SENT && !strstr(who, l->endpoint) &&
            at + strlen(l->endpoint) + 32 < sizeof(who)) {
            at += (size_t)snprintf(who + at, sizeof(who) - at, "%sserver %u (%s)", at ? ", " : "",
                l->index, l->endpoint);
        }
    }
    co_err_set(&call->err, CO_TIMEOUT, "%s%s%s: no answer from %s within %.1f s", call->what,
        call->table ? " of table " : "", call->table ? call->table->name : "", who,
        (double)timeout_ms / 1000);
}

int rt_call_wait(struct rt_call *call_own, int64_t timeout_ms, struct co_err *err) {
    struct rt_call *call = call_own;
    struct rt_client *c = call->c;
    int64_t begin = net_now();
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    while (call->left > 0) {
        if (!rt_client_wait_moved(c, begin, &call->moved_ms, timeout_ms) && call->left > 0) {
            timed_out(c, call, timeout_ms);
            abandon_call(c, call);
            /* What the servers have done of it is unknown: the client is not to be used on. */
            list = call->harmless ? NULL : rt_client_fail(c, &call->err);
            break;
        }
    }
    pthread_mutex_unlock(&c->m);
    rt_calls_done(list);
    struct co_err result = call->err;
    rt_call_free(call);
    return result.code ? co_err_set(err, result.code, "%s", result.msg) : 0;
}
