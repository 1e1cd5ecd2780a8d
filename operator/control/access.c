/* Reviews of requests to our own endpoints: one TokenReview, then one SubjectAccessReview, with a
 * small cache of their decisions.
 *
 *   no token ............................. 401
 *   decision in the cache ................. that decision
 *   TokenReview -> not authenticated ..... 401, cached
 *   SubjectAccessReview -> denied ........ 403, cached; allowed: the handler, cached */
#include "operator/control/access.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "common/log.h"

enum {
    VERDICTS_MAX = 32,
    REVIEWS_MAX = 8,
    ALLOWED_MS = 60 * 1000,
    REFUSED_MS = 10 * 1000, /* short: a role may have just been bound */
    REVIEW_MS = 10 * 1000,
};

static const struct kube_type token_type = {
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview"};
static const struct kube_type access_type = {
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview"};

struct access_decision {
    char *key; /* owned: verb, path and token; NULL: the slot is free */
    int status;
    int64_t until; /* monotonic ms */
};

/* One request under review. */
struct review {
    LIST_ENTRY(review) link;
    struct ctl_access *a;
    struct co_http_req *req;
    struct kube_op *op;
    char *key, *verb; /* owned */
    void (*allowed)(void *arg, struct co_http_req *req);
    void *arg;
};

struct ctl_access {
    struct kube_client *client;
    struct access_decision decisions[VERDICTS_MAX];
    LIST_HEAD(, review) reviews;
    size_t n_reviews;
};

struct ctl_access *ctl_access_new(struct kube_client *client) {
    struct ctl_access *a = co_xcalloc(1, sizeof(*a));
    a->client = client;
    return a;
}

static void review_free(struct review *v) {
    LIST_REMOVE(v, link);
    v->a->n_reviews--;
    kube_cancel(v->op);
    free(v->key);
    free(v->verb);
    free(v);
}

void ctl_access_free(struct ctl_access *a) {
    if (!a) {
        return;
    }
    struct review *next;
    for (struct review *v = LIST_FIRST(&a->reviews); v; v = next) {
        next = LIST_NEXT(v, link);
        review_free(v);
    }
    for (size_t i = 0; i < VERDICTS_MAX; i++) {
        free(a->decisions[i].key);
    }
    free(a);
}

/* ---- decisions ---------------------------------------------------------------------------- */

/* Compares in constant time, because the keys contain tokens. */
static bool same_key(const char *a, const char *b) {
    size_t n = strlen(a);
    if (n != strlen(b)) {
        return false;
    }
    unsigned char differ = 0;
    for (size_t i = 0; i < n; i++) {
        differ |= (unsigned char)(a[i] ^ b[i]);
    }
    return !differ;
}

/* The cached HTTP status; 0: none. */
static int known_status(const struct ctl_access *a, const char *key) {
    int64_t now = co_now_ms();
    for (size_t i = 0; i < VERDICTS_MAX; i++) {
        const struct access_decision *v = &a->decisions[i];
        if (v->key && v->until > now && same_key(v->key, key)) {
            return v->status;
        }
    }
    return 0;
}

/* Replaces the decision that expires first. */
static void keep_status(struct ctl_access *a, const char *key, int status) {
    struct access_decision *slot = &a->decisions[0];
    for (size_t i = 0; i < VERDICTS_MAX; i++) {
        struct access_decision *v = &a->decisions[i];
        if (v->key && same_key(v->key, key)) {
            slot = v;
            break;
        }
        slot = v->until < slot->until ? v : slot;
    }
    free(slot->key);
    slot->key = co_xstrdup(key);
    slot->status = status;
    slot->until = co_now_ms() + (status == 200 ? ALLOWED_MS : REFUSED_MS);
}

static void refuse_visitor(struct co_http_req *req, int status) {
    co_http_replyf(req, status, "%s\n",
        status == 401   ? "Unauthorized"
        : status == 403 ? "Forbidden: needs a role with the nonResourceURL of this path"
                        : "the API server could not be asked");
}

static void decide_review(struct review *v, int status) {
    keep_status(v->a, v->key, status);
    if (status == 200) {
        v->allowed(v->arg, v->req);
    } else {
        refuse_visitor(v->req, status);
    }
    review_free(v);
}

static void review_failed(struct review *v, const char *what, const struct co_err *err) {
    co_log_warn(what, CO_E(err));
    refuse_visitor(v->req, 500);
    review_free(v);
}

/* ---- the two steps ----------------------------------------------------------------------- */

static void ask_review(
    struct review *v, const struct kube_type *type, json_t *spec_own, kube_done_fn done) {
    CO_AUTOJSON json_t *body = json_object();
    CO_AUTOFREE char *version = co_xasprintf("%s/%s", type->group, type->version);
    co_json_set(body, "apiVersion", json_string(version));
    co_json_set(body, "kind", json_string(type->kind));
    co_json_set(body, "spec", spec_own);
    struct kube_req req = kube_req_for(KUBE_CREATE, type, NULL, NULL, done, v);
    req.class = KUBE_CLASS_EVENTS; /* so that it delays neither creates nor lists */
    req.deadline_ms = REVIEW_MS;
    req.body = body;
    v->op = kube_do(v->a->client, &req);
}

static void access_reviewed(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct review *v = arg;
    v->op = NULL;
    if (code) {
        review_failed(v, "access to metrics not reviewed", err);
    } else {
        decide_review(v, json_is_true(co_json_at(reply->body, "status", "allowed")) ? 200 : 403);
    }
}

static void token_reviewed(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct review *v = arg;
    v->op = NULL;
    if (code) {
        review_failed(v, "token for metrics not reviewed", err);
        return;
    }
    const json_t *status = co_json_at(reply->body, "status");
    if (!json_is_true(json_object_get(status, "authenticated"))) {
        decide_review(v, 401);
        return;
    }
    static const struct {
        const char *from, *to;
    } fields[] = {{"username", "user"}, {"uid", "uid"}, {"groups", "groups"}, {"extra", "extra"}};
    json_t *spec = json_pack(
        "{s:{s:s,s:s}}", "nonResourceAttributes", "path", co_http_path(v->req), "verb", v->verb);
    for (size_t i = 0; i < CO_ARRAY_LEN(fields); i++) {
        json_t *j = co_json_at(status, "user", fields[i].from);
        co_json_set(spec, fields[i].to, json_incref(j));
    }
    ask_review(v, &access_type, spec, access_reviewed);
}

/* ---- requests ---------------------------------------------------------------------------- */

static void timed_out(void *arg, struct co_http_req *req) {
    refuse_visitor(req, 500);
    review_free(arg);
}

static void client_gone(void *arg, struct co_http_req *req) {
    (void)req;
    review_free(arg);
}

static const char *bearer_token(const struct co_http_req *req) {
    static const char scheme[] = "Bearer ";
    const char *header = co_http_header(req, "Authorization");
    if (!header || strncasecmp(header, scheme, strlen(scheme)) != 0) {
        return NULL;
    }
    header += strlen(scheme);
    return header + strspn(header, " ");
}

void ctl_access_check(struct ctl_access *a, struct co_http_req *req,
    void (*allowed)(void *arg, struct co_http_req *req), void *arg) {
    const char *token = bearer_token(req);
    if (!token || !*token) {
        refuse_visitor(req, 401);
        return;
    }
    CO_AUTOFREE char *verb = co_xstrdup(co_http_method(req));
    for (char *p = verb; *p; p++) {
        *p = (char)tolower((unsigned char)*p);
    }
    CO_AUTOFREE char *key = co_xasprintf("%s %s %s", verb, co_http_path(req), token);
    int status = known_status(a, key);
    if (status == 200) {
        allowed(arg, req);
        return;
    }
    if (status || a->n_reviews >= REVIEWS_MAX) {
        refuse_visitor(req, status ? status : 503);
        return;
    }
    struct review *v = co_xcalloc(1, sizeof(*v));
    *v = (struct review){.a = a,
        .req = req,
        .key = co_steal_ptr(key),
        .verb = co_steal_ptr(verb),
        .allowed = allowed,
        .arg = arg};
    LIST_INSERT_HEAD(&a->reviews, v, link);
    a->n_reviews++;
    co_http_defer(req, REVIEW_MS, timed_out, client_gone, v);
    json_t *spec = json_object();
    co_json_set(spec, "token", co_json_string(token));
    ask_review(v, &token_type, spec, token_reviewed);
}
