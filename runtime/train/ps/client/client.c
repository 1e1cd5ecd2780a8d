/* The trainer's client of the parameter servers: opens and closes it, handles the callbacks of its
 * links (one a server) and checks their leases.  join.c connects the links; call.c sends requests
 * over them.  The rpc's thread runs the callbacks; c->m guards what they share with the program. */
#include "runtime/train/ps/client/client.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/client/options.h"
#include "runtime/train/ps/glog.h"

/* LEAVE_MS: closing waits so long for servers to end the streams. */
enum { TICK_MS = 100, LEAVE_MS = 500 };

/* ---- callbacks, on the rpc's thread ---- */

void psc_client_note_done(struct rt_client *c, const uint32_t *trainers, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (trainers[i] < c->trainers) {
            c->progress.done[trainers[i]] = true;
        }
    }
}

/* Handles a notice that a server sends to all trainers; kinds that are not known are ignored. */
static void take_notice(struct rt_client *c, const struct rpc_frame *f) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *m = NULL;
    if (ps_control_unpack(f, &m, NULL) == 0 && m->body_case == RPC__CONTROL__BODY_FINISHED) {
        psc_client_note_done(c, m->finished->trainers, m->finished->n_trainers);
    }
}

/* Handles an error that answers no request: it fails the whole client. */
static void take_failure(struct rt_client *c, const struct psc_link *l, const struct rpc_frame *f) {
    struct co_err err = {0};
    struct rt_call *list = NULL;
    rpc_frame_error_read(f, &err);
    co_err_wrap(&err, "server %u (%s)", l->index, l->endpoint);
    pthread_mutex_lock(&c->m);
    if (!(c->finishing && err.code == CO_GONE)) {
        list = psc_client_fail(c, &err);
    }
    pthread_mutex_unlock(&c->m);
    psc_calls_done(list);
}

void psc_client_frame(struct rt_client *c, struct psc_link *l, struct rpc_frame *f_own) {
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = f_own;
    if (f->head.kind == RPC_FRAME_ERROR && f->head.seq == 0) {
        take_failure(c, l, f);
    } else if (f->head.kind == RPC_FRAME_CONTROL) {
        take_notice(c, f);
    } else {
        psc_client_answer(c, l, co_steal_ptr(f));
    }
}

static void on_frame(void *arg, struct rpc_stream *stream, struct rpc_frame *f_own) {
    struct rt_client *c = arg;
    struct psc_link *l = rpc_stream_user(stream);
    pthread_mutex_lock(&c->m);
    bool current = l->stream == stream;
    l->received_ms = current ? net_now() : l->received_ms;
    pthread_mutex_unlock(&c->m);
    if (current) {
        psc_client_frame(c, l, f_own);
    } else {
        rpc_frame_free(f_own); /* from a connection that this link has dropped */
    }
}

static void on_close(void *arg, struct rpc_stream *stream, const struct co_err *why) {
    struct rt_client *c = arg;
    struct psc_link *l = rpc_stream_user(stream);
    struct rt_call *list = NULL;
    pthread_mutex_lock(&c->m);
    if (l->stream == stream) {
        rpc_stream_unref(l->stream);
        l->stream = NULL;
        psc_client_drop_lanes(c, l);
        if (l->state == PSC_LINK_UP && c->leaving) {
            list = psc_client_end_link(c, l, why);
        } else if (l->state == PSC_LINK_UP) {
            list = psc_link_lose(l, co_err_text(why));
        } else if (l->state != PSC_LINK_LEFT) {
            psc_link_set(l, PSC_LINK_DOWN);
            l->why = *why;
            (void)psc_client_requeue(c, l, why);
        }
        psc_client_changed(c);
    }
    pthread_mutex_unlock(&c->m);
    psc_calls_done(list);
}

static void on_tick(void *arg) {
    struct rt_client *c = arg;
    int64_t now = net_now();
    pthread_mutex_lock(&c->m);
    /* After 20 missed ticks this process itself was stopped (SIGSTOP, a debugger): the servers'
     * silence is then no sign of their loss, and their leases start again. */
    bool was_away = c->ticked_ms && now - c->ticked_ms > 20 * TICK_MS;
    c->ticked_ms = now;
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct psc_link *l = &c->links[i];
        struct rpc_stream *stream = NULL;
        l->received_ms = was_away ? now : l->received_ms;
        struct rt_call *list = psc_link_tick(l, now, &stream);
        if (l->pinged_ms == now) {
            psc_client_ping_lanes(c, l);
        }
        struct co_err why = l->lanes.broken;
        if (!list && !stream) {
            continue;
        }
        pthread_mutex_unlock(&c->m);
        psc_calls_done(list);
        if (stream) {
            rpc_stream_break(stream, &why);
            rpc_stream_unref(stream);
        }
        pthread_mutex_lock(&c->m);
    }
    pthread_mutex_unlock(&c->m);
}

static const struct rpc_ops client_ops = {NULL, on_frame, on_close, on_tick};

/* ---- opening and closing ---- */

static void client_free(struct rt_client *c) {
    if (c->mending) {
        /* no deadline: the client has failed, and an attempt to connect has its limits */
        pthread_join(c->reconnector, NULL);
    }
    psc_saving_close(c);
    struct co_err held = {0};
    if (rpc_close(c->rpc, &held) < 0) {
        ps_log_warn("while the client closes: %s", held.msg);
    }
    psc_reader_free(c->reader);
    pss_server_stop(c->own);
    for (uint32_t i = 0; i < c->n_links; i++) {
        free(c->links[i].endpoint);
        psc_inflight_done(&c->links[i].inflight);
    }
    psc_exchanges_free(c->exchanges);
    free(c->links);
    free(c->base);
    free(c->progress.done);
    free(c->tables);
    psc_slots_done(&c->slots);
    free(c->job);
    free((char *)(uintptr_t)c->auth.token);
    if (c->metered) {
        meter_close();
    }
    co_fork_unwatch(&c->fork);
    pthread_cond_destroy(&c->broke);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->m);
    free(c);
}

static void init_sync(struct rt_client *c) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attr);
    pthread_cond_init(&c->broke, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&c->m, NULL);
    co_fork_watch(&c->fork, NULL);
}

static int copy_tables(
    struct rt_client *c, const struct rt_table_spec *specs, size_t n, struct co_err *err) {
    if (n < 1 || n > PS_TABLES_MAX) {
        return co_err_set(err, CO_INVALID, "%zu tables, expected 1 to %d", n, PS_TABLES_MAX);
    }
    c->tables = co_xcalloc(n, sizeof(*c->tables));
    for (size_t i = 0; i < n; i++) {
        struct rt_table_spec spec = specs[i];
        spec.mode = spec.mode ? spec.mode : c->options.mode;
        int rc = ps_table_make(&spec, &c->tables[i], err);
        rc = rc < 0 ? rc : ps_table_fits(&c->tables[i], c->options.mode, err);
        for (size_t k = 0; k < i && rc == 0; k++) {
            if (strcmp(c->tables[k].name, c->tables[i].name) == 0) {
                rc = co_err_set(err, CO_INVALID, "two tables named '%s'", c->tables[i].name);
            }
        }
        if (rc < 0) {
            return rc;
        }
    }
    c->n_tables = (uint32_t)n;
    c->exchanges = psc_exchanges_new(c);
    ps_tables_take_turns(c->tables, c->n_tables);
    return 0;
}

static void set_links(struct rt_client *c, const struct psc_client_config *config) {
    c->n_links = config->servers;
    c->links = co_xcalloc(c->n_links, sizeof(*c->links));
    c->base = co_xcalloc((size_t)c->n_links + 1, sizeof(*c->base));
    for (uint32_t i = 0; i < c->n_links; i++) {
        c->links[i] =
            (struct psc_link){.c = c, .index = i, .endpoint = co_xstrdup(config->endpoints[i])};
        psc_inflight_init(&c->links[i].inflight);
    }
}

int psc_client_start_reconnector(struct rt_client *c, struct co_err *err) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(&c->reconnector, NULL, psc_client_mend, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    c->mending = e == 0;
    return e ? co_err_errno(err, e, "cannot start a thread") : 0;
}

int psc_client_connect(const struct psc_client_config *config,
    const struct rt_client_options *options, const struct rt_table_spec *specs, size_t n_specs,
    struct rt_client **ret_client, struct co_err *err) {
    struct rt_client *c = co_xcalloc(1, sizeof(*c));
    c->options = options ? *options : (struct rt_client_options){0};
    c->trainer = config->trainer;
    c->trainers = config->trainers;
    c->job = co_xstrdup(config->job ? config->job : "");
    c->auth.token = co_xstrdup(config->token ? config->token : "");
    c->auth.encrypt = config->encrypt;
    c->window = config->window ? config->window : PSC_LINK_WINDOW;
    c->incarnation = ps_incarnation();
    c->join_until_ms = INT64_MAX;
    c->progress.done = co_xcalloc(c->trainers, sizeof(*c->progress.done));
    init_sync(c);
    struct rpc_options rpc = {
        .tick_ms = TICK_MS, .encrypt = config->encrypt, .backlog = config->backlog};
    int rc = psc_options_client(&c->options, err);
    psc_saving_open(c);
    rc = rc < 0 ? rc : copy_tables(c, specs, n_specs, err);
    if (rc == 0) {
        set_links(c, config);
        rc = c->options.transport == RT_PS_GRPC ? 0 : psc_reader_new(c, &c->reader, err);
        rc = rc < 0 ? rc : rpc_open(&client_ops, c, &rpc, &c->rpc, err);
    }
    rc = rc < 0 ? rc : psc_client_join(c, err);
    rc = rc < 0 ? rc : psc_communicator_start(c, &c->communicator, err);
    rc = rc < 0 ? rc : psc_client_start_reconnector(c, err);
    if (rc < 0) {
        rt_client_close(c);
        return rc;
    }
    c->geo = psc_geo_open(c);
    *ret_client = c;
    return 0;
}

/* The stream is open, and the server has sent a welcome; or, if this trainer comes back, may be
 * about to: a server that has its hello would take a mere end for its loss. */
static bool is_left(const struct psc_link *l, bool returns) {
    return l->stream && l->state >= (returns ? PSC_LINK_HELLO : PSC_LINK_WELCOME);
}

void psc_client_leave(struct rt_client *c, const char *why, bool returns) {
    Rpc__Leave l = RPC__LEAVE__INIT;
    l.why = (char *)(uintptr_t)why;
    l.returns = returns;
    Rpc__Control m = RPC__CONTROL__INIT;
    m.body_case = RPC__CONTROL__BODY_LEAVE;
    m.leave = &l;
    int64_t deadline = net_now() + LEAVE_MS;
    bool open = false, in_time = true;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        struct rpc_frame *f = NULL;
        if (is_left(&c->links[i], returns) && ps_control_pack(&m, NULL, &f, NULL) == 0) {
            (void)!rpc_stream_send(c->links[i].stream, f, NULL);
        }
    }
    do {
        open = false;
        for (uint32_t i = 0; i < c->n_links; i++) {
            open = open || is_left(&c->links[i], returns);
        }
        in_time = !open || psc_client_wait(c, deadline);
    } while (open && in_time);
    pthread_mutex_unlock(&c->m);
}

void rt_client_close(struct rt_client *c) {
    /* A forked child says no goodbye for its parent, and has none of the threads. */
    if (!c || c->fork.forked) {
        return;
    }
    struct co_err err = {0};
    co_err_set(&err, CO_CANCELED, "the client was closed");
    pthread_mutex_lock(&c->m);
    bool finished = c->finished;
    c->leaving = true;
    struct rt_call *list = psc_client_fail(c, &err);
    err = c->failed;
    pthread_mutex_unlock(&c->m);
    psc_calls_done(list);
    psc_communicator_stop(c->communicator);
    psc_geo_close(c->geo);
    psc_client_leave(c, finished ? "finished" : co_err_text(&err), false);
    client_free(c);
}

int psc_client_here(const struct rt_client *c, struct co_err *err) {
    return c->fork.forked ? co_fork_refuse("the client of the servers", err) : 0;
}

int psc_client_whole(struct rt_client *c, struct co_err *err) {
    int rc = psc_client_here(c, err);
    if (rc == 0 && __builtin_expect(atomic_load(&c->is_torn), 0)) {
        pthread_mutex_lock(&c->m);
        rc = co_err_set(err, CO_UNAVAILABLE, "%s", c->torn.msg);
        pthread_mutex_unlock(&c->m);
    }
    return rc;
}

struct co_err psc_client_tear(struct rt_client *c, const struct co_err *why) {
    pthread_mutex_lock(&c->m);
    const struct co_err before = c->torn, none = {0};
    c->torn = c->failed.code ? none : *why; /* then it refuses all in any case */
    atomic_store(&c->is_torn, c->torn.code != 0);
    pthread_mutex_unlock(&c->m);
    return before;
}

void psc_client_servers(struct rt_client *c, uint64_t *ret) {
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        ret[i] = c->links[i].incarnation;
    }
    pthread_mutex_unlock(&c->m);
}

int psc_client_same_servers(struct rt_client *c, const uint64_t *was, struct co_err *err) {
    CO_AUTOFREE uint64_t *is = co_xcalloc(c->n_links, sizeof(*is));
    psc_client_servers(c, is);
    for (uint32_t i = 0; i < c->n_links; i++) {
        if (is[i] != was[i]) {
            return co_err_set(err, CO_CONFLICT, "server %u (%s) was restarted meanwhile", i,
                c->links[i].endpoint);
        }
    }
    return 0;
}

enum rt_mode rt_client_mode(const struct rt_client *c) {
    return c->options.mode;
}

int psc_client_table(struct rt_client *c, uint32_t table, enum rt_table_kind kind,
    const struct ps_table **ret, struct co_err *err) {
    int rc = psc_client_whole(c, err);
    if (rc < 0) {
        return rc;
    }
    if (table >= c->n_tables || c->tables[table].spec.kind != kind) {
        return co_err_set(err, CO_INVALID, "table %u is not a %s table of this client", table,
            kind == RT_DENSE ? "dense" : "sparse");
    }
    *ret = &c->tables[table];
    return 0;
}

enum rt_nonfinite psc_client_nonfinite(struct rt_client *c) {
    enum rt_nonfinite least = RT_NONFINITE_ALLOW;
    pthread_mutex_lock(&c->m);
    for (uint32_t i = 0; i < c->n_links; i++) {
        enum rt_nonfinite l = c->links[i].nonfinite;
        least = l < least ? l : least;
    }
    pthread_mutex_unlock(&c->m);
    return least;
}
