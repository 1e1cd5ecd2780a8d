/* The trainer's client of the parameter servers: opens and closes it, and handles the callbacks of
 * its links (one a server), which the rpc's thread runs.  join.c connects the links; call.c sends
 * requests over them. */
#include "runtime/train/ps/client/client.h"

#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/client/options.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"

enum { TICK_MS = 100 };

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
    rpc_frame_error_read(f, &err);
    psc_link_name(l, &err);
    psc_client_failed_by(c, &err);
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
    struct psc_link *l = rpc_stream_user(stream);
    if (psc_link_received(l, stream)) {
        psc_client_frame(arg, l, f_own);
    } else {
        rpc_frame_free(f_own); /* from a connection that this link has dropped */
    }
}

static void on_close(void *arg, struct rpc_stream *stream, const struct co_err *why) {
    (void)arg;
    psc_link_closed(rpc_stream_user(stream), stream, why);
}

static void on_tick(void *arg) {
    psc_links_tick(arg, co_now_ms(), TICK_MS);
}

static const struct rpc_ops client_ops = {NULL, on_frame, on_close, on_tick};

/* ---- opening and closing ---- */

static void client_free(struct rt_client *c) {
    psc_reconnector_join(c);
    psc_saving_close(c);
    struct co_err held = {0};
    if (rpc_close(c->rpc, &held) < 0) {
        ps_log_warn("while the client closes: %s", held.msg);
    }
    psc_reader_free(c->reader);
    pss_server_stop(c->own);
    psc_exchanges_free(c->exchanges);
    psc_links_free(c);
    free(c->base);
    free(c->rates);
    free(c->progress.done);
    free(c->tables);
    free(c->job);
    free((char *)(uintptr_t)c->auth.token);
    if (c->metered) {
        meter_close();
    }
    co_fork_unwatch(&c->fork);
    psc_torn_free(c->torn);
    free(c);
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
        CO_TRY(ps_table_make(&spec, &c->tables[i], err));
        CO_TRY(ps_table_fits(&c->tables[i], c->options.mode, err));
        for (size_t k = 0; k < i; k++) {
            if (strcmp(c->tables[k].name, c->tables[i].name) == 0) {
                return co_err_set(err, CO_INVALID, "two tables named \"%s\"", c->tables[i].name);
            }
        }
    }
    c->n_tables = (uint32_t)n;
    c->rates = co_xcalloc(n, sizeof(*c->rates));
    psc_rates_forget(c);
    c->exchanges = psc_exchanges_new(c);
    ps_tables_take_turns(c->tables, c->n_tables);
    return 0;
}

CO_DEFINE_CLEANUP(struct rt_client *, rt_client_close)

int psc_client_connect(const struct psc_client_config *config,
    const struct rt_client_options *options, const struct rt_table_spec *specs, size_t n_specs,
    struct rt_client **ret_client, struct co_err *err) {
    CO_CLEANUP(rt_client_closep) struct rt_client *c = co_xcalloc(1, sizeof(*c));
    c->options = options ? *options : (struct rt_client_options){0};
    c->trainer = config->trainer;
    c->trainers = config->trainers;
    c->job = co_xstrdup(config->job ? config->job : "");
    c->auth = (struct net_auth){
        &rpc_protocol, co_xstrdup(config->token ? config->token : ""), config->encrypt};
    c->window = config->window ? config->window : PSC_LINK_WINDOW;
    c->incarnation = ps_incarnation();
    c->join_until_ms = INT64_MAX;
    c->progress.done = co_xcalloc(c->trainers, sizeof(*c->progress.done));
    c->torn = psc_torn_new();
    c->n_servers = config->servers;
    c->base = co_xcalloc((size_t)c->n_servers + 1, sizeof(*c->base));
    psc_links_open(c, c->n_servers, config->endpoints);
    co_fork_watch(&c->fork, NULL);
    struct rpc_options rpc = {
        .tick_ms = TICK_MS, .encrypt = config->encrypt, .backlog = config->backlog};
    int rc = psc_options_client(&c->options, err);
    psc_saving_open(c); /* in any case: from now on the directory's name is the client's */
    CO_TRY(rc);
    CO_TRY(copy_tables(c, specs, n_specs, err));
    if (c->options.transport != RT_PS_GRPC) {
        CO_TRY(psc_reader_new(c, &c->reader, err));
    }
    CO_TRY(rpc_open(&client_ops, c, &rpc, &c->rpc, err));
    CO_TRY(psc_client_join(c, err));
    CO_TRY(psc_communicator_start(c, &c->communicator, err));
    CO_TRY(psc_reconnector_start(c, err));
    c->geo = psc_geo_open(c);
    *ret_client = co_steal_ptr(c);
    return 0;
}

void rt_client_close(struct rt_client *c) {
    /* A forked child says no goodbye for its parent, and has none of the threads. */
    if (!c || c->fork.forked) {
        return;
    }
    struct co_err err = {0};
    co_err_set(&err, CO_CANCELED, "the client was closed");
    bool finished = psc_links_stage(c) == PSC_FINISHED;
    psc_client_fail(c, &err);
    (void)psc_client_failure(c, &err); /* the first one */
    psc_step_drop(c);
    psc_communicator_stop(c->communicator);
    psc_geo_close(c->geo);
    psc_links_leave(c, PSC_LINKS_WELCOMED, finished ? "finished" : co_err_text(&err), false);
    client_free(c);
}

int psc_client_here(const struct rt_client *c, struct co_err *err) {
    return c->fork.forked ? co_fork_refuse("the client of the servers", err) : 0;
}

enum rt_mode rt_client_mode(const struct rt_client *c) {
    return c->options.mode;
}

int psc_client_table(struct rt_client *c, uint32_t table, enum rt_table_kind kind,
    const struct ps_table **ret, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    if (table >= c->n_tables) {
        return co_err_set(
            err, CO_INVALID, "there is no table %u, but %u of them", table, c->n_tables);
    }
    if (c->tables[table].spec.kind != kind) {
        return co_err_set(err, CO_INVALID, "table \"%s\" is %s, expected a %s one",
            c->tables[table].name, kind == RT_DENSE ? "sparse" : "dense",
            kind == RT_DENSE ? "dense" : "sparse");
    }
    *ret = &c->tables[table];
    return 0;
}
