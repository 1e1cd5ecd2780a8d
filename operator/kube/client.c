#include "operator/kube/client.h"

#include "common/log.h"
#include "common/version.h"
#include "operator/kube/cred.h"
#include "operator/kube/path.h"
#include "operator/kube/status.h"
#include "operator/kube/stream.h"
#include "operator/kube/transport.h"

#include <string.h>

enum {
    PATH_MAX_BYTES = 16 * 1024,
    BODY_MAX = 4 << 20, /* the API server takes 3 MiB */
    DEADLINE_MS = 30 * 1000,
    QUEUE_MAX = 65536,
    TICK_MS = 500, /* how late the deadline of a waiting request may be noticed */
    FLOWS = 64,    /* queues a lane; flows share them by remainder */
};
#define QUEUE_MAX_BYTES ((size_t)128 << 20)
#define REPLY_MAX ((size_t)64 << 20)
#define ERROR_REPLY_MAX ((size_t)16 << 20) /* one delivery of a stream */

/* Streams wait and fly like requests, without a bound of their own. */
enum { LANE_STREAM = OP_KUBE_LANES, LANES, STREAMS_MAX = 1000 };

/* Where an op is; op_set_state alone moves it. */
enum op_state {
    OP_WAITING, /* in a queue of its lane, for a free place or a credential */
    OP_FLYING,  /* xfer is on the wire */
    OP_FAILED,  /* in c->failed: its callback comes on the next turn */
};

struct op_kube_op {
    struct op_kube_client *c;
    struct op_kube_op *prev, *next; /* in the list of its state */
    enum op_state state;
    int lane; /* enum op_kube_lane or LANE_STREAM */
    unsigned flow;
    enum op_kube_verb verb;
    char *path;        /* with query */
    char *resource;    /* plural, or the path asked for */
    char *subresource; /* or NULL */
    char *what;        /* "create pods default/x", for messages */
    char *body;
    size_t body_len;
    const char *content_type;
    int64_t created, started, deadline; /* loop time; deadline 0: none */
    bool keep_text_only, retried;
    unsigned credential;
    void (*data)(void *arg, const char *data, size_t len);
    op_kube_done_fn done;
    void *arg;
    struct op_kube_xfer *xfer;
    struct co_err err; /* OP_FAILED */
};

struct op_list {
    struct op_kube_op *first, *last;
};

struct lane {
    int limit, flying;
    size_t waiting;
    unsigned turn; /* the flow served next */
    struct op_list flows[FLOWS];
};

struct op_kube_client {
    struct co_loop *loop;
    struct op_kube_config *cfg;
    struct op_kube_client_opts opts;
    struct op_kube_transport *transport;
    struct op_kube_cred *cred;
    struct lane lanes[LANES];
    struct op_list flying, failed;
    size_t n_flying, n_failed, n_streams; /* n_streams: in whatever state */
    size_t waiting, waiting_bytes;
    struct co_timer *soon; /* pump on the next turn */
    struct co_timer *tick; /* deadlines of what waits */
    void (*drained)(void *arg);
    void *drained_arg;
};

const char *op_kube_verb_name(enum op_kube_verb v) {
    static const char *const names[OP_KUBE_VERBS] = {
        "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"};
    return v < OP_KUBE_VERBS ? names[v] : "?";
}

/* ---- lists and states ---- */

static void list_add(struct op_list *l, struct op_kube_op *op) {
    op->next = NULL;
    op->prev = l->last;
    if (l->last) {
        l->last->next = op;
    } else {
        l->first = op;
    }
    l->last = op;
}

static void list_remove(struct op_list *l, struct op_kube_op *op) {
    if (op->prev) {
        op->prev->next = op->next;
    } else {
        l->first = op->next;
    }
    if (op->next) {
        op->next->prev = op->prev;
    } else {
        l->last = op->prev;
    }
    op->prev = op->next = NULL;
}

static void state_leave(struct op_kube_op *op) {
    struct op_kube_client *c = op->c;
    struct lane *lane = &c->lanes[op->lane];
    switch (op->state) {
    case OP_WAITING:
        list_remove(&lane->flows[op->flow], op);
        lane->waiting--;
        c->waiting--;
        c->waiting_bytes -= op->body_len;
        break;
    case OP_FLYING:
        list_remove(&c->flying, op);
        lane->flying--;
        c->n_flying--;
        break;
    case OP_FAILED:
        list_remove(&c->failed, op);
        c->n_failed--;
        break;
    }
}

static void state_enter(struct op_kube_op *op, enum op_state state) {
    struct op_kube_client *c = op->c;
    struct lane *lane = &c->lanes[op->lane];
    op->state = state;
    switch (state) {
    case OP_WAITING:
        list_add(&lane->flows[op->flow], op);
        lane->waiting++;
        c->waiting++;
        c->waiting_bytes += op->body_len;
        if (!co_timer_armed(c->tick)) {
            co_timer_start(c->tick, TICK_MS);
        }
        break;
    case OP_FLYING:
        list_add(&c->flying, op);
        lane->flying++;
        c->n_flying++;
        break;
    case OP_FAILED:
        list_add(&c->failed, op);
        c->n_failed++;
        break;
    }
    if (state != OP_FLYING) {
        co_timer_start(c->soon, 0);
    }
}

static void op_set_state(struct op_kube_op *op, enum op_state state) {
    state_leave(op);
    state_enter(op, state);
}

static void op_free(struct op_kube_op *op) {
    struct op_kube_client *c = op->c;
    op_kube_xfer_cancel(op->xfer);
    state_leave(op);
    c->n_streams -= op->lane == LANE_STREAM;
    /* A free place, or the end of a drain. */
    if (c->waiting || c->drained) {
        co_timer_start(c->soon, 0);
    }
    free(op->path);
    free(op->resource);
    free(op->subresource);
    free(op->what);
    free(op->body);
    free(op);
}

/* ---- the end of a request ---- */

static void report(struct op_kube_op *op, int code, const struct op_kube_reply *reply,
    const struct co_err *err, size_t received) {
    struct op_kube_client *c = op->c;
    if (c->opts.sample) {
        int64_t now = co_loop_now(c->loop);
        struct op_kube_sample s = {
            .verb = op->verb,
            .resource = op->resource,
            .subresource = op->subresource,
            .status = reply->status,
            .code = code,
            .ms = op->started ? now - op->started : 0,
            .queued_ms = (op->started ? op->started : now) - op->created,
            .sent = op->started ? op->body_len : 0,
            .received = received,
        };
        c->opts.sample(c->opts.sample_arg, &s);
    }
    op_kube_done_fn done = op->done;
    void *arg = op->arg;
    op_free(op);
    if (done) {
        done(arg, code, reply, err);
    }
}

static void report_failure(struct op_kube_op *op, const struct co_err *err) {
    struct co_err copy = *err; /* op->err itself goes with op */
    struct op_kube_reply reply = {.text = "", .reason = "", .message = "", .retry_after_ms = -1};
    report(op, copy.code, &reply, &copy, 0);
}

static bool wants_body(const struct op_kube_op *op, int status) {
    return op->lane == LANE_STREAM ? status >= 300 : !op->keep_text_only || status >= 300;
}

static void op_answered(void *arg, const struct op_kube_xfer_result *r) {
    struct op_kube_op *op = arg;
    op->xfer = NULL;
    if (r->status == 401 && !op->retried && op_kube_cred_reject(op->c->cred, op->credential)) {
        op->retried = true;
        op_set_state(op, OP_WAITING);
        return;
    }
    struct co_err err = {0};
    CO_AUTOJSON json_t *body = NULL;
    int code = r->code;
    if (code) {
        co_err_set(&err, code, "%s: %s", op->what, co_err_text(r->err));
    } else if (r->len && wants_body(op, r->status)) {
        code = co_json_parse(r->text, r->len, &body, &err);
    }
    if (!r->code && (r->status < 200 || r->status > 299)) {
        code = op_kube_status_err(&err, op->what, r->status, body, r->text);
    } else if (!r->code && code) {
        code = CO_UNAVAILABLE; /* a proxy's page, or cut short: not the API server's doing */
        err.code = code;
        co_err_wrap(&err, "%s: HTTP %d", op->what, r->status);
    }
    const char *reason = co_json_str(body, "reason");
    const char *message = code ? co_json_str(body, "message") : NULL;
    int64_t retry_ms = r->retry_after_ms >= 0 ? r->retry_after_ms : op_kube_status_retry_ms(body);
    struct op_kube_reply reply = {
        .status = r->status,
        .body = code ? NULL : body,
        .text = r->text,
        .len = r->len,
        .reason = code && reason ? reason : "",
        .message = message ? message : "",
        .retry_after_ms = retry_ms,
    };
    report(op, code, &reply, &err, r->received);
}

static void op_data(void *arg, const char *data, size_t len) {
    struct op_kube_op *op = arg;
    op->data(op->arg, data, len);
}

/* ---- starting ---- */

static const char *method(const struct op_kube_op *op) {
    static const char *const methods[OP_KUBE_VERBS] = {
        "GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "DELETE"};
    return methods[op->verb];
}

static void start(struct op_kube_op *op, const struct op_kube_cred_view *cred) {
    struct op_kube_client *c = op->c;
    int64_t now = co_loop_now(c->loop);
    struct op_kube_xfer_opts x = {
        .method = method(op),
        .path = op->path,
        .authorization = cred->authorization,
        .content_type = op->body ? op->content_type : NULL,
        .cert = cred->cert,
        .key = cred->key,
        /* A copy stays for a second try. */
        .body_own = op->body ? co_xstrndup(op->body, op->body_len) : NULL,
        .body_len = op->body_len,
        .timeout_ms = op->deadline ? op->deadline - now : 0,
        .reply_max = op->lane == LANE_STREAM ? ERROR_REPLY_MAX : c->opts.reply_max,
        .stream = op->lane == LANE_STREAM,
        .data = op_data,
        .done = op_answered,
        .arg = op,
    };
    op->started = now;
    op->credential = cred->generation;
    if (op_kube_xfer_start(c->transport, &x, &op->xfer, &op->err)) {
        op_set_state(op, OP_FAILED);
    } else {
        op_set_state(op, OP_FLYING);
    }
}

/* The next of a lane: the flows take turns. */
static struct op_kube_op *next_of(struct lane *lane) {
    for (unsigned i = 0; lane->waiting && i < FLOWS; i++) {
        unsigned at = (lane->turn + i) % FLOWS;
        if (lane->flows[at].first) {
            lane->turn = (at + 1) % FLOWS;
            return lane->flows[at].first;
        }
    }
    return NULL;
}

static void fail(struct op_kube_op *op, const struct co_err *err) {
    op->err = *err;
    co_err_wrap(&op->err, "%s", op->what);
    op_set_state(op, OP_FAILED);
}

static void start_waiting(struct op_kube_client *c) {
    for (size_t i = 0; i < LANES; i++) {
        struct lane *lane = &c->lanes[i];
        while (lane->waiting && lane->flying < lane->limit) {
            struct op_kube_op *op = next_of(lane);
            struct op_kube_cred_view view = {0};
            struct co_err err = {0};
            bool pending;
            if (op->deadline && op->deadline <= co_loop_now(c->loop)) {
                co_err_set(&err, CO_TIMEOUT, "waited for its turn until its deadline");
                fail(op, &err);
            } else if (!op_kube_cred_get(c->cred, &view, &pending, &err)) {
                start(op, &view);
            } else if (pending) {
                return; /* credential_changed comes */
            } else {
                /* Not to be taken for an answer about the object. */
                if (co_code_remedy(err.code) != CO_BACK_OFF) {
                    err.code = CO_PERMISSION;
                }
                fail(op, &err);
            }
        }
    }
}

static void pump(void *arg) {
    struct op_kube_client *c = arg;
    start_waiting(c);
    /* Those that fail from now on have their turn later. */
    for (size_t n = c->n_failed; n && c->failed.first; n--) {
        report_failure(c->failed.first, &c->failed.first->err);
    }
    if (c->drained && !op_kube_client_pending(c)) {
        void (*drained)(void *) = c->drained;
        c->drained = NULL;
        drained(c->drained_arg);
    }
}

static void credential_changed(void *arg) {
    struct op_kube_client *c = arg;
    co_timer_start(c->soon, 0);
}

static void fail_late(struct op_kube_client *c, struct op_list *l, int64_t now) {
    struct op_kube_op *next;
    for (struct op_kube_op *op = l->first; op; op = next) {
        next = op->next;
        if (op->deadline && op->deadline <= now) {
            struct co_err err = {0};
            co_err_set(&err, CO_TIMEOUT, "waited for its turn until its deadline");
            fail(op, &err);
        }
    }
    (void)c;
}

static void on_tick(void *arg) {
    struct op_kube_client *c = arg;
    int64_t now = co_loop_now(c->loop);
    for (size_t i = 0; i < LANES; i++) {
        for (size_t k = 0; c->lanes[i].waiting && k < FLOWS; k++) {
            fail_late(c, &c->lanes[i].flows[k], now);
        }
    }
    if (c->waiting) {
        co_timer_start(c->tick, TICK_MS);
    }
}

/* ---- making a request ---- */

static int build_path(struct op_kube_op *op, const struct op_kube_req *req, struct co_err *err) {
    CO_AUTOBUF struct co_buf b = CO_BUF(PATH_MAX_BYTES);
    bool first = true;
    int rc = req->path ? co_buf_adds(&b, req->path, err)
                       : op_kube_path_add(&b, req->type, req->ns, req->name, req->subresource, err);
    for (size_t i = 0; !rc && i < OP_KUBE_PARAMS && req->params[i].key; i++) {
        rc = op_kube_query_add(&b, &first, req->params[i].key, req->params[i].value, err);
    }
    if (!rc && req->verb == OP_KUBE_PATCH && req->patch == OP_KUBE_PATCH_APPLY) {
        const char *who = req->field_manager ? req->field_manager : "paddle-operator";
        rc = op_kube_query_add(&b, &first, "fieldManager", who, err);
        rc = rc ? rc : op_kube_query_add(&b, &first, "force", "true", err);
    }
    if (!rc) {
        op->path = co_buf_take(&b);
    }
    return rc;
}

static const char *content_type(const struct op_kube_req *req) {
    static const char *const patches[] = {
        [OP_KUBE_PATCH_MERGE] = "application/merge-patch+json",
        [OP_KUBE_PATCH_JSON] = "application/json-patch+json",
        [OP_KUBE_PATCH_APPLY] = "application/apply-patch+yaml",
    };
    return req->verb == OP_KUBE_PATCH ? patches[req->patch] : "application/json";
}

static int check_room(const struct op_kube_op *op, struct co_err *err) {
    const struct op_kube_client *c = op->c;
    if (c->lanes[op->lane].waiting >= c->opts.queue_max) {
        return co_err_set(
            err, CO_NORESOURCE, "%zu requests are waiting already", c->opts.queue_max);
    }
    if (op->body_len > BODY_MAX) {
        return co_err_set(err, CO_INVALID,
            "a body of %zu bytes; the API server takes no more "
            "than 3 MiB",
            op->body_len);
    }
    if (c->waiting_bytes + op->body_len > c->opts.queue_max_bytes) {
        return co_err_set(
            err, CO_NORESOURCE, "requests of %zu bytes are waiting already", c->waiting_bytes);
    }
    return 0;
}

static void name_op(struct op_kube_op *op, const struct op_kube_req *req) {
    op->resource = co_xstrdup(req->path ? req->path : req->type->plural);
    op->subresource = req->subresource ? co_xstrdup(req->subresource) : NULL;
    op->what = co_xasprintf("%s %s%s%s%s%s%s%s", op_kube_verb_name(req->verb), op->resource,
        req->subresource ? "/" : "", req->subresource ? req->subresource : "",
        req->ns || req->name ? " " : "", req->ns ? req->ns : "", req->ns && req->name ? "/" : "",
        req->name ? req->name : "");
}

static struct op_kube_op *make(struct op_kube_client *c, const struct op_kube_req *req, int lane,
    void (*data)(void *, const char *, size_t)) {
    struct op_kube_op *op = co_xcalloc(1, sizeof(*op));
    int64_t now = co_loop_now(c->loop);
    int64_t ms = req->deadline_ms || lane == LANE_STREAM ? req->deadline_ms : DEADLINE_MS;
    *op = (struct op_kube_op){
        .c = c,
        .lane = lane,
        .flow = (unsigned)(req->flow % FLOWS),
        .verb = req->verb,
        .content_type = content_type(req),
        .created = now,
        .deadline = ms ? now + ms : 0,
        .keep_text_only = req->keep_text_only,
        .data = data,
        .done = req->done,
        .arg = req->arg,
    };
    name_op(op, req);
    if (req->body) {
        op->body = co_json_dump(req->body);
        op->body_len = strlen(op->body);
    }
    c->n_streams += lane == LANE_STREAM;
    int rc = build_path(op, req, &op->err);
    rc = rc ? rc : check_room(op, &op->err);
    if (rc) {
        co_err_wrap(&op->err, "%s", op->what);
    }
    state_enter(op, rc ? OP_FAILED : OP_WAITING);
    return op;
}

struct op_kube_op *op_kube_do(struct op_kube_client *c, const struct op_kube_req *req) {
    return make(c, req, (int)req->lane, NULL);
}

struct op_kube_op *op_kube_stream(struct op_kube_client *c, const struct op_kube_req *req,
    void (*data)(void *arg, const char *data, size_t len)) {
    return make(c, req, LANE_STREAM, data);
}

void op_kube_cancel(struct op_kube_op *op) {
    if (op) {
        op_free(op);
    }
}

/* ---- the client ---- */

int op_kube_client_new(struct co_loop *loop, struct op_kube_config *config_own,
    const struct op_kube_client_opts *opts, struct op_kube_client **ret, struct co_err *err) {
    static const int limits[LANES] = {
        [OP_KUBE_LANE_WORK] = 64,
        [OP_KUBE_LANE_STATUS] = 16,
        [OP_KUBE_LANE_EVENTS] = 8,
        [OP_KUBE_LANE_LEASE] = 2,
        [OP_KUBE_LANE_LIST] = 4,
        [LANE_STREAM] = STREAMS_MAX,
    };
    CO_AUTOFREE char *agent = co_xasprintf("paddle-operator/%s", co_version);
    struct op_kube_client *c = co_xcalloc(1, sizeof(*c));
    c->loop = loop;
    c->cfg = config_own;
    c->opts = opts ? *opts : (struct op_kube_client_opts){0};
    c->opts.queue_max = c->opts.queue_max ? c->opts.queue_max : QUEUE_MAX;
    c->opts.queue_max_bytes = c->opts.queue_max_bytes ? c->opts.queue_max_bytes : QUEUE_MAX_BYTES;
    c->opts.reply_max = c->opts.reply_max ? c->opts.reply_max : REPLY_MAX;
    for (size_t i = 0; i < LANES; i++) {
        int wanted = i < OP_KUBE_LANES ? c->opts.lane_limit[i] : 0;
        c->lanes[i].limit = wanted > 0 ? wanted : limits[i];
    }
    c->soon = co_timer_new(loop, pump, c);
    c->tick = co_timer_new(loop, on_tick, c);
    c->cred = op_kube_cred_new(loop, c->cfg, credential_changed, c);
    const char *name = c->opts.user_agent ? c->opts.user_agent : agent;
    int rc = op_kube_transport_new(loop, c->cfg, name, &c->transport, err);
    c->opts.user_agent = NULL; /* the caller's memory */
    if (rc) {
        op_kube_client_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void op_kube_client_free(struct op_kube_client *c) {
    if (!c) {
        return;
    }
    c->drained = NULL;
    struct op_list *lists[] = {&c->flying, &c->failed};
    for (size_t i = 0; i < CO_ARRAY_LEN(lists); i++) {
        while (lists[i]->first) {
            op_free(lists[i]->first);
        }
    }
    for (size_t i = 0; i < LANES; i++) {
        for (size_t k = 0; k < FLOWS; k++) {
            while (c->lanes[i].flows[k].first) {
                op_free(c->lanes[i].flows[k].first);
            }
        }
    }
    op_kube_transport_free(c->transport);
    op_kube_cred_free(c->cred);
    co_timer_free(c->soon);
    co_timer_free(c->tick);
    op_kube_config_free(c->cfg);
    free(c);
}

const struct op_kube_config *op_kube_client_config(const struct op_kube_client *c) {
    return c->cfg;
}

struct co_loop *op_kube_client_loop(const struct op_kube_client *c) {
    return c->loop;
}

void op_kube_client_distrust_streams(struct op_kube_client *c) {
    op_kube_transport_distrust_streams(c->transport);
}

void op_kube_client_drain(struct op_kube_client *c, void (*done)(void *arg), void *arg) {
    c->drained = done;
    c->drained_arg = arg;
    co_timer_start(c->soon, 0);
}

size_t op_kube_client_pending(const struct op_kube_client *c) {
    return c->waiting + c->n_flying + c->n_failed - c->n_streams;
}
