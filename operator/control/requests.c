/* Executes the actions of one plan.  What each answer means:
 *
 *   2xx                           done; the object goes into the store
 *   timeout, unavailable          unknown: reconcile again, it may have been done
 *   409 conflict                  the plan was stale: reconcile again
 *   409 exists, of a create       perhaps ours and not seen yet; a failure after CTL_CREATE_GRACE
 *   404, of a delete or patch     done, or stale
 *   anything else                 rejected: a failure, in an event and in the status */
#include "operator/control/requests.h"

#include <string.h>

#include "common/log.h"
#include "common/token.h"
#include "common/utf8.h"
#include "operator/control/sweep.h"

const enum ctl_store_kind ctl_stored_kinds[PLAN_KINDS] = {
    [PLAN_KIND_JOB] = CTL_STORE_JOBS,
    [PLAN_KIND_POD] = CTL_STORE_PODS,
    [PLAN_KIND_SERVICE] = CTL_STORE_SERVICES,
    [PLAN_KIND_CONFIGMAP] = CTL_STORE_CONFIGMAPS,
    [PLAN_KIND_PODGROUP] = CTL_STORE_PODGROUPS,
    [PLAN_KIND_SECRET] = CTL_STORE_KINDS,
};

/* For a list of one pod: in JSON, of which only the metadata are read. */
static const struct kube_type pods = {"", "v1", "pods", "Pod"};
/* Secrets are created, but neither read nor watched. */
static const struct kube_type secrets = {"", "v1", "secrets", "Secret"};

enum { WARNED_MAX = 4 }; /* different warnings of the API server that are kept */

/* A request in flight; the arg of its callback. */
struct sent {
    struct ctl_requests *all;
    size_t index;       /* of the action, or of the sweep's part */
    struct kube_op *op; /* NULL once it is answered */
    int64_t since;      /* monotonic ms */
};

struct ctl_requests {
    struct ctl_requests_opts opts;
    struct plan_outcome *outcomes; /* one for each action; error texts owned */
    char *warned[WARNED_MAX];      /* owned: warnings of the API server, each text once */
    struct sent *sent;             /* one for each action */
    struct ctl_sweep sweep;        /* with parts: these requests replace all deletes of pods */
    struct sent swept[CTL_SWEEP_PARTS];
    size_t pending; /* requests without an answer */
    struct ctl_tally tally;
};

static const struct kube_type *type_of(const struct ctl_requests *q, enum plan_kind kind) {
    return kind == PLAN_KIND_SECRET ? &secrets
                                    : ctl_feeds_type(q->opts.api->feeds, ctl_stored_kinds[kind]);
}

/* ---- answers ---------------------------------------------------------------------------- */

static void finish_requests(struct ctl_requests *q) {
    q->opts.done(q->opts.arg, &q->tally, q->outcomes);
}

static void settle_request(struct ctl_requests *q) {
    if (--q->pending == 0) {
        finish_requests(q);
    }
}

/* Notes a rejection.  The API server may repeat the whole object in its message, so that is cut. */
static void action_refused(struct ctl_requests *q, size_t i, int code, const char *said) {
    enum { MESSAGE_MAX = 1000 };
    const struct plan_action *a = &q->opts.plan->actions[i];
    const char *advice = plan_advice(q->opts.job, a, said);
    CO_AUTOFREE char *message =
        co_xasprintf("%s%s%.*s", advice ? advice : "", advice ? ": " : "", MESSAGE_MAX, said);
    co_utf8_trim(message);
    int32_t count = ctl_failures_note(q->opts.failures, a, code, message);
    if (code == CO_EXISTS && count < CTL_CREATE_GRACE) {
        q->outcomes[i].tried = false;
        q->tally.conflict = true;
        return;
    }
    q->tally.rejected += a->verb == PLAN_CREATE;
    q->tally.refused = true;
    /* Of a namespace that is being deleted there is nothing to warn of. */
    enum co_log_level level = api_says_namespace_ends(message) ? CO_LOG_DEBUG : CO_LOG_WARN;
    co_log(level, "request rejected", CO_S("job", q->opts.entry->name),
        CO_S("namespace", q->opts.entry->ns), CO_S("object", a->name), CO_I("attempt", count),
        CO_S("err", message));
    q->outcomes[i].error = co_steal_ptr(message);
}

/* One more request for an action that has been answered. */
static void send_next(struct ctl_requests *q, size_t i, struct kube_req *req) {
    req->class = KUBE_CLASS_WORK;
    req->flow = q->opts.entry->serial;
    req->answer = KUBE_NODES;
    q->pending++;
    q->sent[i].op = kube_do(q->opts.api->client, req);
}

static void action_failed(struct ctl_requests *q, size_t i, int code, const char *message);

/* A Service of this name exists.  It may be the job's own, created by an earlier version without
 * the label that the watch selects by.  Then it goes into the store, and the next plan labels it.
 */
static void service_looked_at(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct ctl_requests *q = s->all;
    (void)err;
    s->op = NULL;
    const struct kube_object object = {reply->nodes, reply->text, reply->len};
    CO_AUTOFREE struct api_service *found =
        code ? NULL : (struct api_service *)api_service_read(reply->nodes);
    if (found && !found->labelled && strcmp(found->c.owner_uid, q->opts.job->uid) == 0) {
        q->outcomes[s->index].tried = false;
        q->tally.conflict = true;
        (void)!ctl_store_put(q->opts.api->store, CTL_STORE_SERVICES, &object, 0, NULL);
    } else if (code == CO_CANCELED) {
        q->outcomes[s->index].tried = false;
    } else {
        CO_AUTOFREE char *text =
            co_xasprintf("services \"%s\" already exists", q->opts.plan->actions[s->index].name);
        action_refused(q, s->index, CO_EXISTS, text);
    }
    settle_request(q);
}

static void service_look_at(struct ctl_requests *q, size_t i) {
    struct kube_req req = kube_req_for(KUBE_GET, type_of(q, PLAN_KIND_SERVICE), q->opts.entry->ns,
        q->opts.plan->actions[i].name, service_looked_at, &q->sent[i]);
    send_next(q, i, &req);
}

/* ---- a pod's name that is taken ------------------------------------------------------------- */

static void unlabelled_deleted(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct ctl_requests *q = s->all;
    s->op = NULL;
    if (code && code != CO_NOTFOUND && code != CO_CONFLICT) {
        action_failed(q, s->index, code, *reply->message ? reply->message : co_err_text(err));
    } else { /* the create is tried again */
        q->outcomes[s->index].tried = false;
        q->tally.conflict = true;
    }
    settle_request(q);
}

static void unlabelled_delete(struct ctl_requests *q, size_t i, const struct api_pod *pod) {
    CO_AUTOJSON json_t *options = kube_delete_options(pod->c.uid, false);
    struct kube_req req = kube_req_for(
        KUBE_DELETE, &pods, q->opts.entry->ns, pod->c.name, unlabelled_deleted, &q->sent[i]);
    req.body = options;
    co_log_info("deleting a pod of an earlier attempt that has lost its label",
        CO_S("job", q->opts.entry->name), CO_S("namespace", q->opts.entry->ns),
        CO_S("object", pod->c.name));
    send_next(q, i, &req);
}

/* The job's own pod, which somebody has taken the label from that the watch selects by: for us it
 * is gone.  One of this attempt stays, since it may be training; one of an earlier attempt ends, as
 * all others of it have. */
static void pod_looked_at(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct ctl_requests *q = s->all;
    const struct co_jnode *item = co_jnode_next(co_jnode_get(reply->nodes, "items"), NULL);
    const char *name = q->opts.plan->actions[s->index].name;
    (void)err;
    s->op = NULL;
    CO_AUTOFREE struct api_pod *found = code || !item ? NULL : (struct api_pod *)api_pod_read(item);
    bool ours = found && strcmp(found->c.owner_uid, q->opts.job->uid) == 0 &&
                !co_jnode_at(item, "metadata", "labels", API_LABEL_NAME);
    if (code == CO_CANCELED) {
        q->outcomes[s->index].tried = false;
    } else if (ours && found->c.deleting) {
        q->outcomes[s->index].tried = false;
        q->tally.conflict = true;
    } else if (ours && found->attempt != q->opts.job->attempt) {
        unlabelled_delete(q, s->index, found);
    } else {
        const char *ownerless = found && !*found->c.owner_uid
                                    ? ", without an owner: it is not this operator's, or somebody "
                                      "or a webhook has removed its ownerReferences; delete it"
                                    : "";
        CO_AUTOFREE char *text =
            ours ? co_xasprintf("it has lost its label " API_LABEL_NAME
                                ", to somebody or to a webhook, so the operator does not see it: "
                                "kubectl label pod -n %s %s " API_LABEL_NAME "=%s, or delete it",
                       q->opts.entry->ns, name, name)
                 : co_xasprintf("pods \"%s\" already exists%s", name, ownerless);
        action_refused(q, s->index, CO_EXISTS, text);
    }
    settle_request(q);
}

static void pod_look_at(struct ctl_requests *q, size_t i) {
    CO_AUTOFREE char *selector = co_xasprintf("metadata.name=%s", q->opts.plan->actions[i].name);
    struct kube_req req =
        kube_req_for(KUBE_LIST, &pods, q->opts.entry->ns, NULL, pod_looked_at, &q->sent[i]);
    req.metadata_only = true;
    req.params[0] = (struct kube_param){"fieldSelector", selector};
    send_next(q, i, &req);
}

/* Remembers a failure whose outcome is unknown, so that it is reported if it repeats.  A failed
 * patch of a PodGroup is reported at once: the status that is written next may say that the job's
 * edit was observed, and whoever resizes the job relies on that. */
static void remember_undone(
    struct ctl_requests *q, const struct plan_action *a, int code, const char *message) {
    if ((a->verb == PLAN_PATCH && a->kind == PLAN_KIND_PODGROUP) ||
        (a->verb == PLAN_CREATE && code != CO_CONFLICT)) {
        (void)ctl_failures_note(q->opts.failures, a, code, message);
    }
}

static void action_failed(struct ctl_requests *q, size_t i, int code, const char *message) {
    const struct plan_action *a = &q->opts.plan->actions[i];
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
        if (a->verb != PLAN_CREATE) {
            q->tally.conflict |= a->verb == PLAN_PATCH;
            if (a->verb == PLAN_PATCH &&
                a->kind == PLAN_KIND_SERVICE) { /* without a label the watch does not report it */
                ctl_store_remove(
                    q->opts.api->store, CTL_STORE_SERVICES, q->opts.entry->ns, a->name, NULL);
            }
            return;
        }
        break;
    case CO_EXISTS:
        if (a->kind == PLAN_KIND_SERVICE) {
            service_look_at(q, i);
            return;
        }
        if (a->kind == PLAN_KIND_POD &&
            ctl_failures_taken(q->opts.failures, a) + 1 >= CTL_CREATE_GRACE) {
            pod_look_at(q, i);
            return;
        }
        if (a->kind == PLAN_KIND_SECRET) { /* created before: its name contains the job's uid */
            q->outcomes[i].tried = false;
            ctl_failures_forget(q->opts.failures, a);
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
static const char *keep_warnings(struct ctl_requests *q, const char *warnings) {
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

static void action_succeeded(struct ctl_requests *q, size_t i, const struct kube_reply *reply) {
    const struct plan_action *a = &q->opts.plan->actions[i];
    const struct ctl_apiserver *api = q->opts.api;
    ctl_failures_forget(q->opts.failures, a);
    bool pod = a->verb == PLAN_CREATE && a->kind == PLAN_KIND_POD;
    if (pod && !co_jnode_at(reply->nodes, "metadata", "labels", API_LABEL_NAME)) {
        q->outcomes[i].tried = false; /* a webhook took it: no watch will see the pod */
        q->tally.conflict = true;
        return;
    }
    if (a->verb == PLAN_DELETE) {
        ctl_store_mark_deleting(
            api->store, ctl_stored_kinds[a->kind], q->opts.entry->ns, a->name, a->uid);
    } else if (a->kind == PLAN_KIND_SECRET) {
        q->tally.token = true;
    } else {
        ctl_feeds_answered(api->feeds, ctl_stored_kinds[a->kind], reply);
    }
    if (a->verb == PLAN_CREATE) {
        q->tally.created++;
        q->outcomes[i].warnings = keep_warnings(q, reply->warnings);
    }
    if (pod) {
        int64_t now = co_now_ms();
        ctl_load_note(api->load, CTL_LOAD_CREATE, now - q->sent[i].since, now);
    }
}

static void action_done(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct ctl_requests *q = s->all;
    s->op = NULL;
    q->outcomes[s->index].tried = true;
    if (code) {
        action_failed(q, s->index, code, *reply->message ? reply->message : co_err_text(err));
    } else {
        action_succeeded(q, s->index, reply);
    }
    settle_request(q);
}

static bool in_sweep(const struct ctl_requests *q, size_t i) {
    const struct plan_action *a = &q->opts.plan->actions[i];
    return q->sweep.parts && a->verb == PLAN_DELETE && a->kind == PLAN_KIND_POD;
}

/* The answer to one part of a sweep. */
static void part_swept(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct ctl_requests *q = s->all;
    s->op = NULL;
    if (code == CO_PERMISSION) { /* our role is that of an earlier version */
        if (!q->opts.api->cannot_sweep) {
            co_log_warn(
                "no permission for deletecollection of pods, deleting one by one", CO_E(err));
        }
        q->opts.api->cannot_sweep = true;
        q->tally.conflict = true;
    } else if (!code) {
        ctl_sweep_take(q->opts.api->store, q->opts.entry->ns, reply->nodes);
    }
    for (size_t i = 0; i < q->opts.plan->n_actions && !q->tally.conflict; i++) {
        const struct plan_action *a = &q->opts.plan->actions[i];
        if (!in_sweep(q, i)) {
            continue;
        }
        const struct ctl_stored *st =
            ctl_store_child(q->opts.api->store, CTL_STORE_PODS, q->opts.entry->ns, a->name);
        if (st && ctl_sweep_part(&q->sweep, st->pod->index) != s->index) {
            continue;
        }
        bool gone = !st || st->child->deleting || strcmp(st->child->uid, a->uid) != 0;
        q->outcomes[i].tried = code || gone;
        if (gone) {
            ctl_failures_forget(q->opts.failures, a);
        } else if (code) {
            action_failed(q, i, code, *reply->message ? reply->message : co_err_text(err));
        }
    }
    settle_request(q);
}

static void sweep_send(struct ctl_requests *q, size_t part) {
    const struct ctl_requests_opts *o = &q->opts;
    q->pending++;
    q->swept[part] = (struct sent){.all = q, .index = part};
    q->swept[part].op = ctl_sweep_send(&q->sweep, part, o->api->client, type_of(q, PLAN_KIND_POD),
        o->entry, o->job, part_swept, &q->swept[part]);
}

/* The API server takes these fields from the path where a body of a core kind lacks them. */
static void leave_out_what_the_path_says(const struct kube_type *type, json_t *body) {
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
        co_json_set(secret, "stringData", json_pack("{s:s}", API_TOKEN_KEY, token));
    }
    return r;
}

static void action_send(struct ctl_requests *q, size_t i) {
    const struct plan_action *a = &q->opts.plan->actions[i];
    static const enum kube_verb verbs[] = {
        [PLAN_CREATE] = KUBE_CREATE, [PLAN_DELETE] = KUBE_DELETE, [PLAN_PATCH] = KUBE_PATCH};
    struct co_err err = {0};
    if (a->kind == PLAN_KIND_SECRET && put_token(a->body, &err)) {
        q->outcomes[i].tried = true;
        action_refused(q, i, CO_INTERNAL, co_err_text(&err));
        return;
    }
    q->sent[i] = (struct sent){.all = q, .index = i, .since = co_now_ms()};
    struct kube_req req = kube_req_for(verbs[a->verb], type_of(q, a->kind), q->opts.entry->ns,
        a->verb == PLAN_CREATE ? NULL : a->name, action_done, &q->sent[i]);
    req.class = KUBE_CLASS_WORK;
    req.flow = q->opts.entry->serial;
    req.answer = KUBE_NODES;
    CO_AUTOJSON json_t *options = NULL;
    if (a->verb == PLAN_DELETE) {
        options = kube_delete_options(*a->uid ? a->uid : NULL, a->at_once);
    }
    if (a->verb == PLAN_CREATE) {
        leave_out_what_the_path_says(req.type, a->body);
    }
    req.body = options ? options : a->body;
    co_log_debug("request", CO_S("job", q->opts.entry->name), CO_S("namespace", q->opts.entry->ns),
        CO_S("verb", kube_verb_name(req.verb)), CO_S("object", a->name), CO_S("why", a->why));
    ctl_metrics_action(q->opts.api->metrics, a);
    q->pending++;
    q->sent[i].op = kube_do(q->opts.api->client, &req);
    json_decref(co_steal_ptr(q->opts.plan->actions[i].body)); /* the request has its text */
}

/* ---- life ------------------------------------------------------------------------------- */

struct ctl_requests *ctl_requests_new(const struct ctl_requests_opts *opts) {
    struct ctl_requests *q = co_xcalloc(1, sizeof(*q));
    q->opts = *opts;
    q->outcomes = co_xcalloc(opts->plan->n_actions, sizeof(*q->outcomes));
    q->sent = co_xcalloc(opts->plan->n_actions, sizeof(*q->sent));
    return q;
}

void ctl_requests_free(struct ctl_requests *q) {
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

void ctl_requests_send(struct ctl_requests *q, size_t room) {
    struct ctl_apiserver *api = q->opts.api;
    const struct plan *plan = q->opts.plan;
    q->pending = 1; /* one for this function, so that no callback finishes it meanwhile */
    if (!api->cannot_sweep) {
        q->sweep = ctl_sweep_of(api->store, q->opts.entry, q->opts.job, plan);
    }
    for (size_t part = 0; part < q->sweep.parts; part++) {
        sweep_send(q, part);
    }
    for (size_t i = 0; i < plan->n_actions; i++) {
        bool creates = plan->actions[i].verb == PLAN_CREATE;
        if ((creates && room == 0) || in_sweep(q, i)) {
            continue;
        }
        room -= creates;
        action_send(q, i);
    }
    settle_request(q);
}

void ctl_requests_cancel_creates(struct ctl_requests *q) {
    size_t dropped = 0;
    for (size_t i = 0; i < q->opts.plan->n_actions; i++) {
        if (q->opts.plan->actions[i].verb == PLAN_CREATE && q->sent[i].op) {
            kube_cancel(co_steal_ptr(q->sent[i].op));
            dropped++;
        }
    }
    q->pending -= dropped;
    if (dropped && !q->pending) {
        finish_requests(q);
    }
}

void ctl_requests_cancel(struct ctl_requests *q) {
    for (size_t i = 0; i < q->opts.plan->n_actions; i++) {
        kube_cancel(co_steal_ptr(q->sent[i].op));
    }
    for (size_t part = 0; part < q->sweep.parts; part++) {
        kube_cancel(co_steal_ptr(q->swept[part].op));
    }
    q->pending = 0;
}
