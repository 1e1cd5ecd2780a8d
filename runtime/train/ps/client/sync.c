/* Calls in which trainers wait for each other: step, flush, barrier, finish.  They run on the
 * program's threads: rt_step, rt_no_more and rt_barrier one at a time. */
#include <stdio.h>
#include <string.h>

#include "common/interrupt.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/shard/step.h"

/* ---- who may call ---- */

/* Two at once would say the same number of a step or barrier, and no later one would be right.  The
 * other one may be of a thread that its caller no longer waits for. */
static int turn_take(struct rt_client *c, const char *what, struct co_err *err) {
    const char *other = NULL;
    return !atomic_compare_exchange_strong(&c->progress.turn, &other, what)
               ? co_err_set(err, CO_INVALID,
                     "%s: a %s of this trainer has not ended yet, in another thread: one at a time",
                     what, other)
               : 0;
}

static int turn_end(struct rt_client *c, int rc) {
    c->progress.turn = NULL;
    return rc;
}

/* ---- step ---- */

struct rt_call *psc_shards_call(
    struct rt_client *c, const char *what, uint8_t kind, uint32_t table, uint64_t aux) {
    struct rt_call *call = psc_call_new(c, what, NULL, c->base[c->n_servers]);
    struct rpc_frame_head head = {.kind = kind, .table = (uint16_t)table, .aux = aux};
    for (uint32_t s = 0; s < c->n_servers; s++) {
        for (uint32_t g = c->base[s]; g < c->base[s + 1]; g++) {
            head.shard = g - c->base[s];
            psc_call_part(call, g, s, &head, 0);
        }
    }
    return call;
}

/* Async: reports a step to the servers, if a table's schedule or evict policy counts the steps of
 * all trainers.  Nobody waits for the answers. */
static int tick(struct rt_client *c, struct co_err *err) {
    bool any = false;
    for (uint32_t i = 0; i < c->n_tables; i++) {
        const struct ps_table *t = &c->tables[i];
        any = any || (t->spec.mode == RT_ASYNC && !optim_schedule_is_constant(&t->rates)) ||
              table_evict_by_steps(&t->evict);
    }
    if (!any) {
        return 0;
    }
    struct rt_call *call = psc_shards_call(c, "step", RPC_FRAME_TICK, 0, 0);
    call->done = psc_call_free;
    return psc_call_detach(call, true, err);
}

/* With backup workers the shards may have applied later steps meanwhile (shard_steps_least). */
static int take_step(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    struct rt_client *c = call->c;
    (void)p;
    (void)err;
    uint64_t was = c->progress.least;
    while (!atomic_compare_exchange_weak(
        &c->progress.least, &was, shard_steps_least(was, a->head.aux))) {
    }
    return 0;
}

/* All shards have the STEP, also those that answered it with an error of this trainer's gradients:
 * it continues with the next one.  After other failures the client has failed. */
static void end_step(struct rt_client *c, int rc) {
    struct psc_progress *p = &c->progress;
    bool said = rc == 0 || psc_client_failure(c, NULL) == 0;
    p->steps = said ? shard_steps_next(p->steps, rc == 0 ? p->least : UINT64_MAX) : p->steps;
    if (rc == 0) {
        meter_add(METER_M_STEPS, 0, 1);
    }
}

static struct rt_call *make_step(struct rt_client *c, const char *what, uint64_t step) {
    struct rt_call *call = psc_shards_call(c, what, RPC_FRAME_STEP, 0, step);
    call->whole = true; /* a shard that does not get it would wait for it */
    call->take = c->options.backup > 0 && !c->progress.no_more ? take_step : NULL;
    c->progress.least = UINT64_MAX;
    return call;
}

/* A control message, and what is done with its answers. */
struct control_request {
    const char *what;
    const Rpc__Control *m;
    psc_take_fn take;
    bool harmless; /* after a time-out it may be sent again */
};

/* Sends the same to the first n servers, and waits for the answers. */
static int send_control(struct rt_client *c, const struct control_request *r, uint32_t n,
    int64_t timeout_ms, struct co_err *err) {
    struct rt_call *call = psc_call_new(c, r->what, NULL, n);
    call->take = r->take;
    call->harmless = r->harmless;
    for (uint32_t i = 0; i < n; i++) {
        struct rpc_frame *f = NULL;
        int rc = ps_control_pack(r->m, NULL, &f, err);
        if (rc < 0) {
            psc_call_free(call);
            return rc;
        }
        psc_call_frame(call, i, i, f, 0);
    }
    psc_call_start(call);
    return psc_call_wait(call, timeout_ms, err);
}

/* Of server 0, for whom the step waits.  Older servers do not know it. */
static int ask_late(struct rt_client *c, const struct rt_call *call, struct co_err *ret) {
    Rpc__Late l = RPC__LATE__INIT;
    Rpc__Control m = RPC__CONTROL__INIT;
    const struct control_request r = {.what = call->what, .m = &m, .harmless = true};
    int64_t most = c->options.call_timeout_ms;
    if (!psc_link_welcomed(c, 0).says_late) {
        return 0;
    }
    l.step = c->progress.steps + 1;
    m.body_case = RPC__CONTROL__BODY_LATE;
    m.late = &l;
    return send_control(c, &r, 1, most < PSC_SAY_MS ? most : PSC_SAY_MS, ret);
}

/* Makes the call for the step, then one for the values of each dense table that was exchanged.
 * *ret_n: how many were made, also after a failure. */
static int make_calls(struct rt_client *c, uint64_t after, struct rt_call **ret_calls,
    size_t *ret_n, struct co_err *err) {
    int rc = 0;
    ret_calls[0] = make_step(c, "step", c->progress.steps + 1);
    ret_calls[0]->late = ask_late;
    *ret_n = 1;
    for (uint32_t i = 0; i < c->n_tables && rc == 0; i++) {
        float *w = psc_exchanges_take_place(c->exchanges, i);
        rc = w ? psc_values_call(c, i, w, after, &ret_calls[*ret_n], err) : 0;
        *ret_n += w && rc == 0;
    }
    return rc;
}

/* A step of sync mode.  The program may end the wait for it: then it is still in flight, and the
 * next rt_step waits on. */
struct psc_step {
    struct rt_call **calls; /* [n] */
    size_t n, started, at;  /* made; started; the one that is waited for */
    bool together;          /* all start at once */
    int rc;
    struct co_err err;
};

static struct psc_step *step_new(struct rt_client *c) {
    struct psc_step *s = co_xcalloc(1, sizeof(*s));
    s->calls = co_xcalloc((size_t)c->n_tables + 1, sizeof(*s->calls));
    s->together = psc_client_has_lanes(c);
    s->rc = make_calls(c, s->together ? c->progress.steps + 1 : 0, s->calls, &s->n, &s->err);
    return s;
}

static void step_free(struct psc_step *s) {
    if (s) {
        free(s->calls);
        free(s);
    }
}
CO_DEFINE_CLEANUP(struct psc_step *, step_free)

/* With lanes, the requests for values go out together with the step, and are answered when it is
 * applied.  Otherwise one call follows the other.  Every call that was started is waited for, so
 * that nothing writes to the values after the return. */
static int step_sync(struct rt_client *c, struct co_err *err) {
    CO_CLEANUP(step_freep) struct psc_step *s = c->step ? co_steal_ptr(c->step) : step_new(c);
    for (; s->at < s->n; s->at++) {
        size_t i = s->at;
        if (s->rc == 0 && i == s->started) {
            s->started = s->together ? s->n : i + 1;
            psc_calls_start(s->calls + i, s->started - i);
        }
        if (i >= s->started) {
            psc_call_free(s->calls[i]);
            continue;
        }
        struct co_err e = {0};
        int got = psc_call_wait_again(&s->calls[i], c->options.barrier_timeout_ms, &e);
        if (s->calls[i]) {
            c->step = co_steal_ptr(s);
            return co_err_set(err, got, "%s; the next step waits for the same one", e.msg);
        }
        if (got < 0 && s->rc == 0) {
            s->rc = got;
            s->err = e;
        }
        if (i == 0) {
            end_step(c, got);
        }
    }
    return s->rc < 0 ? co_err_set(err, s->rc, "%s", s->err.msg) : 0;
}

void psc_step_drop(struct rt_client *c) {
    CO_CLEANUP(step_freep) struct psc_step *s = co_steal_ptr(c->step);
    for (size_t i = s ? s->at : 0; s && i < s->n; i++) {
        if (i < s->started) {
            (void)!psc_call_wait(s->calls[i], c->options.call_timeout_ms, NULL); /* it has failed */
        } else {
            psc_call_free(s->calls[i]);
        }
    }
}

static int no_more(struct rt_client *c, struct co_err *err) {
    CO_TRY(psc_geo_end(c->geo, err));
    CO_TRY(rt_flush(c, err));
    if (c->progress.no_more) {
        return 0;
    }
    c->progress.no_more = true;
    if (c->options.mode == RT_SYNC) {
        struct rt_call *call = make_step(c, "end of steps", RPC_STEP_NO_MORE);
        psc_call_start(call);
        return psc_call_wait(call, c->options.barrier_timeout_ms, err);
    }
    return c->options.staleness > 0 ? psc_client_pace(c, RPC_STEP_NO_MORE, err) : 0;
}

int rt_no_more(struct rt_client *c, struct co_err *err) {
    CO_TRY(psc_client_here(c, err));
    CO_TRY(turn_take(c, "no_more", err));
    return turn_end(c, no_more(c, err));
}

static int step(struct rt_client *c, struct co_err *err) {
    if (c->progress.no_more) {
        return co_err_set(err, CO_INVALID, "step: this trainer has said that it has no more data");
    }
    if (!c->step) { /* else these are done */
        CO_TRY(psc_client_refusal(c, err));
        CO_TRY(psc_geo_step(c->geo, err));
    }
    if (c->options.mode != RT_SYNC) {
        psc_saving_step(c);
        CO_TRY(psc_client_failure(c, err));
        CO_TRY(tick(c, err));
        c->progress.steps++;
        meter_add(METER_M_STEPS, 0, 1);
        return c->options.staleness == 0 ? 0 : psc_client_pace(c, c->progress.steps, err);
    }
    CO_TRY(step_sync(c, err));
    psc_saving_step(c);
    return 0;
}

int rt_step(struct rt_client *c, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    CO_TRY(turn_take(c, "step", err));
    return turn_end(c, step(c, err));
}

/* ---- flush, barrier, finish ---- */

static bool any_pending(struct rt_client *c, const void *arg) {
    (void)arg;
    return psc_calls_detached(c) || psc_exchanges_pending(c->exchanges);
}

int psc_client_settle(struct rt_client *c, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    CO_TRY(psc_geo_flush(c->geo, err));
    if (c->communicator) {
        CO_TRY(psc_communicator_flush(c->communicator, err));
    }
    int rc = psc_client_await(c, any_pending, NULL);
    if (rc == CO_CANCELED) {
        return co_interrupt_error("flush", err);
    }
    if (rc < 0) {
        return co_err_set(err, CO_TIMEOUT, "flush: pushes were not answered within %lld ms",
            (long long)c->options.call_timeout_ms);
    }
    return psc_client_failure(c, err);
}

int rt_flush(struct rt_client *c, struct co_err *err) {
    CO_TRY(psc_client_settle(c, err));
    return psc_client_refusal(c, err);
}

/* Asks server 0 again and again, which says for whom it waits.  After the last time-out nobody
 * knows which barrier this trainer is at. */
static int await_barrier(struct rt_client *c, struct co_err *err) {
    Rpc__Barrier b = RPC__BARRIER__INIT;
    Rpc__Control m = RPC__CONTROL__INIT;
    b.number = c->progress.barriers + 1;
    m.body_case = RPC__CONTROL__BODY_BARRIER;
    m.barrier = &b;
    const struct control_request ask = {.what = "barrier", .m = &m, .harmless = true};
    const int64_t until = co_now_ms() + c->options.barrier_timeout_ms;
    struct co_err e;
    int rc;
    do {
        int64_t left = until - co_now_ms();
        b.wait_ms = left < 1 ? 1 : (uint64_t)(left < PSC_SAY_MS ? left : PSC_SAY_MS);
        e = (struct co_err){0};
        rc = send_control(c, &ask, 1, (left > 1 ? left : 1) + c->options.call_timeout_ms, &e);
        if (rc == CO_TIMEOUT && co_now_ms() < until) {
            ps_log_warn("%s", e.msg);
        }
    } while (rc == CO_TIMEOUT && co_now_ms() < until);
    if (rc == CO_TIMEOUT) {
        psc_client_fail(c, &e);
    }
    return rc < 0 ? co_err_set(err, rc, "%s", e.msg) : 0;
}

static int barrier(struct rt_client *c, struct co_err *err) {
    CO_TRY(rt_flush(c, err));
    if (psc_client_behind(c)) {
        c->progress.barriers++;
        return 0;
    }
    int rc = await_barrier(c, err);
    c->progress.barriers += rc == 0;
    return rc;
}

int rt_barrier(struct rt_client *c, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    CO_TRY(turn_take(c, "barrier", err));
    return turn_end(c, barrier(c, err));
}

/* The server has no more work for this trainer, and may exit at any time. */
static int take_finished(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    (void)a;
    (void)err;
    psc_link_answered(call->c, p->server, PSC_LINK_LEFT);
    return 0;
}

/* Waits until all pushes are applied.  If the job went back to a checkpoint, they are lost: the
 * others repeat those steps without this trainer.  It only joins again, because it must report to
 * the servers that it has finished. */
static int settle(struct rt_client *c, struct co_err *err) {
    int rc = psc_client_settle(c, err);
    psc_saving_wait(c);
    while ((rc == 0 || rc == CO_GONE) && !psc_links_finish(c)) {
        if (err) {
            *err = (struct co_err){0};
        }
        rc = psc_client_rejoin(c, err);
    }
    return rc;
}

static int finish(struct rt_client *c, struct co_err *err) {
    Rpc__Finish f = RPC__FINISH__INIT;
    Rpc__Control m = RPC__CONTROL__INIT;
    m.body_case = RPC__CONTROL__BODY_FINISH;
    m.finish = &f;
    CO_TRY(settle(c, err));
    const struct control_request r = {.what = "finish", .m = &m, .take = take_finished};
    CO_TRY(send_control(c, &r, c->n_servers, c->options.call_timeout_ms, err));
    psc_links_finished(c);
    return psc_client_refusal(c, err);
}

int rt_finish(struct rt_client *c, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    int rc = finish(c, err);
    rt_client_close(c);
    return rc;
}
