/* Connects a trainer to all servers at its start, and reconnects links that broke later.
 *
 *     connect, prove the token (attempt)
 *     hello    ->  identity of this trainer, its tables   <- welcome: the server's identity, step
 *     begin    ->  the step and checkpoint at which this trainer begins
 *
 * The first begin goes out once all servers have sent a welcome: only all welcomes together show
 * where to begin.  The caller's thread joins; the reconnector's thread reconnects. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/thread.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"

enum {
    RETRY_MS = 150, /* between two attempts at servers that are not ready */
    CONNECT_MS = 1000,
    PROVE_MS = 5000,
    PROVE_AGAIN_MS = 2000, /* shorter, since closing a client waits for this attempt */
    PRINT_MS = 3000,       /* between two prints of Paddle's "server not ready" lines */
    HELLO_MS = 10000,
};

int psc_client_left(const struct rt_client *c, int ms) {
    int64_t left = c->join_until_ms - co_now_ms();
    return left > ms ? ms : left > 0 ? (int)left : 0;
}

/* ---- one hello ---- */

/* Checks a server that this trainer reconnects to, and that was another one before.  It must have
 * restored a checkpoint.  In async mode the trainer continues with it.  In sync mode the whole job
 * returns to that checkpoint, and CO_GONE reports that to the program. */
static int check_restarted(struct rt_client *c, uint32_t server, const struct psc_welcome *was,
    const Rpc__Welcome *w, struct co_err *err) {
    bool finishing = psc_links_stage(c) >= PSC_FINISHING;
    if (w->restored == 0) {
        return co_err_set(
            err, CO_INVALID, "it was restarted and has none of its tables; the others have theirs");
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
                "is lost",
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
        .fresh = w->fresh,
        .dirty = w->dirty,
        .replaced = was->replaced ||
                    (was->incarnation > 0 && c->former > 0 && w->incarnation != was->incarnation),
        .nonfinite = (enum rt_nonfinite)w->nonfinite};
}

static int note_welcome(
    struct rt_client *c, uint32_t server, const Rpc__Welcome *w, struct co_err *err) {
    struct psc_welcome was = psc_link_welcomed(c, server), is = read_welcome(c, w, &was);
    bool other = psc_links_stage(c) > PSC_JOINING && w->incarnation != was.incarnation;
    int rc = other ? check_restarted(c, server, &was, w, err) : 0;
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

/* Starts a hello or begin request.  These go out before the link is up.  The caller waits for the
 * result. */
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

/* Takes over a connection on which both ends have proved the token, and starts a hello on it.  The
 * caller waits for *ret_call. */
static int say_hello(struct rt_client *c, uint32_t server, const struct net_dial *in,
    const char *address, struct rt_call **ret_call, struct co_err *err) {
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = NULL;
    int rc = hello_frame(c, server, &f, err);
    if (rc < 0) {
        co_close(in->fd);
        co_tls_free(in->tls);
        return rc;
    }
    CO_TRY(psc_link_adopt(c, server, in, address, err));
    *ret_call = start_greeting(c, server, "hello", take_welcome, co_steal_ptr(f));
    return 0;
}

/* ---- one begin ---- */

static int begin_frame(struct rt_client *c, struct rpc_frame **ret, struct co_err *err) {
    Rpc__Begin b = RPC__BEGIN__INIT;
    CO_AUTOFREE uint32_t *finished = co_xcalloc(c->trainers, sizeof(*finished));
    b.finished = finished;
    const struct psc_progress *at = &c->progress;
    b.step = at->steps;
    b.barriers = psc_client_behind(c) ? at->barriers_done : at->barriers;
    b.era = at->era;
    b.restored = psc_links_stage(c) >= PSC_FINISHING ? 0 : at->restored; /* touches no tables */
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

/* A summary of all servers' welcomes.
 *
 *     fresh: no trainer has begun there   dirty: tables have changed since the server started
 *     some fresh, none dirty              the job begins, from the same checkpoint or from none
 *     some fresh, others dirty            the fresh servers restarted while the job ran
 *     eras differ                         a trainer sent some servers back to a checkpoint, and
 *                                         was lost before it reached the rest
 *
 * Welcomes arrive at different times.  A server that said fresh may not be fresh any more: another
 * trainer may have begun since, and made dirty a server that answers later (list_doubtful). */
struct muster {
    struct psc_welcome fresh;  /* of the fresh server with the oldest checkpoint */
    uint32_t fresh_server;     /* PSC_NONE: none is fresh */
    struct psc_welcome newest; /* of the server with the highest era */
    bool dirty;                /* a server that is not fresh is dirty */
    bool unlike;               /* the fresh servers' checkpoints differ */
    uint64_t welcomed;         /* when the last dirty server's welcome came */
};

/* A replaced server also counts as fresh while its era is not newer than ours: trainers that have
 * begun there cannot have received anything from the other servers. */
static bool is_fresh(const struct rt_client *c, const struct psc_welcome *w) {
    return w->fresh || (w->replaced && w->era <= c->progress.era);
}

static struct muster look_around(struct rt_client *c) {
    struct muster m = {.newest = psc_link_welcomed(c, 0), .fresh_server = PSC_NONE};
    for (uint32_t i = 0; i < c->n_servers; i++) {
        const struct psc_welcome w = psc_link_welcomed(c, i);
        m.newest = w.era > m.newest.era ? w : m.newest;
        bool fresh = is_fresh(c, &w), some = m.fresh_server != PSC_NONE;
        m.dirty = m.dirty || (!fresh && w.dirty);
        m.welcomed = !fresh && w.dirty && w.welcomed > m.welcomed ? w.welcomed : m.welcomed;
        m.unlike = m.unlike || (fresh && some && w.restored != m.fresh.restored);
        if (fresh && (!some || w.restored < m.fresh.restored)) {
            m.fresh = w;
            m.fresh_server = i;
        }
    }
    return m;
}

/* Chooses where the job begins: at a restarted server's checkpoint, in a new era, or at the step
 * that the servers have reached. */
static int choose_place(struct rt_client *c, struct co_err *err) {
    struct muster m = look_around(c);
    bool some = m.fresh_server != PSC_NONE;
    bool sync = c->options.mode == RT_SYNC, emptied = some && m.dirty;
    bool back = (emptied && sync) || m.unlike;
    if (some && (emptied || back) && m.fresh.restored == 0) {
        return co_err_set(err, CO_INVALID,
            "server %u (%s) was restarted and has none of its tables; the others have theirs",
            m.fresh_server, psc_link_endpoint(c, m.fresh_server));
    }
    const struct psc_welcome *at = back && some ? &m.fresh : &m.newest;
    struct psc_progress *p = &c->progress;
    p->era = m.newest.era + back;
    p->restored = sync || back ? at->restored : 0;
    /* With backup, others may have made steps since on a server that was replaced. */
    p->steps = back ? at->restored_step : at->step;
    p->barriers_done = 0; /* the most that any server knows: server 0 may have restarted */
    for (uint32_t i = 0; i < c->n_servers; i++) {
        const struct psc_welcome w = psc_link_welcomed(c, i);
        bool ahead = !back && w.era == p->era && w.step < p->steps;
        p->steps = ahead ? w.step : p->steps;
        p->barriers_done = w.barriers > p->barriers_done ? w.barriers : p->barriers_done;
    }
    return 0;
}

/* ---- all of them ---- */

/* A retry may help: the server is not there yet or still starts, or still has the connection of
 * this trainer's previous process. */
static bool is_passing(int code) {
    return code == CO_UNAVAILABLE || code == CO_PEERLOST || code == CO_CONFLICT ||
           code == CO_TIMEOUT || code == CO_CANCELED;
}

static uint32_t count_missing(struct rt_client *c) {
    return psc_links_in(c, PSC_LINKS_MISSING, NULL);
}

static void list_missing(struct rt_client *c, struct co_buf *text) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    uint32_t n = psc_links_in(c, PSC_LINKS_MISSING, which);
    for (uint32_t i = 0; i < n; i++) {
        (void)!co_buf_addf(text, NULL, "%s'%s'", i > 0 ? ", " : "", psc_link_endpoint(c, which[i]));
    }
}

/* Paddle prints these two lines; users search logs for them. */
static void print_missing(struct rt_client *c) {
    CO_AUTOBUF struct co_buf list = CO_BUF(60000);
    list_missing(c, &list);
    CO_AUTOFREE char *text = co_xasprintf("server not ready, wait 3 sec to retry...\n"
                                          "not ready endpoints:[%s]\n",
        list.data ? list.data : "");
    (void)!write(STDERR_FILENO, text, strlen(text));
}

/* Keeps the reason for the log and for the final error.  *ret is set when no retry can help. */
static void note_failure(
    struct rt_client *c, uint32_t server, const struct co_err *e, struct co_err *ret) {
    if (e->code == CO_CONFLICT && !psc_link_is_away(c, server) &&
        psc_link_why(c, server).code != CO_CONFLICT) {
        ps_log_warn("%s; waiting in case it is this trainer's former process", e->msg);
    }
    if (e->code != CO_GONE) {
        psc_link_drop(c, server, e);
    }
    if (!is_passing(e->code) && ret->code == 0) {
        *ret = *e;
    }
}

static void wait_greetings(struct rt_client *c, const uint32_t *which, struct rt_call **calls,
    uint32_t n, struct co_err *ret) {
    for (uint32_t i = 0; i < n; i++) {
        struct co_err e = {0};
        if (calls[i] && psc_call_wait(calls[i], psc_client_left(c, HELLO_MS), &e) < 0) {
            note_failure(c, which[i], &e, ret);
        }
    }
}

/* Makes one attempt at every missing server: connects (the system's resolver finds names, with its
 * search list and hosts file), proves the token and sends hello.  Fails only with an error that no
 * retry can help. */
static int attempt_join(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE const char **endpoints = co_xcalloc(c->n_servers, sizeof(char *));
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    CO_AUTOFREE struct net_reached *reached = co_xcalloc(c->n_servers, sizeof(*reached));
    CO_AUTOFREE struct net_dial *dials = co_xcalloc(c->n_servers, sizeof(*dials));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_servers, sizeof(struct rt_call *));
    uint32_t n = psc_links_in(c, PSC_LINKS_MISSING, which);
    for (uint32_t i = 0; i < n; i++) {
        endpoints[i] = psc_link_endpoint(c, which[i]);
    }
    if (net_connect(endpoints, n, psc_client_left(c, CONNECT_MS), reached) == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        dials[i].fd = reached[i].fd;
        rpc_pass_write(&(struct rpc_pass){.purpose = RPC_FOR_STREAM}, dials[i].hello);
    }
    int prove_ms = psc_links_stage(c) > PSC_JOINING ? PROVE_AGAIN_MS : PROVE_MS;
    net_dial_all(&c->auth, dials, n, co_now_ms() + psc_client_left(c, prove_ms), -1);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n; i++) {
        struct co_err e = dials[i].err;
        if (e.code) {
            co_err_wrap(&e, "server %u (%s)", which[i], endpoints[i]);
        } else if (dials[i].fd >= 0) {
            (void)!say_hello(c, which[i], &dials[i], reached[i].address, &calls[i], &e);
        }
        if (e.code) {
            note_failure(c, which[i], &e, &final);
        }
    }
    wait_greetings(c, which, calls, n, &final);
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : 0;
}

/* Opens data lanes, after begin: a shard then counts their frames as this incarnation's. */
static void attempt_lanes(struct rt_client *c, struct co_err *ret_final) {
    CO_AUTOFREE uint32_t *begun = co_xcalloc(c->n_servers, sizeof(*begun));
    CO_AUTOFREE struct co_err *errs = co_xcalloc(c->n_servers, sizeof(*errs));
    uint32_t n = c->reader ? psc_links_in(c, PSC_LINKS_BEGUN, begun) : 0;
    psc_client_open_lanes(c, begun, n, errs);
    for (uint32_t i = 0; i < n; i++) {
        if (errs[i].code) {
            co_err_wrap(
                &errs[i], "data lane to server %u (%s)", begun[i], psc_link_endpoint(c, begun[i]));
            note_failure(c, begun[i], &errs[i], ret_final);
        }
    }
}

/* Sends begin to all servers in state WELCOME, and puts their links in use. */
static int begin_all(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_servers, sizeof(struct rt_call *));
    uint32_t n = psc_links_in(c, PSC_LINKS_WELCOME, which);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n && final.code == 0; i++) {
        struct rpc_frame *f = NULL;
        if (begin_frame(c, &f, &final) == 0) {
            calls[i] = start_greeting(c, which[i], "begin", take_begun, f);
        }
    }
    wait_greetings(c, which, calls, n, &final);
    attempt_lanes(c, &final);
    for (uint32_t i = 0; i < n; i++) {
        psc_link_raise(c, which[i]);
    }
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : 0;
}

static int give_up(struct rt_client *c, struct co_err *err) {
    CO_AUTOBUF struct co_buf list = CO_BUF(400);
    list_missing(c, &list);
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    uint32_t n = psc_links_in(c, PSC_LINKS_MISSING, which);
    struct co_err why = {0};
    for (uint32_t i = 0; i < n && !why.code; i++) {
        why = psc_link_why(c, which[i]);
    }
    return co_err_set(err, CO_TIMEOUT, "servers not ready within %.1f s: [%s]%s%s",
        (double)c->options.start_timeout_ms / 1000, list.data ? list.data : "...",
        why.code ? "; " : "", why.code ? why.msg : "");
}

/* Lists servers whose "fresh" may be out of date: hello went out to them before the welcome of one
 * that is dirty came. */
static uint32_t list_doubtful(struct rt_client *c, uint32_t *ret_which) {
    struct muster m = look_around(c);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_servers; i++) {
        const struct psc_welcome w = psc_link_welcomed(c, i);
        bool doubtful = m.dirty && w.fresh && w.asked < m.welcomed;
        if (doubtful && psc_link_ask_again(c, i)) {
            ret_which[n++] = i;
        }
    }
    return n;
}

/* Sends another hello to doubtful servers, over the existing connections: a server takes a closed
 * one for a lost trainer.  Returns how many servers it asked. */
static int ask_again(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_servers, sizeof(*which));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_servers, sizeof(struct rt_call *));
    uint32_t n = list_doubtful(c, which);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n && final.code == 0; i++) {
        struct rpc_frame *f = NULL;
        if (hello_frame(c, which[i], &f, &final) == 0) {
            calls[i] = start_greeting(c, which[i], "hello", take_welcome, f);
        }
    }
    wait_greetings(c, which, calls, n, &final);
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : (int)n;
}

static bool note_joined(struct rt_client *c) {
    for (uint32_t i = 0; i < c->n_servers; i++) {
        c->base[i + 1] = c->base[i] + psc_link_welcomed(c, i).shards;
    }
    return psc_links_joined(c);
}

static int join_until(struct rt_client *c, int64_t until_ms, struct co_err *err) {
    int64_t printed = co_now_ms() - PRINT_MS;
    for (;;) {
        CO_TRY(attempt_join(c, err));
        if (count_missing(c) == 0) {
            CO_TRY(ask_again(c, err));
            CO_TRY(choose_place(c, err));
            CO_TRY(begin_all(c, err));
        }
        if (note_joined(c)) {
            return 0;
        }
        int64_t now = co_now_ms();
        if (now >= until_ms) {
            return give_up(c, err);
        }
        if (now - printed >= PRINT_MS && count_missing(c) > 0) {
            printed = now;
            print_missing(c);
        }
        /* A server that comes up cannot notify us, so poll. */
        (void)poll(NULL, 0, psc_client_left(c, RETRY_MS));
    }
}

int psc_client_join(struct rt_client *c, struct co_err *err) {
    c->join_until_ms = co_now_ms() + c->options.start_timeout_ms;
    int rc = join_until(c, c->join_until_ms, err);
    c->join_until_ms = INT64_MAX;
    return rc;
}

/* ---- as a new incarnation ---- */

int psc_client_rejoin(struct rt_client *c, struct co_err *err) {
    struct co_err why = {0};
    co_err_set(&why, CO_GONE, "the job goes back to a checkpoint");
    psc_client_fail(c, &why);
    psc_communicator_clear(c->communicator);
    psc_reconnector_join(c);
    psc_links_leave(c, why.msg, true);
    for (uint32_t i = 0; i < c->n_servers; i++) {
        psc_link_drop(c, i, &why);
    }
    psc_links_forget(c);
    c->former = c->incarnation;
    c->incarnation = ps_incarnation();
    (void)psc_client_tear(c, &(struct co_err){0}); /* all tables are those of the checkpoint */
    psc_saving_go_back(c);
    int rc = psc_client_join(c, err);
    psc_geo_forget(c->geo); /* the steps are the job's now */
    CO_TRY(rc);
    return psc_reconnector_start(c, err);
}

/* ---- reconnecting ---- */

struct psc_reconnector {
    pthread_t thread;
};

static void *run_reconnector(void *client) {
    struct rt_client *c = client;
    int64_t tried_ms = 0;
    while (psc_links_await_broken(c, tried_ms + RETRY_MS)) {
        struct co_err err = {0};
        tried_ms = co_now_ms();
        if (attempt_join(c, &err) < 0 || begin_all(c, &err) < 0) {
            psc_client_fail(c, &err);
        }
    }
    return NULL;
}

int psc_reconnector_start(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE struct psc_reconnector *r = co_xcalloc(1, sizeof(*r));
    int e = co_thread_start(&r->thread, run_reconnector, c);
    c->reconnector = e ? NULL : co_steal_ptr(r);
    return e ? co_err_errno(err, e, "cannot start a thread") : 0;
}

void psc_reconnector_join(struct rt_client *c) {
    if (c->reconnector) {
        /* no deadline: the client has failed, and an attempt to connect has its limits */
        pthread_join(c->reconnector->thread, NULL);
        free(co_steal_ptr(c->reconnector));
    }
}
