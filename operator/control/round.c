#include "operator/control/round.h"

#include "common/log.h"
#include "operator/control/diff.h"
#include "operator/control/failures.h"
#include "operator/control/sweep.h"

#include <string.h>

enum {
    BACKOFF_MIN_MS = 1000,
    BACKOFF_MAX_MS = 30000,
    /* Counters change often while pods start, and most often right before the phase does: alone
     * they are written this long after the first change that was not. */
    STATUS_PACE_MS = 2000,
    /* After a conflict the watch brings what we missed; this is for a watch that is down: twice as
     * long after each conflict in a row. */
    CONFLICT_MIN_MS = 250,
    CONFLICT_DOUBLINGS = 5,
    /* Creates in one plan: bounds the memory that a job of very many pods takes at a time. */
    ROOM_MAX = 256,
};

static const enum op_store_kind store_kinds[] = {
    [OP_KIND_JOB] = OP_STORE_JOBS,
    [OP_KIND_POD] = OP_STORE_PODS,
    [OP_KIND_SERVICE] = OP_STORE_SERVICES,
    [OP_KIND_CONFIGMAP] = OP_STORE_CONFIGMAPS,
    [OP_KIND_PODGROUP] = OP_STORE_PODGROUPS,
};

/* One request of a plan on its way; the arg of its callback. */
struct sent {
    struct op_round *round;
    size_t index;
    struct op_kube_op *op; /* until it is answered */
};

/* Waits that grow by time, not by how often somebody looks: a failure while one lasts adds nothing.
 */
struct backoff {
    int64_t ms;    /* 0: the last try was good */
    int64_t until; /* monotonic ms */
};

struct op_round {
    struct op_rounds *all;
    struct op_entry *entry;
    /* of the plan being carried out */
    bool busy;
    int64_t began; /* monotonic ms */
    struct op_job *job;
    struct op_plan plan;
    struct op_outcome *outcomes; /* error texts owned */
    struct sent *sent;
    struct op_kube_op *status_op, *sweep_op;
    size_t pending;
    size_t created, rejected; /* creates */
    bool conflict, unknown, refused;
    bool sweeps; /* one request stands for all deletes of pods */
    /* remembered between rounds */
    char *uid; /* owned: the job that all this is about; NULL at first */
    struct op_failures failures;
    size_t window;          /* creates at a time; SIZE_MAX: all */
    struct backoff creates; /* none before its end */
    struct backoff status;  /* the next try at its end, or with the next change */
    unsigned conflicts;     /* in a row */
    int64_t differs_since;  /* monotonic ms: the status is not as stored; 0: it is */
    struct op_story story;
};

static const struct op_kube_type *type_of(const struct op_round *r, enum op_kind kind) {
    return op_feeds_type(r->all->feeds, store_kinds[kind]);
}

static void plan_clear(struct op_round *r) {
    for (size_t i = 0; r->outcomes && i < r->plan.n_actions; i++) {
        free((char *)(uintptr_t)r->outcomes[i].error);
    }
    free(co_steal_ptr(r->outcomes));
    free(co_steal_ptr(r->sent));
    op_plan_done(&r->plan);
    op_job_free(co_steal_ptr(r->job));
}

/* As new. */
static void forget(struct op_round *r) {
    op_failures_clear(&r->failures);
    r->window = SIZE_MAX;
    r->creates = r->status = (struct backoff){0};
    r->differs_since = 0;
    op_story_done(&r->story);
    free(co_steal_ptr(r->uid));
}

struct op_round *op_round_new(struct op_rounds *all, struct op_entry *e) {
    struct op_round *r = co_xcalloc(1, sizeof(*r));
    r->all = all;
    r->entry = e;
    forget(r);
    return r;
}

void op_round_free(struct op_round *r) {
    if (!r) {
        return;
    }
    plan_clear(r);
    forget(r);
    free(r);
}

bool op_round_busy(const struct op_round *r) {
    return r->busy;
}

int64_t op_round_began(const struct op_round *r) {
    return r->began;
}

/* ---- what failed before ----------------------------------------------------------------- */

/* What was to be made is there, what was to go is gone. */
static bool overtaken(void *arg, enum op_verb verb, enum op_kind kind, const char *name) {
    const struct op_round *r = arg;
    if (kind == OP_KIND_JOB || verb == OP_PATCH) {
        return false;
    }
    const struct op_stored *st =
        op_store_child(r->all->store, store_kinds[kind], r->entry->ns, name);
    bool there = st && st->entry == r->entry && !st->child->deleting;
    return there == (verb == OP_CREATE);
}

void op_round_failures(
    struct op_round *r, const char *uid, const struct op_failure **ret, size_t *ret_n) {
    if (!co_streq(r->uid, uid)) {
        forget(r);
        r->uid = co_xstrdup(uid);
    }
    op_failures_view(&r->failures, overtaken, r, ret, ret_n);
}

/* ---- the end of a round ----------------------------------------------------------------- */

static int64_t sooner(int64_t a, int64_t b) {
    return !a ? b : !b ? a : a < b ? a : b;
}

static void round_end(struct op_round *r, int64_t wake_ms) {
    int64_t now = co_now_ms();
    if (r->plan.wake_at) {
        int64_t in = r->plan.wake_at * 1000 - co_wall_ms();
        wake_ms = sooner(wake_ms, now + (in > 0 ? in : 10));
    }
    if (r->creates.until > now) {
        wake_ms = sooner(wake_ms, r->creates.until);
    }
    if (r->conflict) {
        unsigned n = r->conflicts < CONFLICT_DOUBLINGS ? r->conflicts : CONFLICT_DOUBLINGS;
        wake_ms = sooner(wake_ms, now + ((int64_t)CONFLICT_MIN_MS << n));
        r->conflicts++;
    } else {
        r->conflicts = 0;
    }
    if (r->refused) { /* the status is to tell why, now, and the planner when it is tried again */
        wake_ms = now;
    }
    op_metrics_looked(r->all->metrics,
        r->refused || r->unknown ? OP_M_ERROR
        : r->conflict            ? OP_M_REQUEUE
        : wake_ms                ? OP_M_REQUEUE_AFTER
                                 : OP_M_SUCCESS,
        now - r->began);
    plan_clear(r);
    r->busy = false;
    r->all->over(r->all->arg, r->entry, wake_ms);
}

static void emit_action_events(struct op_round *r) {
    struct op_event *events = NULL;
    size_t n = 0;
    op_plan_action_events(&r->plan, r->outcomes, &events, &n);
    for (size_t i = 0; i < n; i++) {
        op_recorder_emit(r->all->recorder, r->job, &r->story, &events[i]);
    }
    op_events_free(events, n);
}

static void emit_plan_events(struct op_round *r) {
    for (size_t i = 0; i < r->plan.n_events; i++) {
        op_recorder_emit(r->all->recorder, r->job, &r->story, &r->plan.events[i]);
    }
}

static void back_off(struct backoff *b) {
    int64_t now = co_now_ms();
    if (now >= b->until) {
        int64_t ms = b->ms ? b->ms * 2 : BACKOFF_MIN_MS;
        b->ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
        b->until = now + b->ms;
    }
}

static void phase_written(struct op_round *r) {
    const struct op_job *job = r->job;
    const struct op_plan *plan = &r->plan;
    if (plan->phase == job->phase) {
        return;
    }
    const char *message = co_json_str(plan->status, "message");
    co_log_info("phase", CO_S("job", job->name), CO_S("namespace", job->ns),
        CO_S("from", job->phase ? op_phase_name(job->phase) : "none"),
        CO_S("to", op_phase_name(plan->phase)), CO_S("message", message ? message : ""));
    op_metrics_phase(r->all->metrics, r->entry, job->phase, plan->phase, plan->status);
}

static void status_done(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct op_round *r = arg;
    r->status_op = NULL;
    if (!code) {
        r->status = (struct backoff){0};
        op_feeds_answered(r->all->feeds, OP_STORE_JOBS, reply->body);
        phase_written(r);
        emit_plan_events(r);
        round_end(r, 0);
        return;
    }
    if (code == CO_CONFLICT) {
        co_log_debug("status conflict, looking again", CO_S("job", r->job->name),
            CO_S("namespace", r->job->ns), CO_S("version", r->job->resource_version));
        r->conflict = true;
        round_end(r, 0);
        return;
    }
    if (code == CO_NOTFOUND) { /* deleted meanwhile; the watch will tell */
        round_end(r, 0);
        return;
    }
    co_log_warn("status not written, retrying", CO_S("job", r->job->name),
        CO_S("namespace", r->job->ns), CO_E(err));
    r->unknown = true;
    back_off(&r->status);
    round_end(r, r->status.until);
}

static void status_write(struct op_round *r) {
    CO_AUTOJSON json_t *diff = op_merge_diff(r->job->status, r->plan.status);
    if (!r->plan.status_differs || !diff) {
        r->differs_since = 0;
        emit_plan_events(r);
        round_end(r, 0);
        return;
    }
    int64_t now = co_now_ms();
    r->differs_since = r->differs_since ? r->differs_since : now;
    if (op_status_can_wait(r->job->status, r->plan.status, diff) &&
        now < r->differs_since + STATUS_PACE_MS) {
        round_end(r, r->differs_since + STATUS_PACE_MS);
        return;
    }
    CO_AUTOJSON json_t *patch = json_pack(
        "{s:{s:s},s:O}", "metadata", "resourceVersion", r->job->resource_version, "status", diff);
    struct op_kube_req req = op_kube_req_for(
        OP_KUBE_PATCH, type_of(r, OP_KIND_JOB), r->entry->ns, r->entry->name, status_done, r);
    req.subresource = "status";
    req.lane = OP_KUBE_LANE_STATUS;
    req.patch = OP_KUBE_PATCH_MERGE;
    req.body = patch;
    r->differs_since = 0;
    r->status_op = op_kube_do(r->all->client, &req);
}

static void actions_done(struct op_round *r) {
    emit_action_events(r);
    if (r->rejected || r->unknown) {
        back_off(&r->creates);
        r->window = 1;
    } else if (r->created) {
        r->creates = (struct backoff){0};
        r->window = r->window > 512 ? SIZE_MAX : r->window * 2;
    }
    /* Planned on old facts, or the next part of a job that is made in parts comes at once. */
    if (r->conflict || r->created == ROOM_MAX) {
        round_end(r, 0);
        return;
    }
    status_write(r);
}

/* ---- requests --------------------------------------------------------------------------- */

static void outcome_error(struct op_round *r, size_t i, const char *text) {
    r->outcomes[i].error = co_xstrdup(text);
}

static void settle(struct op_round *r) {
    if (--r->pending == 0) {
        actions_done(r);
    }
}

static void create_failed(struct op_round *r, size_t i, int code, const char *message) {
    const struct op_action *a = &r->plan.actions[i];
    int32_t count = op_failures_note(&r->failures, a, code, message);
    if (code == CO_EXISTS && count < OP_EXISTS_GRACE) {
        r->outcomes[i].tried = false;
        r->conflict = true;
        return;
    }
    r->rejected += a->verb == OP_CREATE;
    r->refused = true;
    outcome_error(r, i, message);
    co_log_warn("request rejected", CO_S("job", r->entry->name), CO_S("namespace", r->entry->ns),
        CO_S("object", a->name), CO_I("attempt", count), CO_S("err", message));
}

/* A Service in the way may be the job's own: an earlier version made it, without the label that
 * the watch selects by.  Once the store has it the next plan labels it. */
static void service_looked_at(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct op_round *r = s->round;
    (void)err;
    s->op = NULL;
    CO_AUTOFREE struct op_service *found = code ? NULL : op_service_decode(reply->body);
    if (found && !found->labelled && strcmp(found->c.owner_uid, r->job->uid) == 0) {
        r->outcomes[s->index].tried = false;
        r->conflict = true;
        op_store_put(r->all->store, OP_STORE_SERVICES, reply->body, 0);
    } else if (code == CO_CANCELED) {
        r->outcomes[s->index].tried = false;
    } else {
        CO_AUTOFREE char *text =
            co_xasprintf("services \"%s\" already exists", r->plan.actions[s->index].name);
        create_failed(r, s->index, CO_EXISTS, text);
    }
    settle(r);
}

static void service_look_at(struct op_round *r, size_t i) {
    struct op_kube_req req = op_kube_req_for(OP_KUBE_GET, type_of(r, OP_KIND_SERVICE), r->entry->ns,
        r->plan.actions[i].name, service_looked_at, &r->sent[i]);
    req.lane = OP_KUBE_LANE_WORK;
    req.flow = r->entry->born;
    r->pending++;
    r->sent[i].op = op_kube_do(r->all->client, &req);
}

/* No watch will tell that it went. */
static void service_forget(struct op_round *r, const char *name) {
    CO_AUTOJSON json_t *gone =
        json_pack("{s:{s:s,s:s}}", "metadata", "namespace", r->entry->ns, "name", name);
    op_store_remove(r->all->store, OP_STORE_SERVICES, gone);
}

static void action_failed(struct op_round *r, size_t i, int code, const char *message) {
    const struct op_action *a = &r->plan.actions[i];
    switch (code) {
    case CO_CANCELED:
        r->outcomes[i].tried = false;
        return;
    case CO_TIMEOUT:
    case CO_UNAVAILABLE:
        /* Nobody knows whether the server acted, or it asks for patience: look again. */
        r->outcomes[i].tried = false;
        r->unknown = true;
        co_log_warn("request without answer, looking again", CO_S("job", r->entry->name),
            CO_S("namespace", r->entry->ns), CO_S("object", a->name), CO_S("err", message));
        return;
    case CO_CONFLICT:
        r->outcomes[i].tried = false;
        r->conflict = true;
        return;
    case CO_NOTFOUND:
        if (a->verb != OP_CREATE) {
            r->conflict = a->verb == OP_PATCH;
            if (a->verb == OP_PATCH && a->kind == OP_KIND_SERVICE) {
                service_forget(r, a->name);
            }
            return;
        }
        break;
    case CO_EXISTS:
        if (a->kind == OP_KIND_SERVICE) {
            service_look_at(r, i);
            return;
        }
        break;
    default:
        break;
    }
    create_failed(r, i, code, message);
}

static void action_succeeded(struct op_round *r, size_t i, const struct op_kube_reply *reply) {
    const struct op_action *a = &r->plan.actions[i];
    struct op_rounds *all = r->all;
    op_failures_forget(&r->failures, a);
    if (a->verb == OP_DELETE) {
        op_store_mark_deleting(all->store, store_kinds[a->kind], r->entry->ns, a->name, a->uid);
    } else if (reply->body) {
        op_feeds_answered(all->feeds, store_kinds[a->kind], reply->body);
    }
    r->created += a->verb == OP_CREATE;
}

static void action_done(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct sent *s = arg;
    struct op_round *r = s->round;
    s->op = NULL;
    r->outcomes[s->index].tried = true;
    if (code) {
        action_failed(r, s->index, code, *reply->message ? reply->message : co_err_text(err));
    } else {
        action_succeeded(r, s->index, reply);
    }
    settle(r);
}

static bool in_sweep(const struct op_round *r, size_t i) {
    const struct op_action *a = &r->plan.actions[i];
    return r->sweeps && a->verb == OP_DELETE && a->kind == OP_KIND_POD;
}

static void swept(
    void *arg, int code, const struct op_kube_reply *reply, const struct co_err *err) {
    struct op_round *r = arg;
    r->sweep_op = NULL;
    if (code == CO_PERMISSION) { /* rights of an earlier version: one by one, then */
        co_log_warn("pods cannot be deleted together, going on one by one", CO_E(err));
        r->all->cannot_sweep = true;
        r->conflict = true;
    } else if (!code) {
        op_sweep_take(r->all->store, r->entry->ns, reply->body);
    }
    for (size_t i = 0; i < r->plan.n_actions && !r->conflict; i++) {
        const struct op_action *a = &r->plan.actions[i];
        if (!in_sweep(r, i)) {
            continue;
        }
        const struct op_stored *st =
            op_store_child(r->all->store, OP_STORE_PODS, r->entry->ns, a->name);
        r->outcomes[i].tried =
            code || !st || st->child->deleting || strcmp(st->child->uid, a->uid) != 0;
        if (code) {
            action_failed(r, i, code, *reply->message ? reply->message : co_err_text(err));
        } else if (r->outcomes[i].tried) {
            op_failures_forget(&r->failures, a);
        }
    }
    settle(r);
}

static void action_send(struct op_round *r, size_t i) {
    const struct op_action *a = &r->plan.actions[i];
    static const enum op_kube_verb verbs[] = {
        [OP_CREATE] = OP_KUBE_CREATE, [OP_DELETE] = OP_KUBE_DELETE, [OP_PATCH] = OP_KUBE_PATCH};
    r->sent[i] = (struct sent){.round = r, .index = i};
    struct op_kube_req req = op_kube_req_for(verbs[a->verb], type_of(r, a->kind), r->entry->ns,
        a->verb == OP_CREATE ? NULL : a->name, action_done, &r->sent[i]);
    req.lane = OP_KUBE_LANE_WORK;
    req.flow = r->entry->born;
    req.patch = OP_KUBE_PATCH_MERGE;
    CO_AUTOJSON json_t *options = NULL;
    if (a->verb == OP_DELETE) {
        options = op_kube_delete_options(*a->uid ? a->uid : NULL, NULL, "Background", -1);
    }
    req.body = options ? options : a->body;
    co_log_debug("request", CO_S("job", r->entry->name), CO_S("namespace", r->entry->ns),
        CO_S("verb", op_kube_verb_name(req.verb)), CO_S("object", a->name), CO_S("why", a->why));
    op_metrics_action(r->all->metrics, a);
    r->pending++;
    r->sent[i].op = op_kube_do(r->all->client, &req);
    json_decref(co_steal_ptr(r->plan.actions[i].body)); /* its text is on the way */
}

size_t op_round_room(const struct op_round *r) {
    bool held = co_now_ms() < r->creates.until;
    return held ? 1 : r->window < ROOM_MAX ? r->window : ROOM_MAX;
}

void op_round_create_nothing(struct op_round *r) {
    size_t dropped = 0;
    for (size_t i = 0; r->busy && i < r->plan.n_actions; i++) {
        if (r->plan.actions[i].verb == OP_CREATE && r->sent[i].op) {
            op_kube_cancel(co_steal_ptr(r->sent[i].op));
            dropped++;
        }
    }
    r->pending -= dropped;
    if (dropped && !r->pending) {
        actions_done(r);
    }
}

void op_round_abort(struct op_round *r) {
    if (!r->busy) {
        return;
    }
    for (size_t i = 0; i < r->plan.n_actions; i++) {
        op_kube_cancel(r->sent[i].op);
    }
    op_kube_cancel(co_steal_ptr(r->status_op));
    op_kube_cancel(co_steal_ptr(r->sweep_op));
    r->pending = 0;
    plan_clear(r);
    r->busy = false;
    r->all->over(r->all->arg, r->entry, 0);
}

void op_round_begin(struct op_round *r, struct op_job *job_own, struct op_plan *plan_own) {
    r->busy = true;
    r->began = co_now_ms();
    r->job = job_own;
    r->plan = *plan_own;
    *plan_own = (struct op_plan){0};
    r->outcomes = co_xcalloc(r->plan.n_actions, sizeof(*r->outcomes));
    r->sent = co_xcalloc(r->plan.n_actions, sizeof(*r->sent));
    r->pending = 1; /* ours, so that no callback ends the round while it is being sent */
    r->created = r->rejected = 0;
    r->conflict = r->unknown = r->refused = false;
    size_t room = co_now_ms() < r->creates.until ? 0 : r->window;
    r->sweeps = !r->all->cannot_sweep && op_sweep_fits(r->all->store, r->entry, r->job, &r->plan);
    if (r->sweeps) {
        r->pending++;
        r->sweep_op = op_sweep_send(r->all->client, r->entry, r->job, swept, r);
    }
    for (size_t i = 0; i < r->plan.n_actions; i++) {
        if ((r->plan.actions[i].verb == OP_CREATE && room == 0) || in_sweep(r, i)) {
            continue;
        }
        room -= r->plan.actions[i].verb == OP_CREATE && room != SIZE_MAX;
        action_send(r, i);
    }
    settle(r);
}
