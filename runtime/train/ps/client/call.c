/* Sends requests and handles answers.  call.h has the picture.
 *
 * The thread that starts a call sends its parts.  The thread that read an answer handles it, and
 * sends the parts that have room then.  The links' lock guards all of this; it is not held while a
 * frame is made, sent or handled. */
#include "runtime/train/ps/client/call.h"

#include <stdio.h>
#include <string.h>

#include "common/interrupt.h"
#include "common/word_list.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/link_internal.h"
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
    return (c->links->away > 0 ? c->links->still_since_ms : co_now_ms()) - c->links->still_ms;
}

int64_t psc_call_until(int64_t from_ms, int64_t back_ms, int64_t timeout_ms) {
    int64_t most = from_ms + timeout_ms, again = back_ms < most ? back_ms : most;
    return (again > from_ms ? again : from_ms) + timeout_ms;
}

/* Waits for a change, or until until_ms.  False: psc_call_until of the later of `since` and
 * *moved_ms has passed. */
static bool wait_moved(struct rt_client *c, int64_t since, const int64_t *moved_ms,
    int64_t timeout_ms, int64_t until_ms) {
    int64_t from = *moved_ms > since ? *moved_ms : since;
    int64_t end = psc_call_until(from, c->links->back_ms, timeout_ms);
    int64_t left = c->links->away > 0 ? timeout_ms : end - psc_client_time(c);
    int64_t wake_ms = co_now_ms() + left;
    return psc_client_wait(c, wake_ms < until_ms ? wake_ms : until_ms) || *moved_ms > from ||
           psc_client_time(c) < end;
}

bool psc_calls_detached(const struct rt_client *c) {
    return c->links->detached > 0;
}

bool psc_call_is_over(struct rt_call *call) {
    psc_lock(call->c);
    bool is = call->left == 0;
    psc_unlock(call->c);
    return is;
}

/* Whether the program ends the wait.  The lock is released while it is asked. */
static bool is_ended(struct rt_client *c, int64_t *ask_ms) {
    if (co_now_ms() < *ask_ms) {
        return false;
    }
    psc_unlock(c);
    bool ended = co_interrupted(ask_ms);
    psc_lock(c);
    return ended;
}

int psc_client_await(
    struct rt_client *c, bool (*pending)(struct rt_client *c, const void *arg), const void *arg) {
    int rc = 0;
    int64_t ask_ms = co_interrupt_next();
    psc_lock(c);
    int64_t begin = psc_client_time(c);
    while (pending(c, arg) && !c->links->failed.code && rc == 0) {
        bool in_time =
            wait_moved(c, begin, &c->links->moved_ms, c->options.call_timeout_ms, ask_ms);
        rc = !in_time ? CO_TIMEOUT : is_ended(c, &ask_ms) ? CO_CANCELED : 0;
    }
    psc_unlock(c);
    return rc;
}

void psc_client_wake(struct rt_client *c) {
    psc_lock(c);
    psc_client_changed(c);
    psc_unlock(c);
}

void psc_client_await_threads(struct rt_client *c, const char *what, int64_t *say_ms) {
    *say_ms = *say_ms ? *say_ms : co_now_ms() + HELD_MS;
    c->links->awaiting++;
    if (!psc_client_wait(c, *say_ms) && co_now_ms() >= *say_ms) {
        ps_log_warn("%s: is over, but a thread still uses its memory", what);
        *say_ms = co_now_ms() + HELD_MS;
    }
    c->links->awaiting--;
}

/* ---- failures ---- */

void psc_calls_fail(struct rt_client *c, const struct co_err *err) {
    struct psc_links *k = c->links;
    if (!k->failed.code) {
        k->failed = *err;
    }
    for (uint32_t i = 0; i < k->n; i++) {
        psc_parts_end_all(&k->at[i], &k->failed);
    }
    pthread_cond_signal(&k->broke);
}

void psc_client_fail(struct rt_client *c, const struct co_err *err) {
    psc_lock(c);
    psc_calls_fail(c, err);
    psc_unlock(c);
}

void psc_client_failed_by(struct rt_client *c, const struct co_err *err) {
    psc_lock(c);
    if (c->links->stage < PSC_FINISHING || err->code != CO_GONE) {
        psc_calls_fail(c, err);
    }
    psc_unlock(c);
}

static int take_error(const struct co_err *from, struct co_err *err) {
    return from->code ? co_err_set(err, from->code, "%s", from->msg) : 0;
}

int psc_client_failure(struct rt_client *c, struct co_err *err) {
    psc_lock(c);
    int rc = take_error(&c->links->failed, err);
    psc_unlock(c);
    return rc;
}

int psc_client_refusal(struct rt_client *c, struct co_err *err) {
    psc_lock(c);
    int rc = take_error(&c->links->refused, err);
    c->links->refused = (struct co_err){0};
    psc_unlock(c);
    return rc;
}

/* ---- start, answer, wait ---- */

static struct psc_inflight *inflight_of(struct rt_client *c, const struct psc_part *p) {
    return &c->links->at[p->server].inflight;
}

/* Puts the call's parts into the queues of their links.  False: none is queued, call->err says why.
 * The lock is held. */
static bool queue_call(struct rt_client *c, struct rt_call *call, bool detached, bool *ret_sent) {
    call->err = c->links->failed;
    for (uint32_t i = 0; call->greets && i < call->n_parts && !call->err.code; i++) {
        if (!c->links->at[call->parts[i].server].stream) {
            co_err_set(&call->err, CO_PEERLOST, "%s: the connection is closed", call->what);
        }
    }
    if (call->err.code) {
        return false;
    }
    call->left = call->unsent = call->n_parts;
    call->ret_sent = ret_sent;
    call->moved_ms = psc_client_time(c);
    c->links->detached += detached;
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

static void pump_all(struct rt_client *c) {
    for (uint32_t i = 0; i < c->n_servers; i++) {
        psc_client_pump(&c->links->at[i]);
    }
}

void psc_calls_start(struct rt_call *const *calls, size_t n) {
    struct rt_client *c = n > 0 ? calls[0]->c : NULL;
    if (!c) {
        return;
    }
    psc_lock(c);
    for (size_t i = 0; i < n; i++) {
        (void)queue_call(c, calls[i], false, NULL);
    }
    psc_unlock(c);
    pump_all(c);
}

void psc_call_start(struct rt_call *call) {
    psc_calls_start(&call, 1);
}

/* False: nothing was sent, call->err says why.  True: the call may be freed already. */
static bool start_detached(struct rt_call *call, bool *ret_sent) {
    struct rt_client *c = call->c;
    psc_lock(c);
    bool queued = queue_call(c, call, true, ret_sent);
    psc_unlock(c);
    if (queued) {
        pump_all(c);
    }
    return queued;
}

/* The program has ended the wait for a call that may have changed something, or not. */
static void fail_ended(struct rt_client *c, const char *what) {
    struct co_err err = {0};
    co_err_set(&err, CO_CANCELED,
        "%s: the program has ended the wait, as by Ctrl-C; how much of it was done is unknown, so "
        "the client can only be closed",
        what);
    psc_calls_fail(c, &err);
}

/* Waits until all frames of a detached call are made.  If no part of the client ends for
 * call_timeout_ms, or the program ends the wait, the client fails: a part of the push is sent. */
static int await_sent(struct rt_client *c, const bool *sent, struct co_err *err) {
    int64_t say_ms = 0, ask_ms = co_interrupt_next();
    psc_lock(c);
    int64_t begin = psc_client_time(c);
    while (!*sent) {
        if (c->links->failed.code) { /* only frames that a thread is making are left */
            psc_client_await_threads(c, "push", &say_ms);
        } else if (!wait_moved(c, begin, &c->links->moved_ms, c->options.call_timeout_ms, ask_ms)) {
            struct co_err late = {0};
            co_err_set(&late, CO_TIMEOUT, "no push was answered for %lld ms",
                (long long)c->options.call_timeout_ms);
            psc_calls_fail(c, &late);
        } else if (!*sent && is_ended(c, &ask_ms)) {
            fail_ended(c, "push");
        }
    }
    int rc = take_error(&c->links->failed, err);
    psc_unlock(c);
    return rc;
}

int psc_call_detach(struct rt_call *call_own, bool sent, struct co_err *err) {
    struct rt_client *c = call_own->c;
    bool all_sent = false;
    if (call_own->n_parts > 0 && start_detached(call_own, sent ? &all_sent : NULL)) {
        return sent ? await_sent(c, &all_sent, err) : 0;
    }
    int rc = take_error(&call_own->err, err);
    call_own->done(call_own);
    return rc;
}

/* Whether the answer to p shows that the server has recovered: it has answered all that it had not
 * when it was lost.  One of those may be what it fails of each time, whatever else it answers. */
static bool is_recovery(const struct psc_link *l, const struct psc_part *p) {
    return !p->call->greets && l->inflight.repeats == (p->repeated ? 1 : 0);
}

void psc_client_answer(struct rt_client *c, struct psc_link *l, struct rpc_frame *f_own) {
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = f_own;
    psc_lock(c);
    struct psc_part *p = psc_slots_find(&c->links->slots, f->head.seq);
    if (!p || p->server != l->index || p->state != PSC_PART_SENT) {
        psc_unlock(c); /* the request was given up, or never made */
        return;
    }
    psc_inflight_unsent(&l->inflight, p);
    meter_bytes(METER_BYTES_RECEIVED, RPC_FRAME_HEAD + f->head.bytes);
    meter_bytes(METER_BYTES_SENT, RPC_FRAME_HEAD + p->head.bytes);
    psc_part_set(c, p, PSC_PART_TAKING);
    l->spare_ms = is_recovery(l, p) ? c->options.return_ms : l->spare_ms;
    psc_unlock(c);

    struct rt_call *call = p->call;
    struct co_err err = {0};
    bool refused = f->head.kind == RPC_FRAME_ERROR;
    if (refused) {
        rpc_frame_error_read(f, &err);
        psc_link_name(l, &err);
    } else if (call->take && call->take(call, p, f, &err) < 0) {
        co_err_wrap(&err, "%s: answer of server %u (%s)", call->what, l->index, l->endpoint);
    } else if (call->keep) {
        rpc_frame_detach(f);
        rpc_frame_free(p->frame);
        p->frame = co_steal_ptr(f);
    }

    psc_lock(c);
    if (err.code && !call->err.code) {
        call->err = err;
    }
    struct psc_links *k = c->links;
    if (call->done && refused && err.code != CO_GONE) {
        k->refused = k->refused.code ? k->refused : err;
    } else if (err.code && (call->done || err.code == CO_GONE)) {
        /* Nobody waits for the call, or the job went back to a checkpoint: the client fails. */
        psc_calls_fail(c, &err);
    }
    psc_part_over(c, p);
    psc_unlock(c);
    psc_client_pump(l);
}

static bool is_any_busy(const struct rt_call *call) {
    bool busy = false;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        busy = busy || psc_part_is_busy(&call->parts[i]);
    }
    return busy;
}

static bool is_of_call(const struct psc_part *p, const void *call) {
    return p->call == call;
}

static void unqueue_call(struct rt_client *c, struct rt_call *call) {
    for (uint32_t i = 0; i < c->n_servers; i++) {
        struct psc_part *p = psc_inflight_unqueue_all(&c->links->at[i].inflight, is_of_call, call);
        for (struct psc_part *next; p; p = next) {
            next = p->next;
            psc_part_over(c, p);
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
            psc_part_over(c, &call->parts[i]);
        }
    }
}

/* Sets the call's error; it names the servers that did not answer, whether or not they were asked.
 */
static void timed_out(struct rt_client *c, struct rt_call *call, int64_t timeout_ms) {
    char who[512] = "";
    for (uint32_t i = 0; i < call->n_parts; i++) {
        const struct psc_link *l = &c->links->at[call->parts[i].server];
        if (call->parts[i].state != PSC_PART_DONE && !strstr(who, l->endpoint)) {
            co_word_list_add(who, sizeof(who), "server %u (%s)", l->index, l->endpoint);
        }
    }
    co_err_set(&call->err, CO_TIMEOUT, "%s%s%s: no answer from %s within %.1f s", call->what,
        call->table ? " of table " : "", call->table ? call->table->name : "", who,
        (double)timeout_ms / 1000);
}

/* Whether the servers say who is late for the call.  The lock is released meanwhile: the call may
 * be over then. */
static bool ask_late(struct rt_client *c, const struct rt_call *call, struct co_err *ret) {
    *ret = (struct co_err){0};
    if (!call->late || c->links->failed.code) {
        return false;
    }
    psc_unlock(c);
    bool named = call->late(c, call, ret) == CO_TIMEOUT;
    psc_lock(c);
    return named && call->left > 0;
}

/* Waits for a change of the call, or until ask_ms, and logs now and then who is late for it. False:
 * it has timed out, by `since`. */
static bool wait_call(struct rt_client *c, const struct rt_call *call, int64_t since,
    int64_t timeout_ms, int64_t *say_ms, int64_t ask_ms) {
    if (call->greets) {
        int64_t end = since + timeout_ms;
        return psc_client_wait(c, end < ask_ms ? end : ask_ms) || co_now_ms() < end;
    }
    int64_t until = call->late && *say_ms < ask_ms ? *say_ms : ask_ms;
    bool in_time = wait_moved(c, since, &call->moved_ms, timeout_ms, until);
    struct co_err who;
    if (in_time && call->left > 0 && call->late && co_now_ms() >= *say_ms) {
        if (ask_late(c, call, &who)) {
            ps_log_warn("%s", who.msg);
        }
        *say_ms = co_now_ms() + PSC_SAY_MS;
    }
    return in_time;
}

static void ended(struct rt_client *c, struct rt_call *call) {
    call->err = (struct co_err){0};
    co_interrupt_error(call->what, &call->err);
    abandon_call(c, call);
    if (!call->harmless && !call->reads) {
        fail_ended(c, call->what);
        call->err = c->links->failed;
    }
}

/* stays: if the program ends the wait. */
static int wait_for(struct rt_call **at, bool stays, int64_t timeout_ms, struct co_err *err) {
    struct rt_call *call = *at;
    struct rt_client *c = call->c;
    int64_t begin_ns = meter_clock();
    psc_lock(c);
    int64_t begin = call->greets ? co_now_ms() : psc_client_time(c);
    int64_t say_ms = co_now_ms() + PSC_SAY_MS, ask_ms = co_interrupt_next();
    struct co_err who = {0};
    while (call->left > 0) {
        bool in_time = wait_call(c, call, begin, timeout_ms, &say_ms, ask_ms);
        bool named = !in_time && call->left > 0 && ask_late(c, call, &who);
        if (!in_time && call->left > 0) {
            timed_out(c, call, timeout_ms);
            call->err = named ? who : call->err;
            abandon_call(c, call);
            /* It is unknown what the servers did of the call, so the client must not be used any
             * more. */
            if (!call->harmless) {
                psc_calls_fail(c, &call->err);
            }
            break;
        }
        bool interrupted = call->left > 0 && is_ended(c, &ask_ms) && call->left > 0;
        if (interrupted && stays) {
            psc_unlock(c);
            return co_interrupt_error(call->what, err);
        }
        if (interrupted) {
            ended(c, call);
            break;
        }
    }
    psc_unlock(c);
    *at = NULL;
    struct co_err result = call->err;
    if (begin_ns > 0) {
        meter_observe(METER_M_CALL_SECONDS, meter_word(METER_M_CALL_SECONDS, call->what),
            (double)(meter_clock() - begin_ns) / 1e9);
    }
    psc_call_free(call);
    return result.code ? co_err_set(err, result.code, "%s", result.msg) : 0;
}

int psc_call_wait(struct rt_call *call_own, int64_t timeout_ms, struct co_err *err) {
    return wait_for(&call_own, false, timeout_ms, err);
}

int psc_call_wait_again(struct rt_call **call, int64_t timeout_ms, struct co_err *err) {
    return wait_for(call, true, timeout_ms, err);
}
