/* Builds a request: path, query, body and deadline, and checks that the queue has room for it. */
#include <string.h>

#include "common/buf.h"
#include "operator/kube/op.h"
#include "operator/kube/path.h"

enum {
    PATH_MAX_BYTES = 16 * 1024,
    BODY_MAX = 4 << 20, /* the API server accepts 3 MiB */
    DEADLINE_MS = 30 * 1000,
};

static const struct {
    const char *name, *method;
} verbs[KUBE_VERBS] = {
    [KUBE_GET] = {"get", "GET"},
    [KUBE_LIST] = {"list", "GET"},
    [KUBE_WATCH] = {"watch", "GET"},
    [KUBE_CREATE] = {"create", "POST"},
    [KUBE_UPDATE] = {"update", "PUT"},
    [KUBE_PATCH] = {"patch", "PATCH"},
    [KUBE_DELETE] = {"delete", "DELETE"},
    [KUBE_DELETECOLLECTION] = {"deletecollection", "DELETE"},
};

const char *kube_verb_name(enum kube_verb v) {
    return v < KUBE_VERBS ? verbs[v].name : "?";
}

const char *kube_verb_method(enum kube_verb v) {
    return verbs[v].method;
}

struct kube_req kube_req_for(enum kube_verb verb, const struct kube_type *type, const char *ns,
    const char *name, kube_done_fn done, void *arg) {
    const bool lists = verb == KUBE_LIST || verb == KUBE_WATCH;
    return (struct kube_req){
        .verb = verb,
        .class = lists ? KUBE_CLASS_LIST : KUBE_CLASS_WORK,
        .type = type,
        .ns = ns,
        .name = name,
        .done = done,
        .arg = arg,
    };
}

static int build_path(struct kube_op *op, const struct kube_req *req, struct co_err *err) {
    CO_AUTOBUF struct co_buf b = CO_BUF(PATH_MAX_BYTES);
    bool first = true;
    CO_TRY(req->path ? co_buf_adds(&b, req->path, err)
                     : kube_path_add(&b, req->type, req->ns, req->name, req->subresource, err));
    for (size_t i = 0; i < KUBE_PARAMS && req->params[i].key; i++) {
        CO_TRY(kube_query_add(&b, &first, req->params[i].key, req->params[i].value, err));
    }
    op->path = co_buf_take(&b);
    return 0;
}

static int check_room(const struct kube_op *op, struct co_err *err) {
    const struct kube_client *c = op->c;
    if (c->classes[op->class].waiting >= c->opts.queue_max) {
        return co_err_set(
            err, CO_NORESOURCE, "request queue full: %zu requests wait", c->opts.queue_max);
    }
    if (op->body_len > BODY_MAX) {
        return co_err_set(err, CO_INVALID,
            "a body of %zu bytes; the API server accepts at most 3 MiB", op->body_len);
    }
    if (c->bytes > c->opts.queue_max_bytes) {
        return co_err_set(err, CO_NORESOURCE, "request queue full: bodies of %zu bytes wait",
            c->bytes - op->body_len);
    }
    return 0;
}

/* "a/b", or the one of them that is not NULL, or "". */
static char *join(const char *a, const char *b) {
    if (a && b) {
        return co_xasprintf("%s/%s", a, b);
    }
    return co_xstrdup(a ? a : b ? b : "");
}

/* "patch paddlejobs/status team-a/train" */
static void name_op(struct kube_op *op, const struct kube_req *req) {
    op->resource = co_xstrdup(req->path ? req->path : req->type->plural);
    op->subresource = req->subresource ? co_xstrdup(req->subresource) : NULL;
    CO_AUTOFREE char *kind = join(op->resource, op->subresource);
    CO_AUTOFREE char *object = join(req->ns, req->name);
    const char *verb = kube_verb_name(req->verb);
    op->what =
        *object ? co_xasprintf("%s %s %s", verb, kind, object) : co_xasprintf("%s %s", verb, kind);
}

/* The object that was read or written is the answer.  A review has no name. */
static const char *answered_object(const struct kube_req *req) {
    switch (req->path || req->metadata_only ? KUBE_LIST : req->verb) {
    case KUBE_GET:
    case KUBE_UPDATE:
    case KUBE_PATCH:
        return req->name;
    case KUBE_CREATE:
        return json_string_value(co_json_at(req->body, "metadata", "name"));
    default:
        return NULL;
    }
}

struct kube_op *kube_op_new(struct kube_client *c, const struct kube_req *req, int class,
    void (*data)(void *, const char *, size_t)) {
    struct kube_op *op = co_xcalloc(1, sizeof(*op));
    int64_t now = co_loop_now(c->loop);
    int64_t ms = req->deadline_ms || class == KUBE_CLASS_STREAM ? req->deadline_ms : DEADLINE_MS;
    *op = (struct kube_op){
        .c = c,
        .class = class,
        .tenant = kube_op_tenant_need(&c->classes[class], req->ns),
        .flow = (unsigned)(req->flow % KUBE_FLOWS),
        .verb = req->verb,
        .content_type =
            req->verb == KUBE_PATCH ? "application/merge-patch+json" : "application/json",
        .proto = req->path || c->opts.json_only ? NULL : req->type->proto,
        .created = now,
        /* From the call on: this turn of the loop may have begun seconds ago. */
        .deadline = ms ? co_now_ms() + ms : 0,
        .silence_ms = req->silence_ms,
        .metadata_only = req->metadata_only,
        .answer = req->answer,
        .data = data,
        .done = req->done,
        .arg = req->arg,
    };
    const char *object = answered_object(req);
    op->object = object ? co_xstrdup(object) : NULL;
    name_op(op, req);
    if (req->body) {
        op->body = co_json_dump(req->body);
        op->body_len = strlen(op->body);
        c->bytes += op->body_len;
    }
    c->n_streams += class == KUBE_CLASS_STREAM;
    struct co_err err = {0};
    op->state = KUBE_OP_LEAVING;
    if (build_path(op, req, &err) || check_room(op, &err)) {
        kube_op_fail(op, &err);
    } else {
        kube_op_enter(op, KUBE_OP_WAITING);
    }
    return op;
}
