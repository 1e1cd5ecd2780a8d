/* Bounded staleness, the trainer's side (pace.c is the server's).
 *
 * The trainer reports to server 0 each of its steps, and does not wait for the answer.  An answer
 * says how far the trainer may go.  When it has gone that far, it asks and waits; the server
 * answers once the slowest trainer is near enough.  Runs on the thread that calls rt_step. */
#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"

enum { SAY_MS = 10000 }; /* between two log lines about the trainer it waits for */

static int take_pace(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    struct rt_client *c = call->c;
    CO_CLEANUP(ps_control_freep) Rpc__Control *m = NULL;
    (void)p;
    CO_TRY(ps_control_unpack(a, &m, err));
    if (m->body_case != RPC__CONTROL__BODY_PACE) {
        return co_err_set(err, CO_INVALID, "not a pace");
    }
    uint64_t was = c->progress.free, step = m->pace->step;
    while (step > was && !atomic_compare_exchange_weak(&c->progress.free, &was, step)) {
    }
    return 0;
}

static int make_call(
    struct rt_client *c, uint64_t step, int64_t wait_ms, struct rt_call **ret, struct co_err *err) {
    Rpc__Pace p = RPC__PACE__INIT;
    p.step = step;
    p.ahead = c->options.staleness;
    p.wait_ms = (uint64_t)wait_ms;
    Rpc__Control m = RPC__CONTROL__INIT;
    m.body_case = RPC__CONTROL__BODY_PACE;
    m.pace = &p;
    struct rpc_frame *f = NULL;
    CO_TRY(ps_control_pack(&m, NULL, &f, err));
    *ret = psc_call_new(c, "step", NULL, 1);
    (*ret)->take = take_pace;
    psc_call_frame(*ret, 0, 0, f, 0);
    return 0;
}

static int send_step(struct rt_client *c, uint64_t step, struct co_err *err) {
    struct rt_call *call = NULL;
    CO_TRY(make_call(c, step, 0, &call, err));
    call->done = psc_call_free;
    return psc_call_detach(call, false, err);
}

/* Asks server 0 and waits.  CO_TIMEOUT after wait_ms; the message names the slowest trainer. */
static int ask_step(struct rt_client *c, uint64_t step, int64_t wait_ms, struct co_err *err) {
    struct rt_call *call = NULL;
    CO_TRY(make_call(c, step, wait_ms, &call, err));
    call->harmless = true;
    psc_call_start(call);
    return psc_call_wait(call, wait_ms + c->options.call_timeout_ms, err);
}

int psc_client_pace(struct rt_client *c, uint64_t step, struct co_err *err) {
    int64_t until = co_now_ms() + c->options.barrier_timeout_ms;
    if (step == RPC_STEP_NO_MORE || step <= c->progress.free || psc_client_failure(c, NULL) < 0) {
        return send_step(c, step, err);
    }
    for (;;) {
        int64_t left = until - co_now_ms();
        int64_t wait = left < 1 ? 1 : left < SAY_MS ? left : SAY_MS;
        struct co_err e = {0};
        int rc = ask_step(c, step, wait, &e);
        if (rc == CO_TIMEOUT && co_now_ms() < until) {
            ps_log_warn("%s", e.msg);
        } else {
            return rc < 0 ? co_err_set(err, rc, "%s", e.msg) : 0;
        }
    }
}
