/* Executes the actions of one plan.  What each answer means:
 *
 *   2xx                           done; the object goes into the store
 *   timeout, unavailable          unknown: reconcile again, it may have been done
 *   409 conflict                  the plan was stale: reconcile again
 *   409 exists, of a create       perhaps ours and not seen yet; a failure after OP_CREATE_GRACE
 *   404, of a delete or patch     done, or stale
 *   anything else                 rejected: a failure, in an event and in the status */
#include "operator/control/requests.h"

#include "common/log.h"
#include "common/token.h"
#include "common/utf8.h"
#include "operator/control/sweep.h"

#include <string.h>

const enum op_store_kind op_stored_kinds[OP_KINDS] = {
    [OP_KIND_JOB] = OP_STORE_JOBS,
    [OP_KIND_POD] = OP_STORE_PODS,
    [OP_KIND_SERVICE] = OP_STORE_SERVICES,
    [OP_KIND_CONFIGMAP] = OP_STORE_CONFIGMAPS,
    [OP_KIND_PODGROUP] = OP_STORE_PODGROUPS,
    [OP_KIND_SECRET] = OP_STORE_KINDS,
};

/* Secrets are created, but neither read nor watched. */
static const struct op_kube_type secrets = {"", "v1", "secrets", "Secret"};

enum { WARNED_MAX = 4 }; /* different warnings of the API server that are kept */

/* A request in flight; the arg of its callback. */
struct sent {
    struct op_requests *all;
    size_t index;          /* of the action, or of the sweep's part */
    struct op_kube_op *op; /* NULL once it is answered */
    int64_t since;         /* monotonic ms */
};

struct op_requests {
    struct op_requests_opts opts;
    struct op_outcome *outcomes; /* one for each action; error texts owned */
    char *warned[WARNED_MAX];    /* owned: warnings of the API server, each text once */
    struct sent *sent;           /* one for each action */
    struct op_sweep sweep;       /* with parts: these requests replace all deletes of pods */
    struct sent swept[OP_SWEEP_PARTS];
    size_t pending; /* requests without an answer */
    struct op_tally tally;
};

static const struct op_kube_type *type_of(const struct op_requests *q, enum op_kind kind) {
    return kind == OP_KIND_SECRET ? &secrets
                                  : op_feeds_type(q->opts.api->feeds, op_stored_kinds[kind]);
}

/* ---- answers ---------------------------------------------------------------------------- */

static void finish_requests(struct op_requests *q) {
    q->opts.done(q->opts.arg, &q->tally, q->outcomes);
}

static void settle_request(struct op_requests *q) {
    if (--q->pending == 0) {
        finish_requests(q);
    }
}

/* Notes a rejection.  The API server may repeat the whole object in its message, so that is cut. */
static void action_refused(struct op_requests *q, size_t i, int code, const char *said) {
    enum { MESSAGE_MAX = 1000 };
    const struct op_action *a = &q->opts.plan->actions[i];
    const char *advice = op_plan_advice(q->opts.job, a, said);
    CO_AUTOFREE char *message =
        co_xasprintf("%s%s%.*s", advice ? advice : "", advice ? ": " : "", MESSAGE_MAX, said);
    co_utf8_trim(message);
    int32_t count = op_failures_note(q->opts.failures, a, code, message);
    if (code == CO_EXISTS && count < OP_CREATE_GRACE) {
        q->outcomes[i].tried = false;
        q->tally.conflict = true;
        return;
    }
    q->tally.rejected += a->verb == OP_CREATE;
    q->tally.refused = true;
    /* Of a namespace that is being deleted there is nothing to warn of. */
    enum co_log_level level = op_says_namespace_ends(message) ? CO_LOG_DEBUG : CO_LOG_WARN;
    co_log(level, "request rejected", CO_S("job", q->opts.entry->name),
        CO_S("namespace", q->opts.entry->ns), CO_S("object", a->name), CO_I("attempt", count),
        CO_S("err", message));
    q->outcomes[i].error = co_steal_ptr(message);
}

/* A Service of this name exists.  It may be the job's own, created by an earlier version without
 * the label that the watch selects by.  Then it goes into the store, and the next plan labels it.
 */
static void service_looked_at(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct op_requests *q = s->all;
    (void)err;
    s->op = NULL;
    const struct op_kube_object object = {reply->nodes, reply->text, reply->len};
    CO_AUTOFREE struct op_service *found =
        code ? NULL : (struct op_service *)op_service_read(NULL, reply->nodes);
    if (found && !found->labelled && strcmp(found->c.owner_uid, q->opts.job->uid) == 0) {
        q->outcomes[s->index].tried = false;
        q->tally.conflict = true;
        (void)!op_store_put(q->opts.api->store, OP_STORE_SERVICES, &object, 0, NULL);
    } else if (code == CO_CANCELED) {
        q->outcomes[s->index].tried = false;
    } else {
        CO_AUTOFREE char *text =
            co_xasprintf("services \"%s\" already exists", q->opts.plan->actions[s->index].name);
        action_refused(q, s->index, CO_EXISTS, text);
    }
    settle_request(q);
}

static void service_look_at(struct op_requests *q, size_t i) {
    struct op_kube_req req = op_kube_req_for(OP_KUBE_GET, type_of(q, OP_KIND_SERVICE),
        q->opts.entry->ns, q->opts.plan->actions[i].name, service_looked_at, &q->sent[i]);
    req.lane = OP_KUBE_LANE_WORK;
    req.flow = q->opts.entry->born;
    req.answer = OP_KUBE_NODES;
    q->pending++;
    q->sent[i].op = op_kube_do(q->opts.api->client, &req);
}

/* Remembers a failure whose outcome is unknown, so that it is reported if it goes on like that.  A
 * failed patch of a PodGroup is reported at once: the status that is written next may say that the
 * job's edit was observed, and whoever resizes the job relies on that. */
static void remember_undone(
    struct op_requests *q, const struct op_action *a, int code, const char *message) {
    if ((a->verb == OP_PATCH && a->kind == OP_KIND_PODGROUP) ||
        (a->verb == OP_CREATE && code != CO_CONFLICT)) {
        (void)op_failures_note(q->opts.failures, a, code, message);
    }
}

static void action_failed(struct op_requests *q, size_t i, int code, const char *message) {
    const struct op_action *a = &q->opts.plan->actions[i];
    switch (code) {
    case CO_CANCELED:
        q->outcomes[i].tried = false;
        return;
    case CO_TIMEOUT:
    case CO_UNAVAILABLE:
        /* The server may have acted or not.  The next reconcile finds out. */
        q->outcomes[i].tried = false;
        q->tally.unknown = true;
        remember_undone(q, a, code, message);
        co_log_warn("no answer to request, retrying", CO_S("job", q->opts.entry->name),
            CO_S("namespace", q->opts.entry->ns), CO_S("object", a->name), CO_S("err", message));
        return;
    case CO_CONFLICT:
        q->outcomes[i].tried = false;
        q->tally.conflict = true;
        remember_undone(q, a, code, message);
        return;
    case CO_NOTFOUND:
        if (a->verb != OP_CREATE) {
            q->tally.conflict |= a->verb == OP_PATCH;
            if (a->verb == OP_PATCH &&
                a->kind == OP_KIND_SERVICE) { /* without a label the watch does not report it */
                op_store_remove(
                    q->opts.api->store, OP_STORE_SERVICES, q->opts.entry->ns, a->name, NULL);
            }
            return;
        }
        break;
    case CO_EXISTS:
        if (a->kind == OP_KIND_SERVICE) {
            service_look_at(q, i);
            return;
        }
        if (a->kind == OP_KIND_SECRET) { /* created before: its name contains the job's uid */
            q->outcomes[i].tried = false;
            op_failures_forget(q->opts.failures, a);
            q->tally.token = true;
            return;
        }
        break;
    default:
        break;
    }
    action_refused(q, i, code, message);
}

/* Keeps each text once: all pods of a role cause the same warning. */
static const char *keep_warnings(struct op_requests *q, const char *warnings) {
    for (size_t i = 0; i < WARNED_MAX && *warnings; i++) {
        if (!q->warned[i]) {
            q->warned[i] = co_xstrdup(warnings);
        }
        if (strcmp(q->warned[i], warnings) == 0) {
            return q->warned[i];
        }
    }
    return NULL;
}

static void action_succeeded(struct op_requests *q, size_t i, const struct op_kube_reply *reply) {
    const struct op_action *a = &q->opts.plan->actions[i];
    const struct op_apiserver *api = q->opts.api;
    op_failures_forget(q->opts.failures, a);
    if (a->verb == OP_DELETE) {
        op_store_mark_deleting(
            api->store, op_stored_kinds[a->kind], q->opts.entry->ns, a->name, a->uid);
    } else if (a->kind == OP_KIND_SECRET) {
        q->tally.token = true;
    } else {
        op_feeds_answered(api->feeds, op_stored_kinds[a->kind], reply);
    }
    if (a->verb == OP_CREATE) {
        q->tally.created++;
        q->outcomes[i].warnings = keep_warnings(q, reply->warnings);
    }
    if (a->verb == OP_CREATE && a->kind == OP_KIND_POD) {
        int64_t now = co_now_ms();
        op_load_note(api->load, OP_LOAD_CREATE, now - q->sent[i].since, now);
    }
}

static void action_done(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct op_requests *q = s->all;
    s->op = NULL;
    q->outcomes[s->index].tried = true;
    if (code) {
        action_failed(q, s->index, code, *reply->message ? reply->message : co_err_text(err));
    } else {
        action_succeeded(q, s->index, reply);
    }
    settle_request(q);
}

static bool in_sweep(const struct op_requests *q, size_t i) {
    const struct op_action *a = &q->opts.plan->actions[i];
    return q->sweep.parts && a->verb == OP_DELETE && a->kind == OP_KIND_POD;
}

/* The answer to one part of a sweep. */
static void part_swept(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct op_requests *q = s->all;
    s->op = NULL;
    if (code == CO_PERMISSION) { /* our role is that of an earlier version */
        if (!q->opts.api->cannot_sweep) {
            co_log_warn(
                "no permission for deletecollection of pods, deleting one by one", CO_E(err));
        }
        q->opts.api->cannot_sweep = true;
        q->tally.conflict = true;
    } else if (!code) {
        op_sweep_take(q->opts.api->store, q->opts.entry->ns, reply->nodes);
    }
    for (size_t i = 0; i < q->opts.plan->n_actions && !q->tally.conflict; i++) {
        const struct op_action *a = &q->opts.plan->actions[i];
        if (!in_sweep(q, i)) {
            continue;
        }
        const struct op_stored *st =
            op_store_child(q->opts.api->store, OP_STORE_PODS, q->opts.entry->ns, a->name);
        if (st && op_sweep_part(&q->sweep, st->pod->index) != s->index) {
            continue;
        }
        bool gone = !st || st->child->deleting || strcmp(st->child->uid, a->uid) != 0;
        q->outcomes[i].tried = code || gone;
        if (gone) {
            op_failures_forget(q->opts.failures, a);
        } else if (code) {
            action_failed(q, i, code, *reply->message ? reply->message : co_err_text(err));
        }
    }
    settle_request(q);
}

static void sweep_send(struct op_requests *q, size_t part) {
    const struct op_requests_opts *o = &q->opts;
    q->pending++;
    q->swept[part] = (struct sent){.all = q, .index = part};
    q->swept[part].op = op_sweep_send(&q->sweep, part, o->api->client, type_of(q, OP_KIND_POD),
        o->entry, o->job, part_swept, &q->swept[part]);
}

/* The API server takes these fields from the path where a body of a core kind lacks them. */
static void leave_out_what_the_path_says(const struct op_kube_type *type, json_t *body) {
    if (!*type->group) {
        json_object_del(body, "apiVersion");
        json_object_del(body, "kind");
        json_object_del(json_object_get(body, "metadata"), "namespace");
    }
}

/* Adds the token only now, so that no plan, status or log ever contains it. */
static int put_token(json_t *secret, struct co_err *err) {
    CO_AUTOFREE char *token = NULL;
    int r = co_token_new(&token, err);
    if (!r) {
        co_json_set(secret, "stringData", json_pack("{s:s}", OP_TOKEN_KEY, token));
    }
    return r;
}

static void action_send(struct op_requests *q, size_t i) {
    const struct op_action *a = &q->opts.plan->actions[i];
    static const enum op_kube_verb verbs[] = {
        [OP_CREATE] = OP_KUBE_CREATE, [OP_DELETE] = OP_KUBE_DELETE, [OP_PATCH] = OP_KUBE_PATCH};
    struct co_err err = {0};
    if (a->kind == OP_KIND_SECRET && put_token(a->body, &err)) {
        q->outcomes[i].tried = true;
        action_refused(q, i, CO_INTERNAL, co_err_text(&err));
        return;
    }
    q->sent[i] = (struct sent){.all = q, .index = i, .since = co_now_ms()};
    struct op_kube_req req = op_kube_req_for(verbs[a->verb], type_of(q, a->kind), q->opts.entry->ns,
        a->verb == OP_CREATE ? NULL : a->name, action_done, &q->sent[i]);
    req.lane = OP_KUBE_LANE_WORK;
    req.flow = q->opts.entry->born;
    req.answer = OP_KUBE_NODES;
    CO_AUTOJSON json_t *options = NULL;
    if (a->verb == OP_DELETE) {
        options = op_kube_delete_options(*a->uid ? a->uid : NULL, a->at_once);
    }
    if (a->verb == OP_CREATE) {
        leave_out_what_the_path_says(req.type, a->body);
    }
    req.body = options ? options : a->body;
    co_log_debug("request", CO_S("job", q->opts.entry->name), CO_S("namespace", q->opts.entry->ns),
        CO_S("verb", op_kube_verb_name(req.verb)), CO_S("object", a->name), CO_S("why", a->why));
    op_metrics_action(q->opts.api->metrics, a);
    q->pending++;
    q->sent[i].op = op_kube_do(q->opts.api->client, &req);
    json_decref(co_steal_ptr(q->opts.plan->actions[i].body)); /* the request has its text */
}

/* ---- life ------------------------------------------------------------------------------- */

struct op_requests *op_requests_new(const struct op_requests_opts *opts) {
    struct op_requests *q = co_xcalloc(1, sizeof(*q));
    q->opts = *opts;
    q->outcomes = co_xcalloc(opts->plan->n_actions, sizeof(*q->outcomes));
    q->sent = co_xcalloc(opts->plan->n_actions, sizeof(*q->sent));
    return q;
}

void op_requests_free(struct op_requests *q) {
    if (!q) {
        return;
    }
    for (size_t i = 0; i < q->opts.plan->n_actions; i++) {
        free((char *)(uintptr_t)q->outcomes[i].error);
    }
    for (size_t i = 0; i < WARNED_MAX; i++) {
        free(q->warned[i]);
    }
    free(q->outcomes);
    free(q->sent);
    free(q);
}

void op_requests_send(struct op_requests *q, size_t room) {
    struct op_apiserver *api = q->opts.api;
    const struct op_plan *plan = q->opts.plan;
    q->pending = 1; /* one for this function, so that no callback finishes it meanwhile */
    if (!api->cannot_sweep) {
        q->sweep = op_sweep_of(api->store, q->opts.entry, q->opts.job, plan);
    }
    for (size_t part = 0; part < q->sweep.parts; part++) {
        sweep_send(q, part);
    }
    for (size_t i = 0; i < plan->n_actions; i++) {
        bool creates = plan->actions[i].verb == OP_CREATE;
        if ((creates && room == 0) || in_sweep(q, i)) {
            continue;
        }
        room -= creates;
        action_send(q, i);
    }
    settle_request(q);
}

void op_requests_cancel_creates(struct op_requests *q) {
    size_t dropped = 0;
    for (size_t i = 0; i < q->opts.plan->n_actions; i++) {
        if (q->opts.plan->actions[i].verb == OP_CREATE && q->sent[i].op) {
            op_kube_cancel(co_steal_ptr(q->sent[i].op));
            dropped++;
        }
    }
    q->pending -= dropped;
    if (dropped && !q->pending) {
        finish_requests(q);
    }
}

void op_requests_cancel(struct op_requests *q) {
    for (size_t i = 0; i < q->opts.plan->n_actions; i++) {
        op_kube_cancel(co_steal_ptr(q->sent[i].op));
    }
    for (size_t part = 0; part < q->sweep.parts; part++) {
        op_kube_cancel(co_steal_ptr(q->swept[part].op));
    }
    q->pending = 0;
}
