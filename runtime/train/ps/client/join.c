/* Connects a trainer to all servers at its start, and reconnects links that broke later.
 *
 *     connect, prove the token (attempt)
 *     hello    ->  identity of this trainer, its tables   <- welcome: the server's identity, step
 *     begin    ->  the step and checkpoint at which this trainer begins
 *
 * The first begin goes out once all servers have sent a welcome: only all welcomes together show
 * where to begin.  The caller's thread runs psc_client_join; the reconnector's thread runs
 * psc_client_mend. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/rpc/connect.h"

enum {
    RETRY_MS = 150, /* between two attempts at servers that are not ready */
    CONNECT_MS = 1000,
    PROVE_MS = 5000,
    PROVE_AGAIN_MS = 2000, /* shorter, since closing a client waits for this attempt */
    PRINT_MS = 3000,       /* between two prints of Paddle's "server not ready" lines */
    HELLO_MS = 10000,
};

int psc_client_left(const struct rt_client *c, int ms) {
    int64_t left = c->join_until_ms - net_now();
    return left > ms ? ms : left > 0 ? (int)left : 0;
}

/* ---- one hello ---- */

/* Checks a server that this trainer reconnects to.  A restarted server must have restored a
 * checkpoint.  In async mode the trainer continues with it.  In sync mode the whole job returns to
 * that checkpoint, and CO_GONE reports that to the program. */
static int check_same(const struct psc_link *l, const Rpc__Welcome *w, struct co_err *err) {
    const struct rt_client *c = l->c;
    if (!c->joined) {
        return 0;
    }
    if (w->incarnation == l->incarnation) {
        return 0;
    }
    if (w->restored == 0) {
        return co_err_set(
            err, CO_INVALID, "it was restarted and has none of its tables; the others have theirs");
    }
    if (c->options.mode == RT_SYNC && !c->finishing) {
        return co_err_set(err, CO_GONE,
            "it was restarted; all go back to its checkpoint %llu, step %llu",
            (unsigned long long)w->restored, (unsigned long long)w->step);
    }
    if (w->shards != l->inflight.shards && !c->finishing) {
        return co_err_set(err, CO_INVALID,
            "it came back with %u shards, it had %u (PADDLE_PS_SHARDS)", w->shards,
            l->inflight.shards);
    }
    ps_log_warn("server %u (%s) was restarted with checkpoint %llu; what was pushed to it since "
                "is lost",
        l->index, l->endpoint, (unsigned long long)w->restored);
    return 0;
}

static int note_welcome(struct psc_link *l, const Rpc__Welcome *w, struct co_err *err) {
    struct rt_client *c = l->c;
    int64_t lease = c->options.lease_ms;
    if (w->lease_ms > 0 && w->lease_ms < (uint64_t)lease) {
        lease = (int64_t)w->lease_ms;
    }
    pthread_mutex_lock(&c->m);
    int rc = check_same(l, w, err);
    if (rc == CO_GONE) {
        psc_link_set(l, PSC_LINK_WELCOME); /* psc_client_rejoin sends its leave */
    }
    if (rc == 0) {
        if (!c->joined) {
            psc_inflight_begin(&l->inflight, w->shards);
        }
        l->lanes.key = c->reader ? w->key : 0;
        bool bounded = !l->lanes.key && w->window > 0 && w->window < c->window;
        l->inflight.window = bounded ? w->window : c->window;
        l->lease_ms = lease;
        l->replaced = l->replaced ||
                      (l->incarnation > 0 && c->former > 0 && w->incarnation != l->incarnation);
        l->incarnation = w->incarnation;
        l->welcomed = ++c->clock;
        l->step = w->step;
        l->era = w->era;
        l->restored = w->restored;
        l->restored_step = w->restored_step;
        l->fresh = w->fresh;
        l->dirty = w->dirty;
        l->nonfinite = (enum rt_nonfinite)w->nonfinite;
        l->barriers = w->barriers;
        psc_client_note_done(c, w->finished, w->n_finished);
        psc_link_set(l, PSC_LINK_WELCOME);
    }
    pthread_mutex_unlock(&c->m);
    return rc;
}

static int take_welcome(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *m = NULL;
    int rc = ps_control_unpack(a, &m, err);
    if (rc < 0) {
        return rc;
    }
    if (m->body_case != RPC__CONTROL__BODY_WELCOME || m->welcome->shards < 1 ||
        m->welcome->shards > 4096) {
        return co_err_set(err, CO_INVALID, "not a welcome");
    }
    return note_welcome(&call->c->links[p->server], m->welcome, err);
}

static int hello_frame(struct psc_link *l, struct rpc_frame **ret, struct co_err *err) {
    struct rt_client *c = l->c;
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
    h.server = l->index;
    h.servers = c->n_links;
    h.mode = c->options.mode;
    h.backup = c->options.backup;
    h.incarnation = c->incarnation;
    h.former = c->former;
    pthread_mutex_lock(&c->m);
    h.finishing = c->finishing;
    pthread_mutex_unlock(&c->m);
    h.n_tables = c->n_tables;
    h.tables = list;
    CO_AUTOFREE char **endpoints = co_xcalloc(c->n_links, sizeof(char *));
    for (uint32_t i = 0; i < c->n_links; i++) {
        endpoints[i] = c->links[i].endpoint;
    }
    h.n_endpoints = c->n_links;
    h.endpoints = endpoints;
    Rpc__Control m = RPC__CONTROL__INIT;
    m.body_case = RPC__CONTROL__BODY_HELLO;
    m.hello = &h;
    return ps_control_pack(&m, NULL, ret, err);
}

/* Starts a hello or begin request.  These go out before the link is up.  The caller waits for the
 * result. */
static struct rt_call *start_greeting(
    struct psc_link *l, const char *what, psc_take_fn take, struct rpc_frame *f_own) {
    struct rt_call *call = psc_call_new(l->c, what, NULL, 1);
    call->take = take;
    call->harmless = true;
    call->greets = true;
    psc_call_frame(call, 0, l->index, f_own, 0);
    psc_call_start(call);
    return call;
}

/* Takes over a connection on which both ends have proved the token, and starts a hello on it.  The
 * caller waits for *ret_call. */
static int say_hello(struct psc_link *l, const struct rpc_connect *in, const char *address,
    struct rt_call **ret_call, struct co_err *err) {
    struct rt_client *c = l->c;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = NULL;
    int rc = hello_frame(l, &f, err);
    if (rc < 0) {
        co_close(in->fd);
        co_tls_free(in->tls);
        return rc;
    }
    /* on_close needs the lock too, so it cannot run before l->stream is set. */
    pthread_mutex_lock(&c->m);
    rc = rpc_adopt(c->rpc, in->fd, in->tls, address, l, &l->stream, err);
    if (rc == 0) {
        psc_link_set(l, PSC_LINK_HELLO);
        l->asked = ++c->clock;
        l->lanes.broken = (struct co_err){0};
        (void)snprintf(l->lanes.address, sizeof(l->lanes.address), "%s", address);
        l->received_ms = l->pinged_ms = net_now();
    }
    pthread_mutex_unlock(&c->m);
    if (rc == 0) {
        *ret_call = start_greeting(l, "hello", take_welcome, co_steal_ptr(f));
    }
    return rc;
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
    pthread_mutex_lock(&c->m);
    b.restored = c->finishing ? 0 : at->restored; /* a finish touches no tables */
    pthread_mutex_unlock(&c->m);
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
    pthread_mutex_lock(&call->c->m);
    psc_link_set(&call->c->links[p->server], PSC_LINK_BEGUN);
    pthread_mutex_unlock(&call->c->m);
    return 0;
}

/* Puts a link in use and sends the parts that wait in its queues. */
static void raise_link(struct rt_client *c, struct psc_link *l) {
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    if (l->state == PSC_LINK_BEGUN) {
        psc_link_set(l, PSC_LINK_UP);
        list = psc_client_pump(c, l);
    }
    pthread_mutex_unlock(&c->m);
    psc_calls_done(list);
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
 * trainer may have begun since, and made dirty a server that answers later (is_doubtful). */
struct muster {
    const struct psc_link *fresh;  /* the fresh server with the oldest checkpoint; NULL: none */
    const struct psc_link *newest; /* the server with the highest era */
    bool dirty;                    /* a server that is not fresh is dirty */
    bool unlike;                   /* the fresh servers' checkpoints differ */
    uint64_t welcomed;             /* when the last dirty server's welcome came, by c->clock */
};

/* A replaced server also counts as fresh while its era is not newer than ours: trainers that have
 * begun there cannot have received anything from the other servers. */
static bool is_fresh(const struct rt_client *c, const struct psc_link *l) {
    return l->fresh || (l->replaced && l->era <= c->progress.era);
}

/* c->m is held. */
static struct muster look_around(const struct rt_client *c) {
    struct muster m = {.newest = &c->links[0]};
    for (uint32_t i = 0; i < c->n_links; i++) {
        const struct psc_link *l = &c->links[i];
        m.newest = l->era > m.newest->era ? l : m.newest;
        bool fresh = is_fresh(c, l);
        m.dirty = m.dirty || (!fresh && l->dirty);
        m.welcomed = !fresh && l->dirty && l->welcomed > m.welcomed ? l->welcomed : m.welcomed;
        m.unlike = m.unlike || (fresh && m.fresh && l->restored != m.fresh->restored);
        if (fresh && (!m.fresh || l->restored < m.fresh->restored)) {
            m.fresh = l;
        }
    }
    return m;
}

/* Chooses where the job begins: at a restarted server's checkpoint, in a new era, or at the step
 * that the servers have reached.  c->m is held. */
static int choose_place(struct rt_client *c, struct co_err *err) {
    struct muster m = look_around(c);
    bool sync = c->options.mode == RT_SYNC, emptied = m.fresh && m.dirty;
    bool back = (emptied && sync) || m.unlike;
    if (m.fresh && (emptied || back) && m.fresh->restored == 0) {
        return co_err_set(err, CO_INVALID,
            "server %u (%s) was restarted and has none of its tables; the others have theirs",
            m.fresh->index, m.fresh->endpoint);
    }
    const struct psc_link *at = back && m.fresh ? m.fresh : m.newest;
    struct psc_progress *p = &c->progress;
    p->era = m.newest->era + back;
    p->restored = sync || back ? at->restored : 0;
    /* With backup, others may have made steps since on a server that was replaced. */
    p->steps = back ? at->restored_step : at->step;
    p->barriers_done = 0; /* the most that any server knows: server 0 may have restarted */
    for (uint32_t i = 0; i < c->n_links; i++) {
        const struct psc_link *l = &c->links[i];
        bool ahead = !back && l->era == p->era && l->step < p->steps;
        p->steps = ahead ? l->step : p->steps;
        p->barriers_done = l->barriers > p->barriers_done ? l->barriers : p->barriers_done;
    }
    return 0;
}

/* Its "fresh" may be out of date: its hello went out before a dirty server's welcome came. */
static bool is_doubtful(const struct rt_client *c, const struct psc_link *l) {
    struct muster m = look_around(c);
    return m.dirty && l->fresh && l->asked < m.welcomed;
}

/* ---- all of them ---- */

/* A retry may help: the server is not there yet or still starts, or still has the connection of
 * this trainer's previous process. */
static bool is_passing(int code) {
    return code == CO_UNAVAILABLE || code == CO_PEERLOST || code == CO_CONFLICT ||
           code == CO_TIMEOUT || code == CO_CANCELED;
}

/* c->m is held. */
static bool is_missing(const struct psc_link *l) {
    return l->state == PSC_LINK_DOWN || l->state == PSC_LINK_HELLO;
}

static uint32_t count_missing(struct rt_client *c) {
    uint32_t n = 0;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        n += is_missing(&c->links[i]);
    }
    pthread_mutex_unlock(&c->m);
    return n;
}

static void list_missing(struct rt_client *c, struct co_buf *text) {
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        if (is_missing(&c->links[i])) {
            (void)!co_buf_addf(
                text, NULL, "%s'%s'", text->len > 0 ? ", " : "", c->links[i].endpoint);
        }
    }
    pthread_mutex_unlock(&c->m);
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

static void drop_link(struct psc_link *l, const struct co_err *why) {
    struct rt_client *c = l->c;
    pthread_mutex_lock(&c->m);
    /* An attempt that ended with the time to start says less than one that had its whole time. */
    bool cut = why->code == CO_TIMEOUT && psc_client_left(c, 1) == 0;
    l->why = cut && l->why.code ? l->why : *why;
    struct rpc_stream *stream = co_steal_ptr(l->stream);
    psc_link_set(l, PSC_LINK_DOWN);
    psc_client_drop_lanes(c, l);
    pthread_mutex_unlock(&c->m);
    if (stream) {
        rpc_stream_cancel(stream);
        rpc_stream_unref(stream);
    }
}

/* Keeps the reason for the log and for the final error.  *ret is set when no retry can help. */
static void note_failure(struct psc_link *l, const struct co_err *e, struct co_err *ret) {
    if (!l->away && e->code == CO_CONFLICT && l->why.code != CO_CONFLICT) {
        ps_log_warn("%s; waiting in case it is this trainer's former process", e->msg);
    }
    if (e->code != CO_GONE) {
        drop_link(l, e);
    }
    if (!is_passing(e->code) && ret->code == 0) {
        *ret = *e;
    }
}

static uint32_t list_down(struct rt_client *c, const char **ret_endpoints, uint32_t *ret_which) {
    uint32_t n = 0;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        if (is_missing(&c->links[i])) {
            ret_endpoints[n] = c->links[i].endpoint;
            ret_which[n++] = i;
        }
    }
    pthread_mutex_unlock(&c->m);
    return n;
}

static void wait_greetings(struct rt_client *c, const uint32_t *which, struct rt_call **calls,
    uint32_t n, struct co_err *ret) {
    for (uint32_t i = 0; i < n; i++) {
        struct co_err e = {0};
        if (calls[i] && psc_call_wait(calls[i], psc_client_left(c, HELLO_MS), &e) < 0) {
            note_failure(&c->links[which[i]], &e, ret);
        }
    }
}

/* Makes one attempt at every missing server: connects (the system's resolver finds names, with its
 * search list and hosts file), proves the token and sends hello.  Fails only with an error that no
 * retry can help. */
static int attempt_join(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE const char **endpoints = co_xcalloc(c->n_links, sizeof(char *));
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_links, sizeof(*which));
    CO_AUTOFREE struct net_reached *reached = co_xcalloc(c->n_links, sizeof(*reached));
    CO_AUTOFREE struct rpc_connect *attempts = co_xcalloc(c->n_links, sizeof(*attempts));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_links, sizeof(struct rt_call *));
    uint32_t n = list_down(c, endpoints, which);
    if (net_connect(endpoints, n, psc_client_left(c, CONNECT_MS), reached) == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        attempts[i].fd = reached[i].fd;
    }
    rpc_connect_all(
        attempts, n, &c->auth, psc_client_left(c, c->joined ? PROVE_AGAIN_MS : PROVE_MS));
    struct co_err final = {0};
    for (uint32_t i = 0; i < n; i++) {
        struct psc_link *l = &c->links[which[i]];
        struct co_err e = attempts[i].err;
        if (e.code) {
            co_err_wrap(&e, "server %u (%s)", l->index, l->endpoint);
        } else if (attempts[i].fd >= 0) {
            (void)!say_hello(l, &attempts[i], reached[i].address, &calls[i], &e);
        }
        if (e.code) {
            note_failure(l, &e, &final);
        }
    }
    wait_greetings(c, which, calls, n, &final);
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : 0;
}

/* Opens data lanes, after begin: a shard then counts their frames as this incarnation's. */
static void attempt_lanes(
    struct rt_client *c, const uint32_t *which, uint32_t n, struct co_err *ret_final) {
    CO_AUTOFREE uint32_t *fresh = co_xcalloc(n, sizeof(*fresh));
    CO_AUTOFREE struct co_err *errs = co_xcalloc(n, sizeof(*errs));
    uint32_t k = 0;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; c->reader && i < n; i++) {
        if (c->links[which[i]].state == PSC_LINK_BEGUN) {
            fresh[k++] = which[i];
        }
    }
    pthread_mutex_unlock(&c->m);
    psc_client_open_lanes(c, fresh, k, errs);
    for (uint32_t i = 0; i < k; i++) {
        if (errs[i].code) {
            co_err_wrap(
                &errs[i], "data lane to server %u (%s)", fresh[i], c->links[fresh[i]].endpoint);
            note_failure(&c->links[fresh[i]], &errs[i], ret_final);
        }
    }
}

/* Sends begin to all servers in state WELCOME, and puts their links in use. */
static int begin_all(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_links, sizeof(*which));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_links, sizeof(struct rt_call *));
    uint32_t n = 0;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        if (c->links[i].state == PSC_LINK_WELCOME) {
            which[n++] = i;
        }
    }
    pthread_mutex_unlock(&c->m);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n && final.code == 0; i++) {
        struct rpc_frame *f = NULL;
        if (begin_frame(c, &f, &final) == 0) {
            calls[i] = start_greeting(&c->links[which[i]], "begin", take_begun, f);
        }
    }
    wait_greetings(c, which, calls, n, &final);
    attempt_lanes(c, which, n, &final);
    for (uint32_t i = 0; i < n; i++) {
        raise_link(c, &c->links[which[i]]);
    }
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : 0;
}

static int give_up(struct rt_client *c, struct co_err *err) {
    CO_AUTOBUF struct co_buf list = CO_BUF(400);
    list_missing(c, &list);
    struct co_err why = {0};
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links && !why.code; i++) {
        why = is_missing(&c->links[i]) ? c->links[i].why : why;
    }
    pthread_mutex_unlock(&c->m);
    return co_err_set(err, CO_TIMEOUT, "servers not ready within %.1f s: [%s]%s%s",
        (double)c->options.start_timeout_ms / 1000, list.data ? list.data : "...",
        why.code ? "; " : "", why.code ? why.msg : "");
}

static int note_place(struct rt_client *c, struct co_err *err) {
    pthread_mutex_lock(&c->m);
    int rc = choose_place(c, err);
    pthread_mutex_unlock(&c->m);
    return rc;
}

static uint32_t list_doubtful(struct rt_client *c, uint32_t *ret_which) {
    CO_AUTOFREE bool *doubtful = co_xcalloc(c->n_links, sizeof(*doubtful));
    uint32_t n = 0;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        doubtful[i] = is_doubtful(c, &c->links[i]);
    }
    for (uint32_t i = 0; i < c->n_links; i++) {
        if (doubtful[i] && c->links[i].state == PSC_LINK_WELCOME) {
            psc_link_set(&c->links[i], PSC_LINK_HELLO);
            c->links[i].asked = ++c->clock;
            ret_which[n++] = i;
        }
    }
    pthread_mutex_unlock(&c->m);
    return n;
}

/* Sends another hello to doubtful servers (is_doubtful).  It uses the existing connections: a
 * server takes a closed one for a lost trainer.  Returns how many servers it asked. */
static int ask_again(struct rt_client *c, struct co_err *err) {
    CO_AUTOFREE uint32_t *which = co_xcalloc(c->n_links, sizeof(*which));
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(c->n_links, sizeof(struct rt_call *));
    uint32_t n = list_doubtful(c, which);
    struct co_err final = {0};
    for (uint32_t i = 0; i < n && final.code == 0; i++) {
        struct rpc_frame *f = NULL;
        if (hello_frame(&c->links[which[i]], &f, &final) == 0) {
            calls[i] = start_greeting(&c->links[which[i]], "hello", take_welcome, f);
        }
    }
    wait_greetings(c, which, calls, n, &final);
    return final.code ? co_err_set(err, final.code, "%s", final.msg) : (int)n;
}

static bool note_joined(struct rt_client *c) {
    pthread_mutex_lock(&c->m);
    c->joined = true;
    for (uint32_t i = 0; i < c->n_links; i++) {
        c->joined = c->joined && c->links[i].state == PSC_LINK_UP;
        c->base[i + 1] = c->base[i] + c->links[i].inflight.shards;
    }
    pthread_mutex_unlock(&c->m);
    return c->joined;
}

static int join_until(struct rt_client *c, int64_t until_ms, struct co_err *err) {
    int64_t printed = net_now() - PRINT_MS;
    for (;;) {
        int rc = attempt_join(c, err);
        if (rc == 0 && count_missing(c) == 0) {
            rc = ask_again(c, err);
            rc = rc != 0 ? rc : note_place(c, err);
            rc = rc != 0 ? rc : begin_all(c, err);
        }
        if (rc < 0) {
            return rc;
        }
        if (note_joined(c)) {
            return 0;
        }
        int64_t now = net_now();
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
    c->join_until_ms = net_now() + c->options.start_timeout_ms;
    int rc = join_until(c, c->join_until_ms, err);
    c->join_until_ms = INT64_MAX;
    return rc;
}

/* ---- as a new incarnation ---- */

static void reset(struct rt_client *c) {
    pthread_mutex_lock(&c->m);
    int64_t say_ms = 0;
    while (c->slots.used > 0 || c->detached > 0) { /* threads still take calls that ended */
        psc_client_await_threads(c, "the connection before", &say_ms);
    }
    for (uint32_t i = 0; i < c->n_links; i++) {
        c->links[i].away = false;
        c->links[i].until_ms = 0;
    }
    psc_exchanges_forget(c->exchanges);
    c->away = 0;
    c->joined = false;
    c->former = c->incarnation;
    c->incarnation = ps_incarnation();
    c->failed = (struct co_err){0};
    c->refused = (struct co_err){0};
    c->torn = (struct co_err){0}; /* all tables are those of the checkpoint */
    atomic_store(&c->is_torn, false);
    pthread_mutex_unlock(&c->m);
}

int psc_client_rejoin(struct rt_client *c, struct co_err *err) {
    struct co_err why = {0};
    co_err_set(&why, CO_GONE, "the job goes back to a checkpoint");
    pthread_mutex_lock(&c->m);
    struct rt_call *list = psc_client_fail(c, &why);
    pthread_mutex_unlock(&c->m);
    psc_calls_done(list);
    psc_communicator_clear(c->communicator);
    if (c->mending) {
        /* no deadline: the client has failed, and an attempt to connect has its limits */
        pthread_join(c->reconnector, NULL);
        c->mending = false;
    }
    psc_client_leave(c, why.msg, true);
    for (uint32_t i = 0; i < c->n_links; i++) {
        drop_link(&c->links[i], &why);
    }
    reset(c);
    psc_saving_go_back(c);
    int rc = psc_client_join(c, err);
    psc_geo_forget(c->geo); /* the steps are the job's now */
    return rc < 0 ? rc : psc_client_start_reconnector(c, err);
}

/* ---- reconnecting ---- */

/* Waits until a link is away, and at least until tried_ms + RETRY_MS.  False: the client has failed
 * or closes. */
static bool await_broken(struct rt_client *c, int64_t tried_ms) {
    bool in_time = true;
    pthread_mutex_lock(&c->m);
    while (c->away == 0 && !c->failed.code) {
        /* no deadline: until a link is lost, or the client fails or closes */
        pthread_cond_wait(&c->broke, &c->m);
    }
    int64_t next = tried_ms + RETRY_MS;
    struct timespec t = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000};
    while (!c->failed.code && in_time) {
        in_time = pthread_cond_timedwait(&c->broke, &c->m, &t) == 0;
    }
    bool works = !c->failed.code;
    pthread_mutex_unlock(&c->m);
    return works;
}

void *psc_client_mend(void *client) {
    struct rt_client *c = client;
    int64_t tried_ms = 0;
    while (await_broken(c, tried_ms)) {
        struct co_err err = {0};
        tried_ms = net_now();
        int rc = attempt_join(c, &err);
        rc = rc < 0 ? rc : begin_all(c, &err);
        if (rc < 0) {
            pthread_mutex_lock(&c->m);
            struct rt_call *list = psc_client_fail(c, &err);
            pthread_mutex_unlock(&c->m);
            psc_calls_done(list);
        }
    }
    return NULL;
}
