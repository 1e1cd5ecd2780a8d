/* Starts requests as their classes allow, parses and reports their answers.  op.c has the queues,
 * request.c builds requests, transport.c sends them. */
#include "operator/kube/client.h"

#include <inttypes.h>
#include <string.h>

#include "common/log.h"
#include "common/version.h"
#include "operator/kube/item.h"
#include "operator/kube/op.h"
#include "operator/kube/status.h"
#include "operator/kube/stream.h"
#include "operator/kube/text.h"

enum {
    QUEUE_MAX = 65536,
    RETRY_MS = 1000,    /* after a 429 without Retry-After */
    RETRY_MIN_MS = 100, /* after any 429 */
    PAUSE_LOGGED_MS = 5000,
};
#define QUEUE_MAX_BYTES ((size_t)128 << 20)
#define METADATA_LIST                                                                              \
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#define PROTO KUBE_PROTO_TYPE ",application/json"
#define REPLY_MAX ((size_t)64 << 20)
#define ERROR_REPLY_MAX ((size_t)16 << 20) /* bytes that a stream may buffer at a time */

/* ---- the end of a request ---- */

static int err_late(struct co_err *err, const struct kube_class_queue *class, int64_t now) {
    int64_t pause = class->paused_until - now;
    return pause <= 0 ? co_err_set(err, CO_TIMEOUT, "deadline passed in the queue")
                      : co_err_set(err, CO_TIMEOUT,
                            "not sent: the API server asks to wait, %" PRId64
                            " s more (429 Too Many Requests)",
                            (pause + 999) / 1000);
}

static void sample_request(const struct kube_op *op, int status, int code, size_t received) {
    const struct kube_client *c = op->c;
    int64_t now = co_loop_now(c->loop);
    struct kube_sample s = {
        .verb = op->verb,
        .resource = op->resource,
        .subresource = op->subresource,
        .status = status,
        .code = code,
        .ms = op->started ? now - op->started : 0,
        .queued_ms = (op->started ? op->started : now) - op->created,
        .sent = op->started ? op->body_len : 0,
        .received = received,
    };
    if (c->opts.sample) {
        c->opts.sample(c->opts.sample_arg, &s);
    }
}

static void report_reply(struct kube_op *op, int code, const struct kube_reply *reply,
    const struct co_err *err, size_t received) {
    sample_request(op, reply->status, code, received);
    kube_done_fn done = op->done;
    void *arg = op->arg;
    kube_op_free(op);
    if (done) {
        done(arg, code, reply, err);
    }
}

static void report_failure(struct kube_op *op, const struct co_err *err) {
    struct co_err copy = *err; /* the original goes with op */
    struct kube_reply reply = {
        .text = "", .reason = "", .message = "", .warnings = "", .retry_after_ms = -1};
    report_reply(op, copy.code, &reply, &copy, 0);
}

/* Handles a 429 (the server is overloaded): the class pauses for Retry-After and then has half of
 * its concurrency, which grows by one with every success.  True: the request is to be repeated. */
static bool sent_back(struct kube_op *op, const struct kube_xfer_result *r) {
    struct kube_class_queue *class = &op->c->classes[op->class];
    if (r->status >= 200 && r->status < 300 && class->allowed < class->limit) {
        class->allowed++;
    }
    /* A 429 of an admission webhook says nothing about the API server. */
    bool patience = r->status == 429 && kube_status_code(429, "", r->text) == CO_UNAVAILABLE;
    if (!patience || op->class == KUBE_CLASS_LIST || op->class == KUBE_CLASS_STREAM) {
        return false;
    }
    int64_t now = co_loop_now(op->c->loop);
    int64_t ms = r->retry_after_ms < 0 ? RETRY_MS : r->retry_after_ms;
    if (op->class == KUBE_CLASS_LEASE && ms > RETRY_MS) {
        ms = RETRY_MS; /* servers ask for up to 32 s, but the lease is lost after 10 s */
    }
    int64_t until = now + (ms > RETRY_MIN_MS ? ms : RETRY_MIN_MS);
    if (now >= class->paused_until) { /* halve only once for all 429s that come together */
        class->allowed = class->allowed > 1 ? class->allowed / 2 : 1;
        if (ms >= PAUSE_LOGGED_MS) {
            co_log_warn("API server asks to wait before requests of this class are sent again",
                CO_S("request", op->what), CO_I("status", r->status), CO_I("seconds", ms / 1000));
        }
    }
    class->paused_until = until > class->paused_until ? until : class->paused_until;
    return !op->deadline || until < op->deadline;
}

/* A parsed answer: a success in the form that was asked for, a failure as nodes. */
struct answer {
    json_t *tree;
    struct kube_item item;
};

static void answer_done(struct answer *a) {
    json_decref(a->tree);
    kube_item_done(&a->item);
}

static int parse_answer(const struct kube_op *op, const struct kube_xfer_result *r,
    struct answer *ret, struct co_err *err) {
    bool good = r->status < 300;
    bool tree = good && op->answer == KUBE_TREE;
    struct co_jdoc doc = {.text = NULL};
    if (!r->len || (good && (op->answer == KUBE_TEXT || op->class == KUBE_CLASS_STREAM))) {
        return 0;
    }
    if (!op->proto || !kube_proto_is(r->text, r->len)) {
        return tree ? kube_text_parse(r->text, r->len, &ret->tree, err)
                    : kube_item_json(r->text, r->len, &ret->item, err);
    }
    CO_TRY(kube_proto_read(op->proto, r->text, r->len, &doc, err));
    ret->item = kube_item_proto(&doc);
    ret->tree = tree ? co_json_of_nodes(ret->item.object.nodes) : NULL;
    return 0;
}

/* A proxy answers 200 and {}, too: who asked would wait for the object. */
static int read_answer(const struct kube_op *op, const struct kube_xfer_result *r,
    struct answer *ret, struct co_err *err) {
    CO_TRY(parse_answer(op, r, ret, err));
    if (r->status >= 300 || !op->object || op->answer == KUBE_TEXT) {
        return 0;
    }
    const char *name = ret->tree ? co_json_str(ret->tree, "metadata", "name")
                                 : co_jnode_str(ret->item.object.nodes, "metadata", "name");
    if (!name || strcmp(name, op->object) != 0) {
        return co_err_set(err, CO_INVALID, "the answer is %s%.80s, expected the object %s",
            name ? "another object, " : "no object", name ? name : "", op->object);
    }
    return 0;
}

static void kube_answered(void *arg, const struct kube_xfer_result *r) {
    struct kube_op *op = arg;
    op->xfer = NULL;
    if (r->status == 401 && !op->retried && kube_cred_reject(op->c->cred, op->credential)) {
        op->retried = true;
        kube_op_set_state(op, KUBE_OP_WAITING);
        return;
    }
    if (sent_back(op, r)) {
        sample_request(op, r->status, CO_UNAVAILABLE, r->received);
        kube_op_set_state(op, KUBE_OP_WAITING);
        return;
    }
    struct co_err err = {0};
    CO_CLEANUP(answer_done) struct answer answer = {.tree = NULL};
    int code = r->code;
    if (code) {
        co_err_set(&err, code, "%s: %s", op->what, co_err_text(r->err));
    } else {
        code = read_answer(op, r, &answer, &err);
    }
    const struct co_jnode *nodes = answer.item.object.nodes;
    if (!r->code && (r->status < 200 || r->status > 299)) {
        code = kube_status_err(&err, op->what, r->status, nodes, r->text);
    } else if (!r->code && code) {
        /* It is a proxy's page, or was cut: not an answer of the API server. */
        code = code == CO_NORESOURCE ? code : CO_UNAVAILABLE;
        err.code = code;
        co_err_wrap(&err, "%s: HTTP %d", op->what, r->status);
    }
    const char *reason = code ? co_jnode_str(nodes, "reason") : NULL;
    const char *message = code ? co_jnode_str(nodes, "message") : NULL;
    int64_t retry_ms = r->retry_after_ms >= 0 ? r->retry_after_ms : kube_status_retry_ms(nodes);
    struct kube_reply reply = {
        .status = r->status,
        .body = code ? NULL : answer.tree,
        .nodes = code ? NULL : nodes,
        .text = r->text,
        .len = r->len,
        .reason = reason ? reason : "",
        .message = message ? message : "",
        .warnings = r->warnings,
        .retry_after_ms = retry_ms,
    };
    report_reply(op, code, &reply, &err, r->received);
}

static void kube_data(void *arg, const char *data, size_t len) {
    struct kube_op *op = arg;
    op->data(op->arg, data, len);
}

/* ---- starting ---- */

static void start_request(struct kube_op *op, const struct kube_cred_view *cred) {
    struct kube_client *c = op->c;
    int64_t now = co_loop_now(c->loop);
    struct kube_xfer_opts x = {
        .method = kube_verb_method(op->verb),
        .path = op->path,
        .authorization = cred->authorization,
        .accept = op->metadata_only ? METADATA_LIST
                  : op->proto       ? PROTO
                                    : "application/json",
        .content_type = op->body ? op->content_type : NULL,
        .cert = cred->cert,
        .key = cred->key,
        .body = op->body,
        .body_len = op->body_len,
        .timeout_ms = op->deadline ? op->deadline - now : 0,
        .connect_ms = c->opts.connect_ms,
        .silence_ms = op->silence_ms,
        .reply_max = op->class == KUBE_CLASS_STREAM ? ERROR_REPLY_MAX : c->opts.reply_max,
        .stream = op->class == KUBE_CLASS_STREAM,
        .data = kube_data,
        .done = kube_answered,
        .arg = op,
    };
    op->started = now;
    op->credential = cred->generation;
    struct co_err err = {0};
    if (kube_xfer_start(c->transport, &x, &op->xfer, &err)) {
        kube_op_fail(op, &err);
    } else {
        kube_op_set_state(op, KUBE_OP_FLYING);
    }
}

/* False: the credential is pending; pump_soon will run. */
static bool start_next(struct kube_client *c, struct kube_class_queue *class) {
    struct kube_op *op = kube_op_next(class);
    struct kube_cred_view view = {0};
    struct co_err err = {0};
    bool pending;
    int64_t now = co_loop_now(c->loop);
    if (op->deadline && op->deadline <= now) {
        (void)err_late(&err, class, now);
    } else if (!kube_cred_get(c->cred, &view, &pending, &err)) {
        start_request(op, &view);
        return true;
    } else if (pending) {
        return false;
    } else if (co_code_remedy(err.code) != CO_BACK_OFF) {
        err.code = CO_PERMISSION; /* CO_NOTFOUND, say, would be taken for the object's */
    }
    kube_op_fail(op, &err);
    return true;
}

static void start_waiting(struct kube_client *c) {
    int64_t now = co_loop_now(c->loop);
    int64_t resume = INT64_MAX;
    bool going = true;
    for (size_t i = 0; i < KUBE_ALL_LANES && going; i++) {
        struct kube_class_queue *class = &c->classes[i];
        if (class->waiting && now < class->paused_until) {
            resume = class->paused_until < resume ? class->paused_until : resume;
            continue;
        }
        while (going && class->waiting && class->flying < class->allowed) {
            going = start_next(c, class);
        }
    }
    if (resume < INT64_MAX) {
        co_timer_start(c->resume, resume - now);
    }
}

static void pump_requests(void *arg) {
    struct kube_client *c = arg;
    start_waiting(c);
    /* Only those that have failed so far; the callbacks may add others. */
    struct kube_op *op;
    for (size_t n = c->n_failed; n && (op = kube_op_take_failed(c)); n--) {
        report_failure(op, op->err);
    }
    if (c->drained && !kube_client_pending(c)) {
        void (*drained)(void *) = c->drained;
        c->drained = NULL;
        drained(c->drained_arg);
    }
}

static void pump_soon(void *arg) {
    struct kube_client *c = arg;
    co_timer_start(c->soon, 0);
}

static void fail_late(
    const struct kube_op_list *l, const struct kube_class_queue *class, int64_t now) {
    struct kube_op *next;
    for (struct kube_op *op = TAILQ_FIRST(l); op; op = next) {
        next = TAILQ_NEXT(op, link);
        if (op->deadline && op->deadline <= now) {
            struct co_err err = {0};
            (void)err_late(&err, class, now);
            kube_op_fail(op, &err);
        }
    }
}

struct late_look {
    const struct kube_class_queue *class;
    int64_t now;
};

/* The tenant is not freed by this, since failed requests still count. */
static void fail_late_of(void *arg, struct co_link *l) {
    const struct kube_tenant *t = (struct kube_tenant *)l;
    const struct late_look *late = arg;
    for (size_t k = 0; t->waiting && k < KUBE_FLOWS; k++) {
        fail_late(&t->flows[k], late->class, late->now);
    }
}

static void on_tick(void *arg) {
    struct kube_client *c = arg;
    int64_t now = co_loop_now(c->loop);
    for (size_t i = 0; i < KUBE_ALL_LANES; i++) {
        struct late_look late = {&c->classes[i], now};
        co_index_each(&c->classes[i].tenants, fail_late_of, &late);
    }
    if (c->waiting) {
        co_timer_start(c->tick, KUBE_TICK_MS);
    }
}

struct kube_op *kube_do(struct kube_client *c, const struct kube_req *req) {
    return kube_op_new(c, req, (int)req->class, NULL);
}

struct kube_op *kube_stream(struct kube_client *c, const struct kube_req *req,
    void (*data)(void *arg, const char *data, size_t len)) {
    return kube_op_new(c, req, KUBE_CLASS_STREAM, data);
}

void kube_cancel(struct kube_op *op) {
    if (op) {
        kube_op_free(op);
    }
}

/* ---- the client ---- */

int kube_client_new(struct co_loop *loop, struct kube_config *config_own,
    const struct kube_client_opts *opts, struct kube_client **ret, struct co_err *err) {
    static const int limits[KUBE_ALL_LANES] = {
        [KUBE_CLASS_WORK] = 64,
        [KUBE_CLASS_STATUS] = 16,
        [KUBE_CLASS_EVENTS] = 8,
        [KUBE_CLASS_LEASE] = 2,
        [KUBE_CLASS_LIST] = 4,
        [KUBE_CLASS_STREAM] = KUBE_STREAMS_MAX,
    };
    CO_AUTOFREE char *agent = co_xasprintf("paddle-operator/%s", co_version);
    CO_CLEANUP(kube_client_freep) struct kube_client *c = co_xcalloc(1, sizeof(*c));
    c->loop = loop;
    c->cfg = config_own;
    c->opts = opts ? *opts : (struct kube_client_opts){0};
    c->opts.queue_max = c->opts.queue_max ? c->opts.queue_max : QUEUE_MAX;
    c->opts.queue_max_bytes = c->opts.queue_max_bytes ? c->opts.queue_max_bytes : QUEUE_MAX_BYTES;
    c->opts.reply_max = c->opts.reply_max ? c->opts.reply_max : REPLY_MAX;
    TAILQ_INIT(&c->flying);
    TAILQ_INIT(&c->failed);
    for (size_t i = 0; i < KUBE_ALL_LANES; i++) {
        TAILQ_INIT(&c->classes[i].turns);
        int wanted = i < KUBE_CLASSES ? c->opts.lane_limit[i] : 0;
        c->classes[i].limit = c->classes[i].allowed = wanted > 0 ? wanted : limits[i];
    }
    c->soon = co_timer_new(loop, pump_requests, c);
    c->tick = co_timer_new(loop, on_tick, c);
    c->resume = co_timer_new(loop, pump_soon, c);
    c->cred = kube_cred_new(loop, c->cfg, pump_soon, c);
    const char *name = c->opts.user_agent ? c->opts.user_agent : agent;
    CO_TRY(kube_transport_new(loop, c->cfg, name, !c->opts.at_once, &c->transport, err));
    c->opts.user_agent = NULL; /* the caller's memory */
    *ret = co_steal_ptr(c);
    return 0;
}

void kube_client_free(struct kube_client *c) {
    if (!c) {
        return;
    }
    c->drained = NULL;
    kube_op_free_all(c);
    for (size_t i = 0; i < KUBE_ALL_LANES; i++) {
        co_index_done(&c->classes[i].tenants);
    }
    kube_transport_free(c->transport);
    kube_cred_free(c->cred);
    co_timer_free(c->soon);
    co_timer_free(c->tick);
    co_timer_free(c->resume);
    kube_config_free(c->cfg);
    free(c);
}

struct co_loop *kube_client_loop(const struct kube_client *c) {
    return c->loop;
}

void kube_client_shrink(struct kube_client *c) {
    kube_transport_shrink(c->transport);
}

void kube_client_distrust_streams(struct kube_client *c) {
    kube_transport_distrust_streams(c->transport);
}

void kube_client_drain(struct kube_client *c, void (*done)(void *arg), void *arg) {
    c->drained = done;
    c->drained_arg = arg;
    co_timer_start(c->soon, 0);
}

size_t kube_client_bytes(const struct kube_client *c) {
    return c->bytes;
}

size_t kube_client_pending(const struct kube_client *c) {
    return c->waiting + c->n_flying + c->n_failed - c->n_streams;
}

size_t kube_client_pending_of(const struct kube_client *c, enum kube_class class, const char *ns) {
    const struct kube_tenant *t = kube_op_tenant(&c->classes[class], ns);
    return t ? t->ops : 0;
}
