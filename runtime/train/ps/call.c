#include "runtime/train/ps/call.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client_internal.h"

enum { SLOTS_MAX = 1 << 20 };

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

void rt_call_part(struct rt_call *call, uint32_t i, uint32_t server, struct rt_frame *f_own) {
    struct rt_part *p = &call->parts[i];
    p->call = call;
    p->frame = f_own;
    p->server = server;
    p->bytes = f_own->head.bytes;
}

bool rt_client_wait(struct rt_client *c, int64_t deadline_ms) {
    struct timespec t = {.tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000};
    return pthread_cond_timedwait(&c->changed, &c->m, &t) == 0;
}

/* ---- slots: where an answer finds its part; c->m is held ---- */

static void take_slot(struct rt_client *c, struct rt_part *p) {
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
    p->frame->head.seq = (uint64_t)++c->generation[i] << 32 | i;
}

static void give_slot(struct rt_client *c, struct rt_part *p) {
    if (c->abandoning) {
        pthread_cond_broadcast(&c->changed);
    }
    c->slots[p->slot] = NULL;
    c->used_slots--;
    p->state = RT_PART_DONE;
}

/* A part is over; true when it was the call's last and the call is detached. */
static bool part_over(struct rt_client *c, struct rt_part *p) {
    struct rt_call *call = p->call;
    give_slot(c, p);
    if (--call->left > 0) {
        return false;
    }
    pthread_cond_broadcast(&c->changed);
    if (!call->done) {
        return false;
    }
    for (uint32_t i = 0; i < call->n_parts; i++) {
        c->under_way -= call->parts[i].bytes;
    }
    c->detached--;
    return true;
}

static struct rt_call *end_parts(
    struct rt_client *c, const struct rt_link *only, const struct co_err *why) {
    struct rt_call *list = NULL;
    for (uint32_t i = 0; i < c->n_slots; i++) {
        struct rt_part *p = c->slots[i];
        if (!p || p->state != RT_PART_SENT || (only && p->server != only->index)) {
            continue;
        }
        struct rt_call *call = p->call;
        if (!call->err.code) {
            call->err = *why;
        }
        if (part_over(c, p)) {
            call->next = list;
            list = call;
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

/* All slots are taken before the first frame leaves: an answer may come at once, and with the
 * last one a detached call is gone.  False: nothing was sent, call->err says why. */
static bool start_call(struct rt_call *call, bool detached) {
    struct rt_client *c = call->c;
    struct rt_stream *streams[16], **to = streams;
    if (call->n_parts > CO_ARRAY_LEN(streams)) {
        to = co_xcalloc(call->n_parts, sizeof(struct rt_stream *));
    }
    uint32_t n = call->n_parts;
    struct rt_frame *frames[16], **out = frames;
    if (n > CO_ARRAY_LEN(frames)) {
        out = co_xcalloc(n, sizeof(struct rt_frame *));
    }
    pthread_mutex_lock(&c->m);
    bool ok = !c->failed.code && c->used_slots + n <= SLOTS_MAX;
    for (uint32_t i = 0; i < n && ok; i++) {
        ok = c->links[call->parts[i].server].stream != NULL;
    }
    if (!ok) {
        call->err = c->failed;
        if (!call->err.code) {
            co_err_set(
                &call->err, CO_UNAVAILABLE, "%s: too many requests, or no server", call->what);
        }
        n = 0;
    }
    call->left = n;
    for (uint32_t i = 0; i < n; i++) {
        struct rt_part *p = &call->parts[i];
        take_slot(c, p);
        to[i] = rt_stream_ref(c->links[p->server].stream);
        out[i] = co_steal_ptr(p->frame);
        c->under_way += detached ? p->bytes : 0;
    }
    c->detached += detached && n > 0;
    pthread_mutex_unlock(&c->m);
    for (uint32_t i = 0; i < n; i++) {
        /* A stream that is over says so through on_close, which ends the call. */
        (void)!rt_stream_send(to[i], out[i], NULL);
        rt_stream_unref(to[i]);
    }
    if (to != streams) {
        free(to);
    }
    if (out != frames) {
        free(out);
    }
    return ok;
}

void rt_call_start(struct rt_call *call) {
    (void)start_call(call, false);
}

int rt_call_detach(struct rt_call *call_own, bool window, struct co_err *err) {
    struct rt_client *c = call_own->c;
    int64_t deadline = net_now() + c->options.call_timeout_ms;
    bool ok = true;
    pthread_mutex_lock(&c->m);
    while (window && c->under_way > RT_PUSH_WINDOW && !c->failed.code && ok) {
        ok = rt_client_wait(c, deadline);
    }
    struct co_err failed = c->failed;
    pthread_mutex_unlock(&c->m);
    if (failed.code || !ok) {
        call_own->done(call_own);
        return failed.code ? co_err_set(err, failed.code, "%s", failed.msg)
                           : co_err_set(err, CO_TIMEOUT, "no push was answered for %lld ms",
                                 (long long)c->options.call_timeout_ms);
    }
    bool empty = call_own->n_parts == 0;
    if (!empty && start_call(call_own, true)) {
        return 0;
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
    pthread_mutex_unlock(&c->m);
    rt_calls_done(list);
}

/* Takes the call's parts out of the slots; an answer that is being taken is waited for. */
static void abandon_call(struct rt_client *c, struct rt_call *call) {
    c->abandoning++;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        struct rt_part *p = &call->parts[i];
        while (p->state == RT_PART_TAKING) {
            pthread_cond_wait(&c->changed, &c->m);
        }
        if (p->state == RT_PART_SENT) {
            give_slot(c, p);
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
    int64_t deadline = net_now() + timeout_ms;
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    while (call->left > 0) {
        if (!rt_client_wait(c, deadline) && call->left > 0) {
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
