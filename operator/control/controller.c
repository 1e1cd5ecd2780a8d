/* The reconciler: wires feeds, store, queue, readers, executions and recorder together, and has the
 * few decisions that need more than one of them.
 *
 * One reconcile, from the queue on:
 *
 *   serve_entry -> reconcile_entry -> ctl_reader_begin: the job is in the store
 *                                     -> compute_plan -> ctl_execution_begin -> execution_over
 *                               ... it must be fetched, or wait for memory
 *                                     -> (later) job_came -> reconcile_with -> as above */
#include "operator/control/controller.h"

#include <malloc.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "operator/control/ahead.h"
#include "operator/control/execution.h"
#include "operator/control/feeds.h"
#include "operator/control/gate_state.h"
#include "operator/control/host_ports.h"
#include "operator/control/queue.h"
#include "operator/control/reader.h"
#include "operator/control/templates.h"
#include "operator/control/view.h"
#include "operator/kube/clock.h"

enum {
    RETRY_MS = 5000, /* backoff of a job that cannot be planned or read */
    /* Memory is trimmed after this long without a reconcile, by when most events have been sent,
     * too; and at the latest after TRIM_MAX_MS where reconciles never cease. */
    TRIM_MS = 8000,
    TRIM_MAX_MS = 10000,
    /* The cache of job texts may take 1/MEMORY_PART of the memory limit.  Parsed jobs
     * (parse_budget.h) may take as much again, within DESK_MIN and DESK_MAX. */
    MEMORY_PART = 8,
    DESK_MIN = 2 * CTL_STORE_TREE_MAX, /* every job whose text is in the cache can be parsed */
    DESK_MAX = 64 << 20,
};

/* What the controller keeps about an entry (entry->work), from the first change that it receives
 * until the entry has been idle for a while, or is freed. */
struct work {
    struct ctl_queued place;
    struct ctl_reader reader;
    struct ctl_execution *execution;
    struct ctl_templates templates;
    struct ctl_gate_state gate_state;
    bool unwanted; /* the job is deleted or being deleted */
};

struct ctl_controller {
    struct ctl_controller_opts opts;
    struct ctl_store store;
    struct ctl_queue *queue;
    struct ctl_feeds *feeds;
    struct ctl_load load;
    struct ctl_recorder recorder;
    struct ctl_executions executions;
    struct ctl_readers readers;
    struct ctl_feeds_opts feeds_opts;
    struct ctl_ahead ahead;
    struct co_timer *trim; /* due: free what a burst has left behind */
    int64_t trim_by;       /* monotonic ms: no later than that */
    bool leading, stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
    void (*on_change)(void *arg, const char *ns, const char *job, bool trained);
    void *on_change_arg;
};

static void templates_came(
    void *arg, struct ctl_templates *t, int code, const struct co_err *failure);

/* ---- what changed ----------------------------------------------------------------------- */

static struct work *work_of(struct ctl_controller *c, struct ctl_entry *e) {
    if (!e->work) {
        struct work *w = co_xcalloc(1, sizeof(*w));
        ctl_queue_join(c->queue, &w->place, e);
        w->reader = (struct ctl_reader){.all = &c->readers, .entry = e};
        w->execution = ctl_execution_new(&c->executions, e);
        w->templates = (struct ctl_templates){.entry = e, .done = templates_came, .arg = c};
        e->work = w;
    }
    return e->work;
}

static void entry_changed(void *arg, struct ctl_entry *e) {
    struct ctl_controller *c = arg;
    struct work *w = work_of(c, e);
    bool unwanted = !ctl_entry_has_job(e) || e->deleting;
    w->gate_state = (struct ctl_gate_state){0};
    if (ctl_store_take_progress(e)) {
        ctl_queue_skip_back_off(&w->place);
    }
    ctl_queue_add(&w->place);
    if (unwanted && !w->unwanted) { /* cancel creates that would be for a deleted job */
        ctl_execution_create_nothing(w->execution);
    }
    w->unwanted = unwanted;
}

/* The entry is about to be freed, or has nothing to remember. */
static void work_free(void *arg, struct ctl_entry *e) {
    struct work *w = e->work;
    (void)arg;
    if (w) {
        ctl_queue_leave(&w->place);
        ctl_reader_end(&w->reader);
        ctl_execution_free(w->execution);
        ctl_templates_done(&w->templates);
        free(w);
        e->work = NULL;
    }
}

static void ask_each(void *arg, struct ctl_entry *e) {
    struct ctl_controller *c = arg;
    ctl_queue_add(&work_of(c, e)->place);
}

static void step_ahead(void *arg) {
    struct ctl_controller *c = arg;
    ctl_ahead_step(&c->ahead, c->leading && !c->stopping);
}

static void feeds_synced(void *arg) {
    struct ctl_controller *c = arg;
    ctl_ahead_end(&c->ahead);
    ctl_store_each(&c->store, ask_each, c);
}

static void feeds_no_groups(void *arg) {
    struct ctl_controller *c = arg;
    c->opts.settings.gang = NULL;
}

static void let_rest(void *arg, struct ctl_entry *e) {
    const struct work *w = e->work;
    if (w && ctl_queue_is_idle(&w->place) && ctl_reader_idle(&w->reader) &&
        ctl_execution_is_blank(w->execution)) {
        work_free(arg, e);
    }
}

static void trim_later(struct ctl_controller *c) {
    int64_t now = co_now_ms();
    if (!co_timer_armed(c->trim)) {
        c->trim_by = now + TRIM_MAX_MS;
    }
    co_timer_start(c->trim, now + TRIM_MS < c->trim_by ? TRIM_MS : c->trim_by - now);
}

/* Frees the memory that a burst of reconciles needed.  It is scattered between memory that stays,
 * so without this 43 % more is resident with 1,000 jobs (docs/decisions.md). */
static void on_trim(void *arg) {
    struct ctl_controller *c = arg;
    ctl_store_each(&c->store, let_rest, c);
    ctl_view_memo_done(&c->readers.memo);
    kube_client_shrink(c->executions.api.client);
    (void)malloc_trim(0);
    if (ctl_recorder_waiting(
            &c->recorder)) { /* jobs with unsent events keep their work: try later */
        trim_later(c);
    }
}

/* ---- one reconcile ---------------------------------------------------------------------- */

/* CPU time of this thread, not wall time: time that other processes had does not count. */
static double cpu_seconds(void) {
    return (double)co_thread_cpu_ns() / 1e9;
}

static int plan_entry(struct ctl_controller *c, struct ctl_entry *e, const struct api_job *job,
    struct plan *ret, struct co_err *err) {
    struct work *w = e->work;
    CO_CLEANUP(ctl_view_done) struct ctl_view view;
    ctl_view_init(&view, e);
    ctl_execution_recall(w->execution, job->uid, &view.seen);
    view.seen.templates = w->templates.by_role;
    view.seen.creates_max = ctl_execution_creates_max(w->execution);
    view.seen.elder_waits = view.seen.n_failures && ctl_view_elder_waits(&c->store, e);
    uint16_t *taken = ctl_ports_settle(&c->store, e, &c->opts.shard, job, &view.seen);
    int r = plan_compute(job, &view.seen, kube_clock_seconds(), &c->opts.settings, ret, err);
    w->templates.wanted = !r && ret->lacks_templates;
    free(taken);
    return r;
}

static int compute_plan(struct ctl_controller *c, struct ctl_entry *e, const struct api_job *job,
    double start, struct plan *ret, struct co_err *err) {
    struct work *w = e->work;
    struct co_metric *m = c->opts.metrics->row;
    int r = job ? plan_entry(c, e, job, ret, err) : err->code;
    double took = cpu_seconds() - start;
    ctl_queue_back_off(&w->place, took);
    co_metric_observe(&m[CTL_M_PLAN_SECONDS], 0, took);
    if (r) {
        co_metric_add(&m[CTL_M_RECONCILE_TERMINAL], 0, 1);
        ctl_metrics_reconciled(c->opts.metrics, CTL_M_ERROR, (int64_t)(took * 1e3));
        co_log_error(
            "job cannot be planned", CO_S("job", e->name), CO_S("namespace", e->ns), CO_E(err));
        ctl_reader_end(&w->reader);
        return r;
    }
    ctl_store_mark_planned(e); /* only now: a failed plan has not counted the ended pods */
    return 0;
}

/* Its port must be no other job's, so all ConfigMaps must be known. */
static bool waits_for_ports(const struct ctl_controller *c, const struct api_job *job) {
    return job && job->intranet == API_HOST && !ctl_feeds_synced(c->feeds);
}

/* True: an execution has begun, or the job has been requested from the API server. */
static bool reconcile_entry(struct ctl_controller *c, struct ctl_entry *e) {
    struct work *w = e->work;
    struct co_err err = {0};
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    PLAN_AUTOPLAN struct plan plan = {0};
    double start = cpu_seconds();
    trim_later(c);
    switch (ctl_reader_begin(&w->reader, &job, &err)) {
    case CTL_READ_WAITS:
        return false;
    case CTL_READ_COMES:
        ctl_queue_begin(&w->place);
        return true;
    default: /* it is here, or cannot be read */
        break;
    }
    if (waits_for_ports(c, job)) {
        ctl_reader_end(&w->reader);
        return false;
    }
    if (compute_plan(c, e, job, start, &plan, &err)) {
        ctl_queue_add_at(&w->place, co_now_ms() + RETRY_MS);
        return false;
    }
    ctl_queue_begin(&w->place);
    ctl_execution_begin(w->execution, co_steal_ptr(job), &plan);
    return true;
}

/* Runs the callback of ctl_controller_stop once no reconcile is in flight.  Sends delayed events
 * before that, so that they do not get lost. */
static void end_if_idle(struct ctl_controller *c) {
    if (c->stopping && c->stopped && !ctl_queue_busy(c->queue)) {
        void (*fn)(void *) = co_steal_ptr(c->stopped);
        ctl_recorder_flush(&c->recorder);
        fn(c->stopped_arg);
    }
}

static void notify_change(struct ctl_controller *c, const struct ctl_entry *e) {
    if (c->on_change) {
        c->on_change(c->on_change_arg, e->ns, e->name, e->trained);
    }
}

/* Whether this process may reconcile the entry's job now. */
static bool may_reconcile(const struct ctl_controller *c, const struct ctl_entry *e) {
    bool knows = ctl_feeds_synced(c->feeds) || ctl_ahead_has(&c->ahead, e);
    return c->leading && !c->stopping && knows && ctl_entry_has_job(e);
}

static void execution_over(void *arg, struct ctl_entry *e, int64_t wake_ms) {
    struct ctl_controller *c = arg;
    struct work *w = e->work;
    ctl_reader_end(&w->reader);
    if (w->templates.wanted && !w->templates.by_role && c->leading && !c->stopping) {
        ctl_templates_read(&w->templates, c->executions.api.client,
            ctl_feeds_type(c->feeds, CTL_STORE_CONFIGMAPS));
        return;
    }
    /* What was read is not what the plan needs, as the ConfigMap has changed since. */
    if (w->templates.wanted && w->templates.by_role) {
        co_json_decref(&w->templates.by_role);
        int64_t retry = co_now_ms() + RETRY_MS;
        wake_ms = wake_ms && wake_ms < retry ? wake_ms : retry;
    }
    ctl_queue_end(&w->place, wake_ms);
    end_if_idle(c);
}

static void templates_came(
    void *arg, struct ctl_templates *t, int code, const struct co_err *failure) {
    struct ctl_controller *c = arg;
    const struct ctl_entry *e = t->entry;
    struct work *w = e->work;
    if (code) {
        co_log_warn("templates of the attempt cannot be read, retrying", CO_S("job", e->name),
            CO_S("namespace", e->ns), CO_E(failure));
    }
    ctl_queue_skip_back_off(&w->place);
    ctl_queue_end(&w->place, co_now_ms() + (code ? RETRY_MS : 0));
    end_if_idle(c);
}

static bool serve_entry(void *arg, struct ctl_entry *e) {
    struct ctl_controller *c = arg;
    struct work *w = e->work;
    bool reconciles = may_reconcile(c, e);
    if (!reconciles ||
        ctl_entry_is_cached(e)) { /* else reconcile_with notifies, once the job is read */
        notify_change(c, e);
    }
    if (reconciles) {
        return reconcile_entry(c, e);
    }
    ctl_reader_end(&w->reader);
    return false;
}

/* ---- jobs that must be fetched, or wait for memory -------------------------------------- */

static void turn_to_read(void *arg, struct ctl_entry *e) {
    struct work *w = e->work;
    (void)arg;
    ctl_queue_skip_back_off(&w->place); /* it has waited already, so its backoff does not apply */
    ctl_queue_add(&w->place);
}

/* The answer is older than what the watch has delivered: it is from an API server that lags. */
static bool is_older(const struct ctl_entry *e, const struct co_jnode *job) {
    uint64_t version = kube_version(co_jnode_str(job, "metadata", "resourceVersion"));
    return version && version < e->version;
}

static int reconcile_with(struct ctl_controller *c, struct ctl_entry *e,
    const struct co_jnode *nodes, struct co_err *err) {
    struct work *w = e->work;
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    PLAN_AUTOPLAN struct plan plan = {0};
    double start = cpu_seconds();
    (void)!api_job_of_nodes(
        nodes, ctl_readers_most(&c->readers), &job, err); /* compute_plan logs err */
    if (job) {
        ctl_gate_state_compute(&w->gate_state, e, job, &c->opts.settings);
        notify_change(c, e);
    }
    int r = waits_for_ports(c, job) ? CO_UNAVAILABLE : compute_plan(c, e, job, start, &plan, err);
    if (!r) {
        ctl_execution_begin(w->execution, co_steal_ptr(job), &plan);
    }
    return r;
}

/* The API server has answered a reader's GET. */
static void job_came(void *arg, struct ctl_entry *e, int code, const struct co_jnode *nodes,
    const struct co_err *failure) {
    struct ctl_controller *c = arg;
    struct work *w = e->work;
    struct co_err err = {0};
    bool reconciles = may_reconcile(c, e);
    trim_later(c);
    if (reconciles && !code && !is_older(e, nodes) && !reconcile_with(c, e, nodes, &err)) {
        return;
    }
    if (reconciles && code && code != CO_NOTFOUND) {
        co_log_warn("job cannot be read, retrying", CO_S("job", e->name), CO_S("namespace", e->ns),
            CO_E(failure));
    }
    ctl_reader_end(&w->reader);
    /* Not found: no requeue, the watch will report the deletion. */
    ctl_queue_end(&w->place, reconciles && code != CO_NOTFOUND ? co_now_ms() + RETRY_MS : 0);
    end_if_idle(c);
}

/* ---- life ------------------------------------------------------------------------------- */

struct ctl_controller *ctl_controller_new(
    struct co_loop *loop, struct kube_client *client, const struct ctl_controller_opts *opts) {
    struct ctl_controller *c = co_xcalloc(1, sizeof(*c));
    c->opts = *opts;
    ctl_store_init(&c->store, entry_changed, work_free, c);
    ctl_recorder_init(&c->recorder, loop, client, opts->instance, &c->load);
    c->trim = co_timer_new(loop, on_trim, c);
    c->queue = ctl_queue_new(loop, &(struct ctl_queue_opts){.store = &c->store,
                                       .metrics = opts->metrics,
                                       .load = &c->load,
                                       .serve = serve_entry,
                                       .arg = c});
    c->feeds_opts = (struct ctl_feeds_opts){.ns = opts->ns,
        .selector = opts->selector,
        .shard = opts->shard,
        .gang = opts->settings.gang,
        .idle_ms = opts->watch_idle_ms,
        .store = &c->store,
        .metrics = opts->metrics,
        .listed = step_ahead,
        .synced = feeds_synced,
        .no_groups = feeds_no_groups,
        .arg = c};
    c->feeds = ctl_feeds_new(client, &c->feeds_opts);
    c->ahead = (struct ctl_ahead){
        .client = client, .feeds = c->feeds, .opts = &c->feeds_opts, .known = ask_each, .arg = c};
    c->executions = (struct ctl_executions){.api = {.client = client,
                                                .store = &c->store,
                                                .feeds = c->feeds,
                                                .metrics = opts->metrics,
                                                .load = &c->load},
        .recorder = &c->recorder,
        .over = execution_over,
        .arg = c};
    size_t part = (opts->memory ? opts->memory : SIZE_MAX) / MEMORY_PART;
    c->store.text_lru.max = part;
    c->readers = (struct ctl_readers){.client = client,
        .type = ctl_feeds_type(c->feeds, CTL_STORE_JOBS),
        .turn = turn_to_read,
        .came = job_came,
        .arg = c};
    ctl_readers_init(&c->readers, part < DESK_MIN ? DESK_MIN : part > DESK_MAX ? DESK_MAX : part);
    return c;
}

void ctl_controller_free(struct ctl_controller *c) {
    if (!c) {
        return;
    }
    ctl_store_done(&c->store);
    ctl_recorder_done(&c->recorder);
    ctl_ahead_end(&c->ahead);
    ctl_feeds_free(c->feeds);
    ctl_readers_done(&c->readers);
    co_timer_free(c->trim);
    ctl_queue_free(c->queue);
    free(c);
}

static void abort_each(void *arg, struct ctl_entry *e) {
    struct ctl_controller *c = arg;
    struct work *w = e->work;
    bool asked = w && (ctl_reader_asks(&w->reader) || ctl_templates_cancel(&w->templates));
    if (asked) {
        ctl_reader_end(&w->reader);
        ctl_queue_end(&w->place, 0);
        end_if_idle(c);
    } else if (w) {
        ctl_execution_abort(w->execution);
        ctl_reader_end(&w->reader);
    }
}

void ctl_controller_lead(struct ctl_controller *c, bool leading) {
    if (leading == c->leading) {
        return;
    }
    c->leading = leading;
    c->executions.led_from = leading ? kube_clock_seconds() : 0;
    ctl_store_each(&c->store, leading ? ask_each : abort_each, c);
    if (leading) {
        step_ahead(c);
    } else {
        ctl_ahead_end(&c->ahead);
    }
}

void ctl_controller_stop(struct ctl_controller *c, void (*done)(void *arg), void *arg) {
    c->stopping = true;
    c->stopped = done;
    c->stopped_arg = arg;
    end_if_idle(c);
}

bool ctl_controller_synced(const struct ctl_controller *c) {
    return ctl_feeds_synced(c->feeds);
}

/* ---- gauges ----------------------------------------------------------------------------- */

struct survey {
    int64_t now_ms, unfinished_ms, longest_ms;
    int64_t oldest; /* creation time of the oldest job not Running yet; seconds, 0: there is none */
    size_t jobs[API_PHASES];
};

static void survey_entry(void *arg, struct ctl_entry *e) {
    struct survey *s = arg;
    const struct work *w = e->work;
    if (w && ctl_execution_busy(w->execution)) {
        int64_t age = s->now_ms - ctl_execution_began(w->execution);
        s->unfinished_ms += age;
        s->longest_ms = age > s->longest_ms ? age : s->longest_ms;
    }
    if (!ctl_entry_has_job(e)) {
        return;
    }
    s->jobs[e->phase]++;
    if (e->waits && e->created && (!s->oldest || e->created < s->oldest)) {
        s->oldest = e->created;
    }
}

void ctl_controller_gauges(const struct ctl_controller *c) {
    struct survey s = {.now_ms = co_now_ms()};
    ctl_store_each(&c->store, survey_entry, &s);
    int64_t waits = s.oldest ? kube_clock_seconds() - s.oldest : 0;
    double not_cached = (double)(c->store.n_jobs - c->store.text_lru.n);
    const struct {
        enum ctl_metric row;
        double value;
    } gauges[] = {
        {CTL_M_NOT_CACHED, not_cached},
        {CTL_M_NOT_AT_HAND, not_cached},
        {CTL_M_PODS, (double)c->store.n_pods},
        {CTL_M_LEADER, c->leading},
        {CTL_M_QUEUE_DEPTH, (double)ctl_queue_waiting(c->queue)},
        {CTL_M_WORKERS, (double)ctl_queue_busy(c->queue)},
        {CTL_M_UNFINISHED_SECONDS, (double)s.unfinished_ms / 1e3},
        {CTL_M_LONGEST_SECONDS, (double)s.longest_ms / 1e3},
        {CTL_M_OLDEST_SECONDS, waits > 0 ? (double)waits : 0},
        {CTL_M_EVENTS_WAITING, (double)ctl_recorder_waiting(&c->recorder)},
    };
    struct co_metric *m = c->opts.metrics->row;
    for (size_t i = 0; i < CO_ARRAY_LEN(gauges); i++) {
        co_metric_set(&m[gauges[i].row], 0, gauges[i].value);
    }
    for (size_t p = 0; p < API_PHASES; p++) {
        co_metric_set(&m[CTL_M_JOBS], p, (double)s.jobs[p]);
    }
}

/* ---- the gate --------------------------------------------------------------------------- */

void ctl_controller_on_change(struct ctl_controller *c,
    void (*fn)(void *arg, const char *ns, const char *job, bool trained), void *arg) {
    c->on_change = fn;
    c->on_change_arg = arg;
}

const char *ctl_controller_job_of(const struct ctl_controller *c, const char *ns, const char *pod) {
    const struct ctl_stored *st = ctl_store_child(&c->store, CTL_STORE_PODS, ns, pod);
    return st ? st->entry->name : NULL;
}

bool ctl_controller_claim(struct ctl_controller *c, const char *ns, const char *pod,
    const char *uid, const char *const ips[2], const char *peer) {
    const char *ip = plan_address(ips, c->opts.settings.prefer_family);
    return strcmp(ip, peer) != 0 || ctl_store_claim(&c->store, ns, pod, uid, ip);
}

int ctl_controller_gate(struct ctl_controller *c, const char *ns, const char *pod, const char *uid,
    const char **ret_why) {
    const struct ctl_stored *st = ctl_store_child(&c->store, CTL_STORE_PODS, ns, pod);
    if (!ctl_feeds_synced(c->feeds) || !st || !ctl_entry_has_job(st->entry)) {
        *ret_why = "the operator does not know this pod yet";
        return -1;
    }
    struct ctl_gate_state *v = &work_of(c, st->entry)->gate_state;
    int go = ctl_gate_state_answer(v, st, uid, &c->opts.settings, ret_why);
    if (go != 1 && !c->leading) { /* pods report their addresses to the lease holder only */
        *ret_why = "this operator does not lead";
        go = -1;
    }
    if (!v->known &&
        c->leading) { /* the job must be fetched: reconcile_with settles the decision */
        ctl_queue_add(&work_of(c, st->entry)->place);
    }
    return go;
}

int ctl_controller_trained(
    struct ctl_controller *c, const char *ns, const char *job, const char *uid) {
    struct ctl_entry *e = ctl_store_entry(&c->store, ns, job);
    bool known = e && ctl_entry_has_job(e) && e->uid == co_hash(uid, strlen(uid));
    if (known && e->trained) {
        e->notified = true;
        return 1;
    }
    return known && c->leading ? 0 : -1;
}

bool ctl_controller_leads(const struct ctl_controller *c) {
    return c->leading;
}
