/* Executes one plan of a job after the other:
 *
 *   ctl_execution_begin -> requests (all at once) -> actions_done -> status_write -> status_done
 *                  -> end_execution: when to requeue, then ctl_executions.over
 *
 * The status is written after the requests, so that it can say what was rejected. */
#include "operator/control/execution.h"

#include "common/log.h"
#include "operator/control/diff.h"
#include "operator/control/unanswered.h"
#include "operator/kube/clock.h"

enum {
    BACKOFF_MIN_MS = 1000,
    BACKOFF_MAX_MS = 30000,
    /* Counters change often while pods start, most often right before the phase changes.  A status
     * write for counters alone is delayed by this, from the first change on.  So is the status of a
     * plan that the next plan is about to correct. */
    STATUS_PACE_MS = 2000,
    STATUS_PACE_MAX_MS = 6000, /* while the API server is busy */
    /* After a conflict the watch usually delivers what we missed, and that requeues the job.  This
     * backoff is for a watch that is down; it doubles with each conflict in a row. */
    CONFLICT_MIN_MS = 250,
    CONFLICT_DOUBLINGS = 5,
    /* Creates in one plan: bounds the memory of a job with very many pods. */
    ROOM_MAX = 256,
    /* While the requests of all jobs in flight take so many bytes, an execution creates nothing,
     * and the job is requeued after CROWD_MS.  It is about 5,000 usual pods; a tenant's huge pods
     * must not exhaust the operator's memory. */
    CROWD_BYTES = 24 << 20,
    CROWD_MS = 1000,
    CROWD_ROOM = 4, /* creates that are sent nevertheless if the namespace has none in flight */
};

/* A backoff that doubles at most once in its own time: further failures while it lasts do not make
 * it longer. */
struct backoff {
    int64_t ms;    /* the current delay; 0: the last try succeeded */
    int64_t until; /* monotonic ms */
};

struct ctl_execution {
    struct ctl_executions *all;
    struct ctl_entry *entry;
    /* The plan that is being executed. */
    bool busy;
    bool crowded_out; /* creates were left out because of CROWD_BYTES */
    int64_t began;    /* monotonic ms */
    struct api_job *job;
    struct plan plan;
    struct ctl_requests *requests;
    struct ctl_tally tally; /* result of the requests, then of the status write as well */
    struct kube_op *status_op;
    int64_t status_sent; /* monotonic ms */
    /* Remembered between executions. */
    char *uid; /* owned: the job that this is about; NULL at first */
    struct ctl_failures failures;
    size_t window;          /* creates at a time after a rejection; SIZE_MAX: all */
    struct backoff creates; /* no create is sent before its end */
    struct backoff status;  /* the status is retried at its end, or with the next change */
    unsigned conflicts;     /* executions in a row with a conflict */
    int64_t differs_since;  /* monotonic ms: since when a status write is delayed; 0: none is */
    struct ctl_unanswered unanswered;
    bool token;    /* see plan_seen */
    json_t *draft; /* owned: parts of a status not stored yet, for the next plan; or NULL */
    struct ctl_event_log event_log;
};

static void plan_clear(struct ctl_execution *r) {
    ctl_requests_free(co_steal_ptr(r->requests));
    plan_done(&r->plan);
    api_job_free(co_steal_ptr(r->job));
}

static void set_differs_since(struct ctl_execution *r, int64_t since) {
    co_metric_add(&r->all->api.metrics->row[CTL_M_STATUS_WAITING], 0,
        (double)((since != 0) - (r->differs_since != 0)));
    r->differs_since = since;
}

/* Forgets everything about the job. */
static void forget_execution(struct ctl_execution *r) {
    ctl_failures_clear(&r->failures);
    ctl_unanswered_clear(&r->unanswered);
    r->window = SIZE_MAX;
    r->creates = r->status = (struct backoff){0};
    set_differs_since(r, 0);
    r->token = false;
    co_json_decref(&r->draft);
    ctl_event_log_done(&r->event_log);
    free(co_steal_ptr(r->uid));
}

struct ctl_execution *ctl_execution_new(struct ctl_executions *all, struct ctl_entry *e) {
    struct ctl_execution *r = co_xcalloc(1, sizeof(*r));
    r->all = all;
    r->entry = e;
    forget_execution(r);
    return r;
}

bool ctl_execution_is_blank(const struct ctl_execution *r) {
    return !r->busy && !r->failures.n && r->window == SIZE_MAX && !r->creates.ms && !r->status.ms &&
           !r->unanswered.n && !r->conflicts && !r->differs_since && !r->token &&
           !r->event_log.first && LIST_EMPTY(&r->event_log.warnings);
}

void ctl_execution_free(struct ctl_execution *r) {
    if (!r) {
        return;
    }
    plan_clear(r);
    forget_execution(r);
    free(r);
}

bool ctl_execution_busy(const struct ctl_execution *r) {
    return r->busy;
}

int64_t ctl_execution_began(const struct ctl_execution *r) {
    return r->began;
}

/* ---- what failed before ----------------------------------------------------------------- */

/* A failure is obsolete: the object to be created exists, or the one to be deleted is gone. */
static bool is_overtaken(void *arg, enum plan_verb verb, enum plan_kind kind, const char *name) {
    const struct ctl_execution *r = arg;
    if (kind == PLAN_KIND_JOB || kind == PLAN_KIND_SECRET || verb == PLAN_PATCH) {
        return false;
    }
    const struct ctl_stored *st =
        ctl_store_child(r->all->api.store, ctl_stored_kinds[kind], r->entry->ns, name);
    bool there = st && st->entry == r->entry && !st->child->deleting;
    return there == (verb == PLAN_CREATE);
}

void ctl_execution_recall(struct ctl_execution *r, const char *uid, struct plan_seen *seen) {
    if (!co_streq(r->uid, uid)) {
        forget_execution(r);
        r->uid = co_xstrdup(uid);
    }
    ctl_failures_view(&r->failures, is_overtaken, r, &seen->failures, &seen->n_failures);
    seen->draft = r->draft;
    seen->token = r->token;
    seen->led_from = r->all->led_from;
    seen->reported = r->entry->reported == r->all->led_from;
    seen->notified = r->entry->notified;
}

/* ---- the end of an execution ----------------------------------------------------------------- */

static int64_t sooner(int64_t a, int64_t b) {
    return !a ? b : !b ? a : a < b ? a : b;
}

static void end_execution(struct ctl_execution *r, int64_t wake_ms) {
    int64_t now = co_now_ms();
    if (r->plan.wake_at) {
        int64_t in = r->plan.wake_at * 1000 - kube_clock_ms();
        wake_ms = sooner(wake_ms, now + (in > 0 ? in : 10));
    }
    if (r->creates.until > now) {
        wake_ms = sooner(wake_ms, r->creates.until);
    }
    if (r->crowded_out) {
        wake_ms = sooner(wake_ms, now + CROWD_MS);
    }
    if (r->tally.conflict) {
        unsigned n = r->conflicts < CONFLICT_DOUBLINGS ? r->conflicts : CONFLICT_DOUBLINGS;
        wake_ms = sooner(wake_ms, now + ((int64_t)CONFLICT_MIN_MS << n));
        r->conflicts++;
    } else {
        r->conflicts = 0;
    }
    if (r->tally.token) {
        wake_ms = now; /* the Secret exists, so the pods can be created */
    }
    if (r->tally.refused) {
        wake_ms = now; /* the next plan reports the failure in the status, and sets the retry */
    }
    ctl_metrics_reconciled(r->all->api.metrics,
        r->tally.refused || r->tally.unknown ? CTL_M_ERROR
        : r->tally.conflict                  ? CTL_M_REQUEUE
        : wake_ms                            ? CTL_M_REQUEUE_AFTER
                                             : CTL_M_SUCCESS,
        now - r->began);
    plan_clear(r);
    r->busy = false;
    r->all->over(r->all->arg, r->entry, wake_ms);
}

static void emit_action_events(struct ctl_execution *r, const struct plan_outcome *outcomes) {
    struct plan_event *events = NULL;
    size_t n = 0;
    plan_action_events(&r->plan, outcomes, &events, &n);
    for (size_t i = 0; i < n; i++) {
        ctl_recorder_emit(r->all->recorder, r->job, &r->event_log, &events[i]);
    }
    plan_events_free(events, n);
}

static void emit_plan_events(struct ctl_execution *r, const struct plan *plan) {
    for (size_t i = 0; i < plan->n_events; i++) {
        ctl_recorder_emit(r->all->recorder, r->job, &r->event_log, &plan->events[i]);
    }
    r->entry->reported = r->all->led_from;
}

static void back_off(struct backoff *b) {
    int64_t now = co_now_ms();
    if (now >= b->until) {
        int64_t ms = b->ms ? b->ms * 2 : BACKOFF_MIN_MS;
        b->ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
        b->until = now + b->ms;
    }
}

static void phase_written(struct ctl_execution *r, enum api_phase from, const struct plan *plan) {
    const struct api_job *job = r->job;
    if (plan->phase == from) {
        return;
    }
    const char *message = co_json_str(plan->status, "message");
    co_log_info("phase", CO_S("job", job->name), CO_S("namespace", job->ns),
        CO_S("from", from ? api_phase_name(from) : "none"), CO_S("to", api_phase_name(plan->phase)),
        CO_S("message", message ? message : ""));
    ctl_stages_phase(&r->entry->stages, r->all->api.metrics, from, plan->phase, plan->status);
}

/* The plan's status is stored, so what it says is reported. */
static void status_written(struct ctl_execution *r, enum api_phase from, const struct plan *plan) {
    phase_written(r, from, plan);
    emit_plan_events(r, plan);
}

/* Whether the attempt is stored; without its number nothing is done (plan.c). */
static bool keeps_attempt(struct ctl_execution *r, const struct kube_reply *reply) {
    const struct co_jnode *stored = co_jnode_get(reply->nodes, "status");
    if (!co_jnode_is(stored, CO_J_OBJECT)) {
        return true;
    }
    ctl_crd_check(&r->all->crd, r->job, r->plan.status, stored);
    return !json_object_get(r->plan.status, "attempt") || co_jnode_get(stored, "attempt");
}

static void status_done(
    void *arg, int code, const struct kube_reply *reply, const struct co_err *err) {
    struct ctl_execution *r = arg;
    r->status_op = NULL;
    if (!code) {
        int64_t now = co_now_ms();
        ctl_load_note(r->all->api.load, CTL_LOAD_STATUS, now - r->status_sent, now);
        ctl_feeds_answered(r->all->api.feeds, CTL_STORE_JOBS, reply);
        ctl_unanswered_clear(&r->unanswered); /* its version was not changed by them */
        status_written(r, r->job->phase, &r->plan);
        if (keeps_attempt(r, reply)) {
            if (r->status.ms) { /* it was dropped before: the watch may have seen it without */
                ctl_feeds_corrected(r->all->api.feeds, r->entry, reply);
            }
            r->status = (struct backoff){0};
        } else { /* no watch would say when the CRD is another */
            back_off(&r->status);
        }
        end_execution(r, r->status.until);
        return;
    }
    if (code == CO_CONFLICT) {
        co_log_debug("status conflict, retrying", CO_S("job", r->job->name),
            CO_S("namespace", r->job->ns), CO_S("version", r->job->resource_version));
        r->tally.conflict = true;
        end_execution(r, 0);
        return;
    }
    /* Most likely it was deleted, which the watch reports before the next try.  Otherwise the CRD
     * has no status. */
    bool deleted = code == CO_NOTFOUND && !r->status.ms;
    co_log(deleted ? CO_LOG_DEBUG : CO_LOG_WARN, "status not written, retrying",
        CO_S("job", r->job->name), CO_S("namespace", r->job->ns), CO_E(err));
    r->tally.unknown = !deleted;
    ctl_unanswered_note(&r->unanswered, r->job, &r->plan);
    back_off(&r->status);
    end_execution(r, r->status.until);
}

/* The next plan follows soon and will know more: this one was made with stale data, or creates only
 * a part of a large job's pods. */
static bool is_halfway(const struct ctl_execution *r) {
    return r->tally.conflict || r->tally.created == ROOM_MAX;
}

/* Writes the status if it differs and is not to be delayed.
 *
 * It is written even after conflicts, which may last for minutes.  Then only the data about
 * children is stale, and counters in a status are always a moment old.  It is safe: a status that
 * must be stored before anything is done (an end, a new attempt) has no requests beside it, and
 * resourceVersion guards against stale data about the job itself. */
static void status_write(struct ctl_execution *r) {
    CO_AUTOJSON json_t *diff = ctl_merge_diff(r->job->status, r->plan.status);
    if (!diff) {
        co_json_decref(&r->draft);
        r->status = (struct backoff){0};
    }
    if (!r->plan.status_differs || !diff) {
        set_differs_since(r, 0);
        emit_plan_events(r, &r->plan);
        end_execution(r, 0);
        return;
    }
    int64_t now = co_now_ms();
    set_differs_since(r, r->differs_since ? r->differs_since : now);
    int64_t due = r->differs_since +
                  ctl_load_stretch(r->all->api.load, now, STATUS_PACE_MS, STATUS_PACE_MAX_MS);
    bool waits = is_halfway(r) || (!r->plan.status_urgent &&
                                      ctl_status_can_wait(r->job->status, r->plan.status, diff));
    if (waits && now < due) {
        end_execution(r, due);
        return;
    }
    CO_AUTOJSON json_t *patch = json_pack(
        "{s:{s:s},s:O}", "metadata", "resourceVersion", r->job->resource_version, "status", diff);
    struct kube_req req =
        kube_req_for(KUBE_PATCH, ctl_feeds_type(r->all->api.feeds, CTL_STORE_JOBS), r->entry->ns,
            r->entry->name, status_done, r);
    req.subresource = "status";
    req.class = KUBE_CLASS_STATUS;
    req.answer = KUBE_NODES;
    req.body = patch;
    set_differs_since(r, 0);
    r->status_sent = now;
    r->status_op = kube_do(r->all->api.client, &req);
}

static void actions_done(
    void *arg, const struct ctl_tally *tally, const struct plan_outcome *outcomes) {
    struct ctl_execution *r = arg;
    r->tally = *tally;
    r->token = r->plan.lacks_pods && (r->token || tally->token);
    emit_action_events(r, outcomes);
    if (r->tally.rejected || r->tally.unknown) {
        back_off(&r->creates);
        r->window = 1;
    } else if (r->tally.created) {
        r->creates = (struct backoff){0};
        r->window = r->window > 512 ? SIZE_MAX : r->window * 2;
    }
    status_write(r);
}

/* ---- the beginning, and an early end ---------------------------------------------------- */

static bool is_crowded(const struct ctl_execution *r) {
    return kube_client_bytes(r->all->api.client) >= CROWD_BYTES;
}

/* The backoff of creates is not over. */
static bool is_held(const struct ctl_execution *r) {
    return co_now_ms() < r->creates.until;
}

/* How many creates may be sent now. */
static size_t room_of(const struct ctl_execution *r) {
    size_t most = SIZE_MAX;
    if (is_crowded(r)) {
        bool first = !kube_client_pending_of(r->all->api.client, KUBE_CLASS_WORK, r->entry->ns);
        most = first ? CROWD_ROOM : 0;
    }
    return is_held(r) ? 0 : r->window < most ? r->window : most;
}

size_t ctl_execution_creates_max(const struct ctl_execution *r) {
    size_t room = room_of(r);
    return room == 0 ? 1 : room < ROOM_MAX ? room : ROOM_MAX;
}

static bool has_creates(const struct plan *plan) {
    size_t i = 0;
    while (i < plan->n_actions && plan->actions[i].verb != PLAN_CREATE) {
        i++;
    }
    return i < plan->n_actions;
}

void ctl_execution_create_nothing(struct ctl_execution *r) {
    if (r->busy) {
        ctl_requests_cancel_creates(r->requests);
    }
}

void ctl_execution_abort(struct ctl_execution *r) {
    if (!r->busy) {
        return;
    }
    ctl_requests_cancel(r->requests);
    kube_cancel(co_steal_ptr(r->status_op));
    plan_clear(r);
    r->busy = false;
    r->all->over(r->all->arg, r->entry, 0);
}

void ctl_execution_begin(struct ctl_execution *r, struct api_job *job_own, struct plan *plan_own) {
    r->busy = true;
    r->began = co_now_ms();
    r->job = job_own;
    r->plan = *plan_own;
    *plan_own = (struct plan){0};
    /* Keep the draft now, because an execution may end before its status is written. */
    co_json_decref(&r->draft);
    r->draft = plan_status_draft(r->plan.status);
    r->tally = (struct ctl_tally){0};
    PLAN_AUTOPLAN struct plan applied = {0};
    enum api_phase from;
    if (ctl_unanswered_take(&r->unanswered, r->job, &applied, &from)) {
        status_written(r, from, &applied);
    }
    bool creates = has_creates(&r->plan);
    r->crowded_out = creates && is_crowded(r);
    r->requests = ctl_requests_new(&(struct ctl_requests_opts){.api = &r->all->api,
        .entry = r->entry,
        .job = r->job,
        .plan = &r->plan,
        .failures = &r->failures,
        .done = actions_done,
        .arg = r});
    ctl_requests_send(r->requests, creates ? room_of(r) : 0);
}
