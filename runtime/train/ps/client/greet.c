/* What a trainer says when it joins: hello, and begin; what servers answer. */
#include "runtime/train/ps/client/greet.h"

#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"

/* Starts a hello or begin request.  These go out before the link is up.  */
static struct rt_call *start_greeting(struct rt_client *c, uint32_t server, const char *what,
    psc_take_fn take, struct rpc_frame *f_own) {
    struct rt_call *call = psc_call_new(c, what, NULL, 1);
    call->take = take;
    call->harmless = true;
    call->greets = true;
    psc_call_frame(call, 0, server, f_own, 0);
    psc_call_start(call);
    return call;
}

/* ---- hello ---- */

/* The tables had nothing, or what this trainer will do again: sync, no step and no barrier are
 * complete, as both need all trainers.  Not what it has loaded: a program does that once. */
static bool had_nothing(const struct rt_client *c, const struct psc_welcome *was) {
    const struct psc_progress *p = &c->progress;
    return c->options.mode == RT_SYNC && c->options.backup == 0 && was->restored == 0 &&
           p->steps == 0 && p->barriers == 0 && p->barriers_done == 0 && !p->loads;
}

/* Checks a server that this trainer reconnects to, and that was another one before.  It must have
 * restored a checkpoint, unless there was nothing to lose.  In async mode the trainer continues
 * with it.  In sync mode the whole job returns to that checkpoint, and CO_GONE reports that to the
 * program. */
static int check_restarted(struct rt_client *c, uint32_t server, const struct psc_welcome *was,
    const Rpc__Welcome *w, struct co_err *err) {
    bool finishing = psc_links_stage(c) >= PSC_FINISHING;
    if (w->restored == 0 && !finishing && had_nothing(c, was)) {
        return co_err_set(err, CO_GONE, "it was restarted before the first step; all begin again");
    }
    if (w->restored == 0) {
        return co_err_set(err, CO_INVALID,
            "it was restarted and has none of its tables: it found no checkpoint to begin with "
            "(PADDLE_PS_CHECKPOINT_DIR)");
    }
    if (c->options.mode == RT_SYNC && !finishing) {
        return co_err_set(err, CO_GONE,
            "it was restarted; all go back to its checkpoint %llu, step %llu",
            (unsigned long long)w->restored, (unsigned long long)w->step);
    }
    if (w->shards != was->shards && !finishing) {
        return co_err_set(err, CO_INVALID,
            "it came back with %u shards, it had %u (PADDLE_PS_SHARDS)", w->shards, was->shards);
    }
    ps_log_warn("server %u (%s) was restarted with checkpoint %llu; what was pushed to it since "
                "is lost, and so are rates that others have set",
        server, psc_link_endpoint(c, server), (unsigned long long)w->restored);
    return 0;
}

static struct psc_welcome read_welcome(
    const struct rt_client *c, const Rpc__Welcome *w, const struct psc_welcome *was) {
    bool lanes = c->reader && w->key, bounded = !lanes && w->window > 0 && w->window < c->window;
    uint64_t lease = (uint64_t)c->options.lease_ms;
    return (struct psc_welcome){.incarnation = w->incarnation,
        .shards = w->shards,
        .key = lanes ? w->key : 0,
        .window = bounded ? w->window : c->window,
        .lease_ms = (int64_t)(w->lease_ms > 0 && w->lease_ms < lease ? w->lease_ms : lease),
        .step = w->step,
        .barriers = w->barriers,
        .era = w->era,
        .restored = w->restored,
        .restored_step = w->restored_step,
        .origin = w->origin,
        .fresh = w->fresh,
        .dirty = w->dirty,
        .replaced = was->replaced ||
                    (was->incarnation > 0 && c->former > 0 && w->incarnation != was->incarnation),
        .says_late = w->late,
        .nonfinite = (enum rt_nonfinite)w->nonfinite};
}

static int note_welcome(
    struct rt_client *c, uint32_t server, const Rpc__Welcome *w, struct co_err *err) {
    struct psc_welcome was = psc_link_welcomed(c, server), is = read_welcome(c, w, &was);
    bool other = psc_links_stage(c) > PSC_JOINING && w->incarnation != was.incarnation;
    int rc = other ? check_restarted(c, server, &was, w, err) : 0;
    is.replaced = is.replaced || other;
    if (rc == CO_GONE) {
        psc_link_welcome(c, server, &was); /* psc_client_rejoin sends its leave */
    }
    if (rc == 0) {
        psc_client_note_done(c, w->finished, w->n_finished);
        psc_link_welcome(c, server, &is);
    }
    return rc;
}

static int take_welcome(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *m = NULL;
    CO_TRY(ps_control_unpack(a, &m, err));
    if (m->body_case != RPC__CONTROL__BODY_WELCOME || m->welcome->shards < 1 ||
        m->welcome->shards > 4096) {
        return co_err_set(err, CO_INVALID, "not a welcome");
    }
    return note_welcome(call->c, p->server, m->welcome, err);
}

static int hello_frame(
    struct rt_client *c, uint32_t server, struct rpc_frame **ret, struct co_err *err) {
    Rpc__Table tables[PS_TABLES_MAX], *list[PS_TABLES_MAX];
    for (uint32_t i = 0; i < c->n_tables; i++) {
        const struct ps_table *t = &c->tables[i];
        rpc__table__init(&tables[i]);
        tables[i].name = (char *)(uintptr_t)t->name;
        tables[i].kind = t->spec.kind;
        tables[i].size = t->spec.size;
        tables[i].dim = t->spec.dim;
        tables[i].optimizer = (char *)(uintptr_t)t->spec.optimizer;
        tables[i].init = (char *)(uintptr_t)t->init;
        tables[i].seed = t->spec.seed;
        tables[i].mode = t->spec.mode;
        tables[i].schedule = (char *)(uintptr_t)t->schedule;
        tables[i].storage = (char *)(uintptr_t)t->spec.storage;
        tables[i].wire = (char *)(uintptr_t)t->spec.wire;
        tables[i].admit = (char *)(uintptr_t)t->spec.admit;
        tables[i].evict = (char *)(uintptr_t)t->spec.evict;
        list[i] = &tables[i];
    }
    Rpc__Hello h = RPC__HELLO__INIT;
    h.job = c->job;
    h.trainer = c->trainer;
    h.trainers = c->trainers;
    h.server = server;
    h.servers = c->n_servers;
    h.mode = c->options.mode;
    h.backup = c->options.backup;
    h.incarnation = c->incarnation;
    h.former = c->former;
    h.finishing = psc_links_stage(c) >= PSC_FINISHING;
    h.n_tables = c->n_tables;
    h.tables = list;
    CO_AUTOFREE const char **endpoints = co_xcalloc(c->n_servers, sizeof(char *));
    for (uint32_t i = 0; i < c->n_servers; i++) {
        endpoints[i] = psc_link_endpoint(c, i);
    }
    h.n_endpoints = c->n_servers;
    h.endpoints = (char **)(uintptr_t)endpoints;
    Rpc__Control m = RPC__CONTROL__INIT;
    m.body_case = RPC__CONTROL__BODY_HELLO;
    m.hello = &h;
    return ps_control_pack(&m, NULL, ret, err);
}

int psc_greet_hello(
    struct rt_client *c, uint32_t server, struct rt_call **ret_call, struct co_err *err) {
    struct rpc_frame *f = NULL;
    CO_TRY(hello_frame(c, server, &f, err));
    *ret_call = start_greeting(c, server, "hello", take_welcome, f);
    return 0;
}

/* ---- begin ---- */

/* Async: rates that this trainer has set, for a server whose checkpoint is older. */
static uint32_t list_rates(
    const struct rt_client *c, const struct psc_welcome *w, Rpc__Rate *rates, Rpc__Rate **list) {
    uint32_t n = 0;
    double lr;
    for (uint32_t i = 0; i < c->n_tables && w->replaced && c->options.mode != RT_SYNC; i++) {
        if (psc_rate_set(c, i, &lr)) {
            rpc__rate__init(&rates[n]);
            rates[n].table = i;
            rates[n].lr = lr;
            list[n] = &rates[n];
            n++;
        }
    }
    return n;
}

static int begin_frame(
    struct rt_client *c, uint32_t server, struct rpc_frame **ret, struct co_err *err) {
    Rpc__Rate rates[PS_TABLES_MAX], *list[PS_TABLES_MAX];
    const struct psc_welcome w = psc_link_welcomed(c, server);
    Rpc__Begin b = RPC__BEGIN__INIT;
    CO_AUTOFREE uint32_t *finished = co_xcalloc(c->trainers, sizeof(*finished));
    b.finished = finished;
    const struct psc_progress *at = &c->progress;
    b.step = at->steps;
    b.barriers = psc_client_behind(c) ? at->barriers_done : at->barriers;
    b.era = at->era;
    b.restored = psc_links_stage(c) >= PSC_FINISHING ? 0 : at->restored; /* touches no tables */
    b.origin = at->origin;
    b.n_rates = list_rates(c, &w, rates, list);
    b.rates = list;
    for (uint32_t i = 0; i < c->trainers; i++) {
        if (at->done[i]) {
            finished[b.n_finished++] = i;
        }
    }
    Rpc__Control m = RPC__CONTROL__INIT;
    m.body_case = RPC__CONTROL__BODY_BEGIN;
    m.begin = &b;
    return ps_control_pack(&m, NULL, ret, err);
}

static int take_begun(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    (void)a;
    (void)err;
    psc_link_answered(call->c, p->server, PSC_LINK_BEGUN);
    return 0;
}

int psc_greet_begin(
    struct rt_client *c, uint32_t server, struct rt_call **ret_call, struct co_err *err) {
    struct rpc_frame *f = NULL;
    CO_TRY(begin_frame(c, server, &f, err));
    *ret_call = start_greeting(c, server, "begin", take_begun, f);
    return 0;
}
