/* Requests to etcd's JSON gateway over two HTTP connections.  See etcd_client.h. */
#include "runtime/launch/rendezvous/etcd_client.h"

#include <string.h>

#include "common/buf.h"
#include "runtime/launch/rendezvous/etcd_json.h"

enum {
    ANSWER_MAX = 64 * 1024 * 1024,
    ANSWER_MS = 5000,
    WATCH_MS = 5000, /* until the watch's response headers must be there */
    WATCH_BODY_MAX = 64 * 1024,
};

/* gRPC's status codes, which the gateway passes on. */
enum {
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_UNAUTHENTICATED = 16
};

struct rdzv_etcd_client {
    struct rdzv_etcd_client_opts opts;
    struct co_httpc *http, *watch;
    char *token; /* NULL: none is needed, or none is known yet */
    /* The three below belong to the running request. */
    rdzv_etcd_then_fn then;
    bool asks_token;
    const char *wants; /* a field that the answer must have.  An answer without it counts as a
                        * failure: else the owner would ask again without a pause. */
};

struct rdzv_etcd_client *rdzv_etcd_client_new(
    struct co_loop *l, const struct rdzv_etcd_client_opts *opts) {
    struct rdzv_etcd_client *c = co_xcalloc(1, sizeof(*c));
    c->opts = *opts;
    c->http = co_httpc_new(l, opts->host, opts->port, opts->tls, ANSWER_MAX);
    c->watch = co_httpc_new(l, opts->host, opts->port, opts->tls, ANSWER_MAX);
    c->opts.host = NULL; /* the two HTTP clients have copies */
    c->opts.tls = NULL;
    return c;
}

void rdzv_etcd_client_free(struct rdzv_etcd_client *c) {
    if (!c) {
        return;
    }
    co_httpc_free(c->http);
    co_httpc_free(c->watch);
    free(c->token);
    free(c);
}

bool rdzv_etcd_client_busy(const struct rdzv_etcd_client *c) {
    return co_httpc_busy(c->http);
}

bool rdzv_etcd_client_watching(const struct rdzv_etcd_client *c) {
    return co_httpc_busy(c->watch);
}

void rdzv_etcd_client_cancel(struct rdzv_etcd_client *c) {
    co_httpc_cancel(c->http);
    co_httpc_cancel(c->watch);
}

/* ---- requests ---- */

static void fail_request(
    struct rdzv_etcd_client *c, enum rdzv_etcd_failure how, const struct co_err *err) {
    c->opts.failed(c->opts.arg, how, err);
}

/* Classifies an error answer.  A wrong password and a missing user name never pass. */
static enum rdzv_etcd_failure judge(struct rdzv_etcd_client *c, int64_t code, const char *text) {
    if (code == GRPC_PERMISSION_DENIED || (c->asks_token && code == GRPC_INVALID_ARGUMENT) ||
        (code == GRPC_INVALID_ARGUMENT && text && strstr(text, "user name is empty"))) {
        return RDZV_ETCD_FORBIDDEN;
    }
    if (code == GRPC_UNAUTHENTICATED) {
        free(co_steal_ptr(c->token)); /* it has expired */
    }
    return code == GRPC_NOT_FOUND ? RDZV_ETCD_EXPIRED : RDZV_ETCD_TROUBLE;
}

static void refused(struct rdzv_etcd_client *c, const json_t *answer, int status) {
    struct co_err err = {0};
    const char *text = co_json_str(answer, "message");
    (void)co_err_set(
        &err, CO_UNAVAILABLE, "%s answers %d: %s", c->opts.server, status, text ? text : "");
    fail_request(c, judge(c, json_integer_value(co_json_at(answer, "code")), text), &err);
}

static void on_answer(void *arg, const struct co_httpc_result *r) {
    struct rdzv_etcd_client *c = arg;
    CO_AUTOJSON json_t *answer = NULL;
    struct co_err err = {0};
    if (r->code) {
        fail_request(c, RDZV_ETCD_TROUBLE, r->err);
        return;
    }
    if (co_json_parse(r->body, r->len, &answer, &err)) {
        (void)co_err_wrap(&err, "%s answers %d", c->opts.server, r->status);
        fail_request(c, RDZV_ETCD_TROUBLE, &err);
        return;
    }
    if (r->status != 200) {
        refused(c, answer, r->status);
        return;
    }
    if (c->wants && !co_json_str(answer, c->wants)) {
        (void)co_err_set(&err, CO_INVALID, "%s answers without \"%s\"", c->opts.server, c->wants);
        fail_request(c, RDZV_ETCD_TROUBLE, &err);
        return;
    }
    if (c->asks_token) {
        c->token = co_xstrdup(co_json_str(answer, "token"));
    }
    c->then(c->opts.arg, answer);
}

static char *auth_header(const struct rdzv_etcd_client *c) {
    return c->token ? co_xasprintf("Authorization: %s\r\n", c->token) : NULL;
}

static void call(
    struct rdzv_etcd_client *c, const char *path, json_t *body_own, rdzv_etcd_then_fn then) {
    CO_AUTOJSON json_t *body = body_own;
    CO_AUTOFREE char *text = co_json_dump(body), *header = auth_header(c);
    c->then = then;
    c->asks_token = false;
    c->wants = NULL;
    co_httpc_send(
        c->http, &(struct co_httpc_request){"POST", path, .headers = header, .body = text,
                     .len = strlen(text), .timeout_ms = ANSWER_MS, .done = on_answer, .arg = c});
}

void rdzv_etcd_transact(
    struct rdzv_etcd_client *c, json_t *ops_own, json_t *compare_own, rdzv_etcd_then_fn then) {
    json_t *body = json_object();
    co_json_set(body, "compare", compare_own);
    co_json_set(body, "success", ops_own);
    call(c, "/v3/kv/txn", body, then);
}

/* ---- a token ---- */

bool rdzv_etcd_client_lacks_token(const struct rdzv_etcd_client *c) {
    return c->opts.user && !c->token;
}

void rdzv_etcd_authenticate(struct rdzv_etcd_client *c, rdzv_etcd_then_fn then) {
    const char *user = c->opts.user, *colon = strchr(user, ':');
    json_t *body = json_object();
    co_json_set(body, "name", json_stringn(user, colon ? (size_t)(colon - user) : strlen(user)));
    co_json_set(body, "password", co_json_string(colon ? colon + 1 : ""));
    call(c, "/v3/auth/authenticate", body, then);
    c->asks_token = true;
    c->wants = "token";
}

/* ---- leases ---- */

void rdzv_etcd_grant(struct rdzv_etcd_client *c, int64_t seconds, rdzv_etcd_then_fn then) {
    call(c, "/v3/lease/grant", json_pack("{s:I}", "TTL", (json_int_t)seconds), then);
    c->wants = "ID";
}

static json_t *lease_body(const char *lease) {
    return json_pack("{s:s}", "ID", lease);
}

void rdzv_etcd_keep_alive(struct rdzv_etcd_client *c, const char *lease, rdzv_etcd_then_fn then) {
    call(c, "/v3/lease/keepalive", lease_body(lease), then);
}

void rdzv_etcd_revoke(struct rdzv_etcd_client *c, const char *lease, rdzv_etcd_then_fn then) {
    call(c, "/v3/lease/revoke", lease_body(lease), then);
}

char *rdzv_etcd_lease_granted(const json_t *answer) {
    const char *id = co_json_str(answer, "ID");
    return id ? co_xstrdup(id) : NULL;
}

bool rdzv_etcd_lease_alive(const json_t *answer) {
    return co_json_str(answer, "result", "TTL") != NULL; /* etcd omits a TTL of 0: expired */
}

/* ---- the watch ---- */

/* The content of an event does not matter: the owner reads all keys again. */
static void on_watch_data(void *arg, const char *data, size_t len) {
    struct rdzv_etcd_client *c = arg;
    (void)data;
    (void)len;
    c->opts.stirred(c->opts.arg);
}

static void on_watch_end(void *arg, const struct co_httpc_result *r) {
    struct rdzv_etcd_client *c = arg;
    (void)r;
    c->opts.unwatched(c->opts.arg);
}

void rdzv_etcd_watch(struct rdzv_etcd_client *c, const char *const *prefixes, size_t n) {
    CO_AUTOBUF struct co_buf body = CO_BUF(WATCH_BODY_MAX);
    CO_AUTOFREE char *header = auth_header(c);
    for (size_t i = 0; i < n; i++) {
        CO_AUTOJSON json_t *create =
            rdzv_etcd_request("create_request", rdzv_etcd_range(prefixes[i]));
        CO_AUTOFREE char *text = co_json_dump(create);
        (void)!co_buf_addf(&body, NULL, "%s\n", text);
    }
    co_httpc_send(c->watch, &(struct co_httpc_request){"POST", "/v3/watch", .headers = header,
                                .body = body.data, .len = body.len, .timeout_ms = WATCH_MS,
                                .data = on_watch_data, .done = on_watch_end, .arg = c});
}
