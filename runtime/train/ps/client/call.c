/* Sends requests and handles answers: queues for each server and shard, windows that bound what is
 * in flight, timeouts.  call.h has the picture.
 *
 * The thread that starts a call sends its parts.  The thread that read an answer handles it, and
 * sends the parts that have room then.  c->m guards all of this; it is released while a frame is
 * made, sent or handled. */
#include "runtime/train/ps/client/call.h"

#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/glog.h"

enum { HELD_MS = 30000 };

struct rt_call *psc_call_new(
    struct rt_client *c, const char *what, const struct ps_table *table, uint32_t n_parts) {
    struct rt_call *call = co_xcalloc(1, sizeof(*call) + n_parts * sizeof(call->parts[0]));
    call->c = c;
    call->what = what;
    call->table = table;
    call->n_parts = n_parts;
    return call;
}

void psc_call_free(struct rt_call *call) {
    if (call) {
        for (uint32_t i = 0; i < call->n_parts; i++) {
            rpc_frame_free(call->parts[i].frame);
        }
        free(call);
    }
}

static uint32_t clamp_u32(size_t n) {
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void psc_call_part(struct rt_call *call, uint32_t i, uint32_t server,
    const struct rpc_frame_head *head, size_t answer) {
    struct psc_part *p = &call->parts[i];
    p->call = call;
    p->head = *head;
    p->server = server;
    p->answer = clamp_u32(answer);
}

void psc_call_frame(
    struct rt_call *call, uint32_t i, uint32_t server, struct rpc_frame *f_own, size_t answer) {
    psc_call_part(call, i, server, &f_own->head, answer);
    call->parts[i].frame = f_own;
}

int64_t psc_client_time(const struct rt_client *c) {
    return (c->away > 0 ? c->still_since_ms : net_now()) - c->still_ms;
}

int64_t psc_call_until(int64_t from_ms, int64_t back_ms, int64_t timeout_ms) {
    int64_t most = from_ms + timeout_ms, again = back_ms < most ? back_ms : most;
    return (again > from_ms ? again : from_ms) + timeout_ms;
}

bool psc_client_wait_moved(
    struct rt_client *c, int64_t since, const int64_t *moved_ms, int64_t timeout_ms) {
    int64_t from = *moved_ms > since ? *moved_ms : since;
    int64_t end = psc_call_until(from, c->back_ms, timeout_ms);
    int64_t left = c->away > 0 ? timeout_ms : end - psc_client_time(c);
    return psc_client_wait(c, net_now() + left) || *moved_ms > from || psc_client_time(c) < end;
}

bool psc_client_await(
    struct rt_client *c, bool (*pending)(struct rt_client *c, const void *arg), const void *arg) {
    bool in_time = true;
    pthread_mutex_lock(&c->m);
    int64_t begin = psc_client_time(c);
    while (pending(c, arg) && !c->failed.code && in_time) {
        in_time = psc_client_wait_moved(c, begin, &c->moved_ms, c->options.call_timeout_ms);
    }
    pthread_mutex_unlock(&c->m);
    return in_time;
}

void psc_client_wake(struct rt_client *c) {
    pthread_mutex_lock(&c->m);
    psc_client_changed(c);
    pthread_mutex_unlock(&c->m);
}

/* ---- states; c->m is held ---- */

/* Another thread works on the part without the lock: it uses the memory of the call's caller. */
static bool is_busy(const struct psc_part *p) {
    return p->state == PSC_PART_MAKING || p->state == PSC_PART_TAKING;
}

/* The only place that changes a state: who waits for it is woken. */
static void set_state(struct rt_client *c, struct psc_part *p, enum psc_part_state state) {
    bool ends = is_busy(p) || state == PSC_PART_DONE;
    p->state = state;
    if (ends && c->awaiting > 0) {
        psc_client_changed(c);
    }
}

void psc_client_await_threads(struct rt_client *c, const char *what, int64_t *say_ms) {
    *say_ms = *say_ms ? *say_ms : net_now() + HELD_MS;
    c->awaiting++;
    if (!psc_client_wait(c, *say_ms) && net_now() >= *say_ms) {
        ps_log_warn("%s: is over, but a thread still uses its memory", what);
        *say_ms = net_now() + HELD_MS;
    }
    c->awaiting--;
}

/* ---- parts; c->m is held ---- */

static struct psc_inflight *inflight_of(struct rt_client *c, const struct psc_part *p) {
    return &c->links[p->server].inflight;
}

static void note_sent(struct rt_client *c, struct psc_part *p) {
    set_state(c, p, PSC_PART_SENT);
    psc_inflight_sent(inflight_of(c, p), p);
}

/* Counts a part whose frame is made, or never will be. */
static void part_sent(struct rt_client *c, struct rt_call *call) {
    if (--call->unsent == 0 && call->ret_sent) {
        *call->ret_sent = true;
        psc_client_changed(c);
    }
}

/* Ends a part that is in no queue.  True: it was the last one of a detached call, whose `done` must
 * run now. */
static bool part_over(struct rt_client *c, struct psc_part *p) {
    struct rt_call *call = p->call;
    if (p->state == PSC_PART_SENT) {
        psc_inflight_unsent(inflight_of(c, p), p);
    }
    if (p->state == PSC_PART_SENT || p->state == PSC_PART_TAKING || p->state == PSC_PART_AGAIN) {
        psc_slots_give(&c->slots, p);
        psc_inflight_release(inflight_of(c, p), p);
    } else {
        part_sent(c, call);
    }
    set_state(c, p, PSC_PART_DONE);
    c->moved_ms = call->moved_ms = psc_client_time(c);
    if (--call->left > 0) {
        return false;
    }
    psc_client_changed(c);
    if (!call->done) {
        return false;
    }
    c->detached--;
    return true;
}

/* Ends a part with *why.  A detached call that is over is added to *list. */
static void end_part(
    struct rt_client *c, struct psc_part *p, const struct co_err *why, struct rt_call **list) {
    struct rt_call *call = p->call;
    if (!call->err.code) {
        call->err = *why;
    }
    if (part_over(c, p)) {
        call->next = *list;
        *list = call;
    }
}

static bool is_any(const struct psc_part *p, const void *arg) {
    (void)p;
    (void)arg;
    return true;
}

static bool is_of_call(const struct psc_part *p, const void *call) {
    return p->call == call;
}

static bool is_greeting(const struct psc_part *p, const void *arg) {
    (void)arg;
    return p->call->greets;
}

/* Ends the picked parts of a link, queued or sent, with *why.  Detached calls that are over are
 * added to *list. */
static void end_parts(struct rt_client *c, struct psc_link *l, psc_pick_fn pick,
    const struct co_err *why, struct rt_call **list) {
    struct psc_part *p = psc_inflight_unqueue_all(&l->inflight, pick, NULL);
    for (struct psc_part *next; p; p = next) {
        next = p->next;
        end_part(c, p, why, list);
    }
    for (uint32_t i = 0; i <= l->inflight.shards; i++) {
        p = psc_inflight_line(&l->inflight, i)->sent;
        for (struct psc_part *next; p; p = next) {
            next = p->next;
            if (pick(p, NULL)) {
                end_part(c, p, why, list);
            }
        }
    }
    psc_client_changed(c);
}

struct rt_call *psc_client_fail(struct rt_client *c, const struct co_err *err) {
    struct rt_call *list = NULL;
    if (!c->failed.code) {
        c->failed = *err;
    }
    for (uint32_t i = 0; i < c->n_links; i++) {
        end_parts(c, &c->links[i], is_any, &c->failed, &list);
    }
    pthread_cond_signal(&c->broke);
    return list;
}

void psc_client_refuse(struct rt_client *c, const struct co_err *err) {
    if (!c->refused.code) {
        c->refused = *err;
    }
}

int psc_client_refusal(struct rt_client *c, struct co_err *err) {
    pthread_mutex_lock(&c->m);
    struct co_err refused = c->refused;
    c->refused = (struct co_err){0};
    pthread_mutex_unlock(&c->m);
    return refused.code ? co_err_set(err, refused.code, "%s", refused.msg) : 0;
}

struct rt_call *psc_client_end_link(
    struct rt_client *c, struct psc_link *l, const struct co_err *why) {
    struct rt_call *list = NULL;
    end_parts(c, l, is_any, why, &list);
    return list;
}

uint32_t psc_client_requeue(struct rt_client *c, struct psc_link *l, const struct co_err *why) {
    struct rt_call *list = NULL;
    end_parts(c, l, is_greeting, why, &list); /* none of those is detached: the list stays empty */
    uint32_t n = 0;
    for (uint32_t i = 0; i <= l->inflight.shards; i++) {
        struct psc_line *line = psc_inflight_line(&l->inflight, i);
        for (struct psc_part *p = line->sent_last; p; p = line->sent_last, n++) {
            psc_inflight_unsent(&l->inflight, p);
            set_state(c, p, PSC_PART_AGAIN);
            psc_inflight_queue_first(&l->inflight, p);
        }
    }
    return n;
}

int psc_client_failure(struct rt_client *c, struct co_err *err) {
    pthread_mutex_lock(&c->m);
    struct co_err failed = c->failed;
    pthread_mutex_unlock(&c->m);
    return failed.code ? co_err_set(err, failed.code, "%s", failed.msg) : 0;
}

void psc_calls_done(struct rt_call *list) {
    while (list) {
        struct rt_call *next = list->next;
        list->done(list);
        list = next;
    }
}

/* ---- start, answer, wait ---- */

static int make_frame(struct psc_part *p, struct co_err *err) {
    struct rpc_frame *f = NULL;
    int rc = p->frame ? 0 : rpc_frame_new(p->head.kind, p->head.bytes, &f, err);
    if (rc == 0 && f) {
        f->head = p->head;
        if (p->head.bytes > 0) {
            p->call->fill(p->call, p, f->payload);
        }
        p->frame = f;
    }
    return rc;
}

static bool is_usable(const struct psc_link *l, const struct psc_part *p) {
    return l->stream && !l->lanes.broken.code && (l->state == PSC_LINK_UP || p->call->greets);
}

static void append_calls(struct rt_call **list, struct rt_call *more) {
    while (*list) {
        list = &(*list)->next;
    }
    *list = more;
}

/* Another part of its call has failed, so this one is not sent.  A part that was sent before must
 * be sent again, as it has a number, and the shard expects all numbers. */
static bool is_void(const struct psc_part *p) {
    return p->call->err.code && !p->call->whole && p->state == PSC_PART_QUEUED;
}

/* Makes and sends the first part of a line.  c->m is held, and released meanwhile. */
static void send_part(
    struct rt_client *c, struct psc_link *l, struct psc_line *line, struct rt_call **list) {
    struct psc_part *p = psc_inflight_unqueue(&l->inflight, line);
    struct rt_call *call = p->call;
    struct co_err err = {0};
    if (is_void(p)) {
        end_part(c, p, &call->err, list);
        return;
    }
    if (p->state == PSC_PART_QUEUED) {
        set_state(c, p, PSC_PART_MAKING);
        pthread_mutex_unlock(&c->m);
        int rc = make_frame(p, &err);
        pthread_mutex_lock(&c->m);
        rc = rc == 0 && c->failed.code ? co_err_set(&err, c->failed.code, "%s", c->failed.msg) : rc;
        if (rc < 0) {
            if (call->done) { /* nobody waits for the call, so the client fails */
                append_calls(list, psc_client_fail(c, &err));
            }
            end_part(c, p, &err, list);
            return;
        }
        if (!is_usable(l, p)) { /* the connection broke meanwhile */
            set_state(c, p, PSC_PART_QUEUED);
            psc_inflight_queue_next(&l->inflight, p);
            return;
        }
        psc_inflight_admit(&l->inflight, p);
        psc_slots_take(&c->slots, p);
        psc_client_expects(c);
        rpc_frame_seal(p->frame);
        part_sent(c, call);
    }
    note_sent(c, p);
    struct rpc_stream *stream = rpc_stream_ref(psc_client_carrier(l, p));
    struct rpc_frame *f = rpc_frame_ref(p->frame);
    pthread_mutex_unlock(&c->m);
    /* If the stream is over, on_close will queue the part again. */
    (void)!rpc_stream_send(stream, f, NULL);
    rpc_stream_unref(stream);
    pthread_mutex_lock(&c->m);
}

/* Whether the first part of the line can be sent, or must be ended. */
static bool can_send(struct psc_link *l, const struct psc_line *line) {
    const struct psc_part *p = line->queue;
    return p &&
           (is_void(p) || (is_usable(l, p) &&
                              (p->call->greets || (psc_client_carrier_free(l, p) &&
                                                      psc_inflight_has_room(&l->inflight, p)))));
}

/* Sends one part of each line that can send.  False: there was none. */
static bool send_round(struct rt_client *c, struct psc_link *l, struct rt_call **list) {
    bool any = false;
    for (uint32_t i = 0; i <= l->inflight.shards && l->inflight.queued > 0; i++) {
        struct psc_line *line = psc_inflight_line(&l->inflight, i);
        if (can_send(l, line)) {
            send_part(c, l, line, list);
            any = true;
        }
    }
    return any;
}

struct rt_call *psc_client_pump(struct rt_client *c, struct psc_link *l) {
    struct rt_call *list = NULL;
    if (l->pumping) {
        return NULL;
    }
    l->pumping = true;
    do {
        while (send_round(c, l, &list)) {
        }
        psc_client_flush_lanes(c, l); /* this may make room */
    } while (send_round(c, l, &list));
    l->pumping = false;
    return list;
}

/* Puts the call's parts into the queues of their links.  False: none is queued, call->err says why.
 * c->m is held. */
static bool queue_call(struct rt_client *c, struct rt_call *call, bool detached, bool *ret_sent) {
    call->err = c->failed;
    for (uint32_t i = 0; call->greets && i < call->n_parts && !call->err.code; i++) {
        if (!c->links[call->parts[i].server].stream) {
            co_err_set(&call->err, CO_PEERLOST, "%s: the connection is closed", call->what);
        }
    }
    if (call->err.code) {
        return false;
    }
    call->left = call->unsent = call->n_parts;
    call->ret_sent = ret_sent;
    call->moved_ms = psc_client_time(c);
    c->detached += detached;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        struct psc_part *p = &call->parts[i];
        if (call->greets) {
            psc_inflight_queue_first(inflight_of(c, p), p);
        } else {
            psc_inflight_queue_last(inflight_of(c, p), p);
        }
    }
    return true;
}

/* Sends queued parts as far as they have room; detached calls may be freed by then.  c->m is held,
 * and released meanwhile. */
static void pump_all(struct rt_client *c) {
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct rt_call *list = psc_client_pump(c, &c->links[i]);
        if (list) {
            pthread_mutex_unlock(&c->m);
            psc_calls_done(list);
            pthread_mutex_lock(&c->m);
        }
    }
}

void psc_calls_start(struct rt_call *const *calls, size_t n) {
    struct rt_client *c = n > 0 ? calls[0]->c : NULL;
    if (!c) {
        return;
    }
    pthread_mutex_lock(&c->m);
    for (size_t i = 0; i < n; i++) {
        (void)queue_call(c, calls[i], false, NULL);
    }
    pump_all(c);
    pthread_mutex_unlock(&c->m);
}

void psc_call_start(struct rt_call *call) {
    psc_calls_start(&call, 1);
}

/* False: nothing was sent, call->err says why.  True: the call may be freed already. */
static bool start_detached(struct rt_call *call, bool *ret_sent) {
    struct rt_client *c = call->c;
    pthread_mutex_lock(&c->m);
    bool queued = queue_call(c, call, true, ret_sent);
    if (queued) {
        pump_all(c);
    }
    pthread_mutex_unlock(&c->m);
    return queued;
}

/* Waits until all frames of a detached call are made.  If no part of the client ends for
 * call_timeout_ms, the client fails. */
static int await_sent(struct rt_client *c, const bool *sent, struct co_err *err) {
    int64_t say_ms = 0;
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    int64_t begin = psc_client_time(c);
    while (!*sent) {
        if (c->failed.code) { /* only frames that a thread is making are left */
            psc_client_await_threads(c, "push", &say_ms);
        } else if (!psc_client_wait_moved(c, begin, &c->moved_ms, c->options.call_timeout_ms)) {
            struct co_err late = {0};
            co_err_set(&late, CO_TIMEOUT, "no push was answered for %lld ms",
                (long long)c->options.call_timeout_ms);
            list = psc_client_fail(c, &late);
        }
    }
    struct co_err failed = c->failed;
    pthread_mutex_unlock(&c->m);
    psc_calls_done(list);
    return failed.code ? co_err_set(err, failed.code, "%s", failed.msg) : 0;
}

int psc_call_detach(struct rt_call *call_own, bool sent, struct co_err *err) {
    struct rt_client *c = call_own->c;
    bool all_sent = false;
    if (call_own->n_parts > 0 && start_detached(call_own, sent ? &all_sent : NULL)) {
        return sent ? await_sent(c, &all_sent, err) : 0;
    }
    int rc = call_own->err.code ? co_err_set(err, call_own->err.code, "%s", call_own->err.msg) : 0;
    call_own->done(call_own);
    return rc;
}

void psc_client_answer(struct rt_client *c, struct psc_link *l, struct rpc_frame *f_own) {
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = f_own;
    pthread_mutex_lock(&c->m);
    struct psc_part *p = psc_slots_find(&c->slots, f->head.seq);
    if (!p || p->server != l->index || p->state != PSC_PART_SENT) {
        pthread_mutex_unlock(&c->m); /* the request was given up, or never made */
        return;
    }
    psc_inflight_unsent(&l->inflight, p);
    meter_bytes(METER_BYTES_RECEIVED, RPC_FRAME_HEAD + f->head.bytes);
    meter_bytes(METER_BYTES_SENT, RPC_FRAME_HEAD + p->head.bytes);
    set_state(c, p, PSC_PART_TAKING);
    l->moved = l->moved || !p->call->greets;
    pthread_mutex_unlock(&c->m);

    struct rt_call *call = p->call;
    struct co_err err = {0};
    bool refused = f->head.kind == RPC_FRAME_ERROR;
    if (refused) {
        rpc_frame_error_read(f, &err);
        co_err_wrap(&err, "server %u (%s)", l->index, l->endpoint);
    } else if (call->take && call->take(call, p, f, &err) < 0) {
        co_err_wrap(&err, "%s: answer of server %u (%s)", call->what, l->index, l->endpoint);
    } else if (call->keep) {
        rpc_frame_detach(f);
        rpc_frame_free(p->frame);
        p->frame = co_steal_ptr(f);
    }

    pthread_mutex_lock(&c->m);
    if (err.code && !call->err.code) {
        call->err = err;
    }
    struct rt_call *list = NULL;
    if (call->done && refused && err.code != CO_GONE) {
        psc_client_refuse(c, &err);
    } else if (err.code && (call->done || err.code == CO_GONE)) {
        /* Nobody waits for the call, or the job went back to a checkpoint: the client fails. */
        list = psc_client_fail(c, &err);
    }
    if (part_over(c, p)) {
        call->next = list;
        list = call;
    }
    struct rt_call *more = psc_client_pump(c, l);
    pthread_mutex_unlock(&c->m);
    psc_calls_done(list);
    psc_calls_done(more);
}

static bool is_any_busy(const struct rt_call *call) {
    bool busy = false;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        busy = busy || is_busy(&call->parts[i]);
    }
    return busy;
}

static void unqueue_call(struct rt_client *c, struct rt_call *call) {
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct psc_part *p = psc_inflight_unqueue_all(&c->links[i].inflight, is_of_call, call);
        for (struct psc_part *next; p; p = next) {
            next = p->next;
            (void)part_over(c, p);
        }
    }
}

/* Takes the call's parts out of queues and slots.  Waits for threads that make a frame or handle an
 * answer of the call: the caller may free its memory afterwards. */
static void abandon_call(struct rt_client *c, struct rt_call *call) {
    int64_t say_ms = 0;
    unqueue_call(c, call);
    while (is_any_busy(call)) {
        psc_client_await_threads(c, call->what, &say_ms);
        unqueue_call(c, call);
    }
    for (uint32_t i = 0; i < call->n_parts; i++) {
        if (call->parts[i].state == PSC_PART_SENT) {
            (void)part_over(c, &call->parts[i]);
        }
    }
}

/* Sets the call's error; it names the servers that did not answer, whether or not they were asked.
 */
static void timed_out(struct rt_client *c, struct rt_call *call, int64_t timeout_ms) {
    char who[512] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        const struct psc_link *l = &c->links[call->parts[i].server];
        if (call->parts[i].state != PSC_PART_DONE && !strstr(who, l->endpoint) &&
            at + strlen(l->endpoint) + 32 < sizeof(who)) {
            at += (size_t)snprintf(who + at, sizeof(who) - at, "%sserver %u (%s)", at ? ", " : "",
                l->index, l->endpoint);
        }
    }
    co_err_set(&call->err, CO_TIMEOUT, "%s%s%s: no answer from %s within %.1f s", call->what,
        call->table ? " of table " : "", call->table ? call->table->name : "", who,
        (double)timeout_ms / 1000);
}

int psc_call_wait(struct rt_call *call_own, int64_t timeout_ms, struct co_err *err) {
    struct rt_call *call = call_own;
    struct rt_client *c = call->c;
    int64_t begin_ns = meter_clock();
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    int64_t begin = call->greets ? net_now() : psc_client_time(c);
    while (call->left > 0) {
        bool in_time = call->greets ? psc_client_wait(c, begin + timeout_ms)
                                    : psc_client_wait_moved(c, begin, &call->moved_ms, timeout_ms);
        if (!in_time && call->left > 0) {
            timed_out(c, call, timeout_ms);
            abandon_call(c, call);
            /* It is unknown what the servers did of the call, so the client must not be used any
             * more. */
            list = call->harmless ? NULL : psc_client_fail(c, &call->err);
            break;
        }
    }
    pthread_mutex_unlock(&c->m);
    psc_calls_done(list);
    struct co_err result = call->err;
    if (begin_ns > 0) {
        meter_observe(METER_M_CALL_SECONDS, meter_word(METER_M_CALL_SECONDS, call->what),
            (double)(meter_clock() - begin_ns) / 1e9);
    }
    psc_call_free(call);
    return result.code ? co_err_set(err, result.code, "%s", result.msg) : 0;
}
