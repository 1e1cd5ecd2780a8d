/* How a node finds the master of its rendezvous, and what it sends there.  See master.h. */
#include "runtime/launch/rendezvous/master.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "common/listen.h"

/* ---- which node serves ---- */

static void service_note(void *arg, bool warn, const char *line) {
    const struct rdzv_master *w = arg;
    rdzv_note(w->m, warn, line);
}

static int open_service(struct rdzv_master *w, uint16_t port, struct co_err *err) {
    const struct rdzv_options *o = &w->m->options;
    struct rdzv_service_options so = {.job_id = o->job_id,
        .token = o->token,
        .rules = {.min = o->min_nodes,
            .max = o->max_nodes,
            .level = o->level,
            .max_restart = o->max_restart,
            .sort_ip = o->sort_ip,
            .elastic_ms = o->elastic_ms,
            .silent_ms = o->silent_ms},
        .note = service_note,
        .arg = w};
    return rdzv_service_open(w->m->loop, port, &so, &w->service, err);
}

static void connect_to(struct rdzv_master *w, const char *host, uint16_t port) {
    if (!w->http) {
        w->http = co_httpc_new(w->m->loop, host, port, NULL, RDZV_WIRE_RAW_MAX);
    }
    w->found(w->arg, NULL);
}

static bool is_local(const struct addrinfo *list) {
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        if (co_listen_is_local(a->ai_addr, a->ai_addrlen)) {
            return true;
        }
    }
    return false;
}

static void on_lookup(void *arg, const struct addrinfo *list, const struct co_err *err) {
    struct rdzv_master *w = arg;
    w->lookup = NULL;
    if (!list) {
        w->found(w->arg, err);
        return;
    }
    w->local = is_local(list);
    w->taken = w->local ? open_service(w, w->address.port, NULL) : 0;
    if (w->local && !w->taken) {
        co_httpc_free(co_steal_ptr(w->http));
        connect_to(w, "127.0.0.1", w->address.port);
    } else {
        connect_to(w, w->address.host, w->address.port);
    }
}

void rdzv_master_explain_taken(const struct rdzv_master *w, struct co_err *ret) {
    char address[16];
    CO_AUTOCLOSE int fd = -1;
    (void)snprintf(address, sizeof(address), ":%u", w->address.port);
    *ret = (struct co_err){0};
    if (co_listen(address, &fd, ret) == 0) {
        (void)co_err_set(ret, CO_UNAVAILABLE, "its port was in use until now");
    }
}

void rdzv_master_find(struct rdzv_master *w) {
    const struct rdzv_options *o = &w->m->options;
    if (o->master) {
        w->lookup = co_lookup_start(w->m->loop, w->address.host, w->address.port, on_lookup, w);
        return;
    }
    uint16_t port = rdzv_service_port(w->service);
    co_hostport_format(o->host ? o->host : "127.0.0.1", port, w->text, sizeof(w->text));
    connect_to(w, "127.0.0.1", port);
}

void rdzv_master_cancel(struct rdzv_master *w) {
    co_lookup_cancel(co_steal_ptr(w->lookup));
    if (w->http) {
        co_httpc_cancel(w->http);
    }
}

int rdzv_master_init(struct rdzv_master *ret, struct rdzv *m,
    void (*found)(void *arg, const struct co_err *err), void *arg, struct co_err *err) {
    const struct rdzv_options *o = &m->options;
    uint64_t id = 0;
    *ret = (struct rdzv_master){.m = m, .found = found, .arg = arg};
    (void)!getrandom(&id, sizeof(id), 0);
    (void)snprintf(ret->id, sizeof(ret->id), "%016llx", (unsigned long long)id);
    if (o->token) {
        CO_TRY(rdzv_prover_new(o->token, &ret->prover, err));
    }
    if (!o->master) {
        return open_service(ret, 0, err);
    }
    CO_TRY(co_parse_hostport("--master", o->master, &ret->address, err));
    (void)snprintf(ret->text, sizeof(ret->text), "%s", o->master);
    return ret->address.host[0] && ret->address.port
               ? 0
               : co_err_set(err, CO_INVALID,
                     "--master \"%.200s\": expected host:port, with a port from 1 to 65535",
                     o->master);
}

void rdzv_master_done(struct rdzv_master *w) {
    co_lookup_cancel(w->lookup);
    co_httpc_free(w->http);
    rdzv_prover_free(w->prover);
    rdzv_service_close(w->service);
}

/* ---- requests ---- */

/* "aaaaaa" makes the serving node the first in Paddle's order. */
const char *rdzv_master_key(const struct rdzv_master *w) {
    return w->service && w->m->options.rank < 0 ? "aaaaaa" : w->m->options.name;
}

/* Sends a request about this node's key. */
static void send_hello(struct rdzv_master *w, const struct rdzv_wire_hello *h, bool parts,
    struct rdzv_prover_request req) {
    const struct rdzv_options *o = &w->m->options;
    CO_AUTOFREE char *path = co_xasprintf("/%s/info/%s/%d", o->job_id, rdzv_master_key(w), o->rank);
    struct rdzv_wire_hello whole = *h;
    char text[RDZV_WIRE_TEXT];
    whole.min = o->min_nodes;
    whole.max = o->max_nodes;
    (void)snprintf(whole.id, sizeof(whole.id), "%s", w->id);
    (void)snprintf(whole.host, sizeof(whole.host), "%s", o->host ? o->host : "");
    rdzv_wire_hello_format(&whole, parts, text);
    req.path = path;
    req.said = text;
    req.arg = w->arg;
    rdzv_prover_send(w->prover, w->http, &req);
}

void rdzv_master_report(struct rdzv_master *w, const struct rdzv_wire_hello *h,
    void (*done)(void *arg, const struct co_httpc_result *r)) {
    const struct rdzv_options *o = &w->m->options;
    send_hello(w, h, false,
        (struct rdzv_prover_request){.method = "POST",
            .body = o->value,
            .timeout_ms = o->silent_ms + RDZV_MASTER_ANSWER_MS,
            .done = done});
}

void rdzv_master_part(struct rdzv_master *w, const struct rdzv_wire_hello *h, const char *why,
    void (*done)(void *arg, const struct co_httpc_result *r)) {
    co_lookup_cancel(co_steal_ptr(w->lookup));
    send_hello(w, h, true,
        (struct rdzv_prover_request){.method = "DELETE",
            .body = why,
            .timeout_ms = RDZV_MASTER_ANSWER_MS + (h->restart ? w->m->options.silent_ms : 0),
            .done = done});
}

void rdzv_master_list(
    struct rdzv_master *w, void (*done)(void *arg, const struct co_httpc_result *r)) {
    CO_AUTOFREE char *path = co_xasprintf("/%s/info", w->m->options.job_id);
    rdzv_prover_send(w->prover, w->http,
        &(struct rdzv_prover_request){"GET", path, .said = "", .body = "",
            .timeout_ms = w->m->options.silent_ms, .done = done, .arg = w->arg});
}
