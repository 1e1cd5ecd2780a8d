#include "operator/control/controller.h"

#include "common/contract.h"
#include "common/log.h"
#include "operator/control/round.h"
#include "operator/plan/gang.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    /* One turn of the loop plans for at most this long, so that events are never kept waiting. */
    TURN_MS = 5,
    /* A look at a job that failed for its own reasons. */
    RETRY_MS = 5000,
    /* A look that took t ms is followed by no other of the same job for this many times t: the
     * events of a thousand pods are taken in bunches, those of a few pods one by one. */
    REST_FACTOR = 10,
    /* So many jobs are given their first pods at a time: the first jobs run first, and what waits
     * for its turn on the wire has a bound, in memory and in time. */
    BEGINNING_MAX = 64,
    /* At most this: what took long may have been a machine that stood still. */
    REST_MAX_MS = 5000,
};

/* What the start gate says to all pods of a job, until something of it changes. */
struct verdict {
    bool known, open, over;
    const char *why; /* static */
    char uid[64];    /* the job's */
};

/* What the controller keeps about an entry; entry->work. */
struct work {
    struct op_controller *c;
    struct op_entry *entry;
    struct op_round *round;
    struct co_timer *timer; /* made when first needed */
    struct work *next;      /* in the queue */
    bool queued, dirty;
    bool beginning; /* the round gives it its first pods */
    int64_t queued_ms;
    bool unwanted;      /* the job is gone or being deleted */
    int64_t not_before; /* monotonic ms: rest after an expensive look */
    int64_t wake_ms;    /* when the timer is due; 0: it is not armed */
    bool looked;        /* once at least: host_port is known */
    uint16_t host_port; /* held by a live job in Host mode; 0: none */
    struct verdict verdict;
};

static const struct op_kube_type job_type = {OP_GROUP, "v1", "paddlejobs", OP_KIND};
static const struct op_kube_type pod_type = {"", "v1", "pods", "Pod"};
static const struct op_kube_type service_type = {"", "v1", "services", "Service"};
static const struct op_kube_type configmap_type = {"", "v1", "configmaps", "ConfigMap"};

static const struct {
    const struct op_kube_type *type;
    const char *selector;
} feeds[OP_STORE_KINDS] = {
    [OP_STORE_JOBS] = {&job_type, NULL},
    [OP_STORE_PODS] = {&pod_type, OP_SELECTOR},
    [OP_STORE_SERVICES] = {&service_type, OP_SELECTOR},
    [OP_STORE_CONFIGMAPS] = {&configmap_type, OP_SELECTOR},
    [OP_STORE_PODGROUPS] = {NULL, NULL}, /* what the gang's row says; a user's have no labels */
};

struct feed {
    struct op_controller *c;
    enum op_store_kind kind;
    struct op_kube_watch *watch; /* NULL: not asked for */
    bool absent;                 /* the API server does not know such objects */
    /* A write of ours that the watch has not told of yet. */
    uint64_t written; /* its version; 0: none */
    int64_t written_ms;
};

struct queue {
    struct work *head, **tail;
};

struct op_controller {
    struct co_loop *loop;
    struct op_kube_client *client;
    struct op_controller_opts opts;
    struct op_store store;
    struct op_recorder recorder;
    struct op_rounds rounds;
    struct feed feeds[OP_STORE_KINDS];
    struct op_kube_type podgroup_type;
    /* Jobs to look at, oldest request first: those that have nothing yet, and those that have. */
    struct queue fresh, begun;
    size_t n_queued, beginning;
    struct co_timer *turn;
    bool leading, stopping, synced;
    size_t busy;
    void (*stopped)(void *arg);
    void *stopped_arg;
    void (*on_change)(void *arg, const char *ns, const char *job);
    void *on_change_arg;
};

/* NULL: nobody asked for these. */
static const struct op_kube_type *feed_type(
    const struct op_controller *c, enum op_store_kind kind) {
    bool gang = kind == OP_STORE_PODGROUPS;
    return !gang ? feeds[kind].type : c->opts.settings.gang ? &c->podgroup_type : NULL;
}

/* ---- the queue -------------------------------------------------------------------------- */

static void wake_at(struct work *w, int64_t at_ms);

static void enqueue(struct work *w) {
    struct op_controller *c = w->c;
    w->dirty = true;
    if (w->queued || op_round_busy(w->round)) {
        return;
    }
    if (co_now_ms() < w->not_before) {
        wake_at(w, w->not_before);
        return;
    }
    w->queued = true;
    w->queued_ms = co_now_ms();
    co_metric_add(&c->opts.metrics->row[OP_M_QUEUE_ADDS], 0, 1);
    c->n_queued++;
    w->entry->held = true;
    w->next = NULL;
    struct queue *q = w->entry->n_children ? &c->begun : &c->fresh;
    *q->tail = w;
    q->tail = &w->next;
    if (!co_timer_armed(c->turn)) {
        co_timer_start(c->turn, 0);
    }
}

static void wake(void *arg) {
    struct work *w = arg;
    w->wake_ms = 0;
    enqueue(w);
}

/* The sooner of two wishes wins. */
static void wake_at(struct work *w, int64_t at_ms) {
    if (!w->timer) {
        w->timer = co_timer_new(w->c->loop, wake, w);
    }
    if (!w->wake_ms || at_ms < w->wake_ms) {
        int64_t in = at_ms - co_now_ms();
        w->wake_ms = at_ms;
        co_timer_start(w->timer, in > 0 ? in : 0);
    }
}

static struct work *work_of(struct op_controller *c, struct op_entry *e) {
    if (!e->work) {
        struct work *w = co_xcalloc(1, sizeof(*w));
        w->c = c;
        w->entry = e;
        w->round = op_round_new(&c->rounds, e);
        e->work = w;
    }
    return e->work;
}

static void entry_changed(void *arg, struct op_entry *e) {
    struct work *w = work_of(arg, e);
    bool unwanted = !e->text || e->deleting;
    w->verdict.known = false;
    enqueue(w);
    if (unwanted && !w->unwanted) { /* what waits in queues would be made for a dying job */
        op_round_create_nothing(w->round);
    }
    w->unwanted = unwanted;
}

static void entry_gone(void *arg, struct op_entry *e) {
    struct work *w = e->work;
    (void)arg;
    if (w) {
        co_timer_free(w->timer);
        op_round_free(w->round);
        free(w);
        e->work = NULL;
    }
}

/* ---- one look --------------------------------------------------------------------------- */

struct ports {
    const struct work *except;
    uint16_t *port;
    size_t n;
};

/* A job that was not looked at since the start may be one in Host mode. */
static uint16_t stored_port(const struct op_entry *e) {
    for (size_t i = 0; i < e->n_children; i++) {
        const struct op_stored *st = e->children[i];
        if (st->kind == OP_STORE_CONFIGMAPS && strcmp(st->child->name, e->name) == 0) {
            return st->configmap->port;
        }
    }
    return 0;
}

static void ports_add(struct ports *p, uint16_t port) {
    p->port = co_xrealloc(p->port, p->n + 1, sizeof(*p->port));
    p->port[p->n++] = port;
}

static void port_of(void *arg, const char *key, void *value) {
    struct ports *p = arg;
    const struct op_entry *e = value;
    const struct work *w = e->work;
    (void)key;
    if (w == p->except) {
        return;
    }
    uint16_t port = w && w->looked ? w->host_port : stored_port(e);
    if (port) {
        ports_add(p, port);
    }
}

static int by_port(const void *a, const void *b) {
    return *(const uint16_t *)a - *(const uint16_t *)b;
}

static void ports_taken(const struct work *w, struct ports *ret) {
    *ret = (struct ports){.except = w};
    co_map_each(&w->c->store.entries, port_of, ret);
    /* The jobs of other shards are not known here: each shard has ports of its own. */
    const struct op_shard_id *id = &w->c->opts.shard;
    for (unsigned slot = 0; id->count > 1 && slot < CO_PORT_SLOTS; slot++) {
        if (slot % id->count != id->index) {
            ports_add(ret, (uint16_t)(CO_PORT_BASE + CO_PORT_SPAN * slot));
        }
    }
    if (ret->n) {
        qsort(ret->port, ret->n, sizeof(*ret->port), by_port);
    }
}

static int entry_decode(const struct op_entry *e, struct op_job **ret, struct co_err *err) {
    json_t *obj = NULL;
    int r = co_json_parse(e->text, strlen(e->text), &obj, err);
    return r ? r : op_job_decode(obj, ret, err);
}

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

/* Pods get their ports before the ConfigMap can say which they are: kept here until then, so that
 * no job that is looked at meanwhile gets the same. */
static void settle_port(
    struct work *w, const struct op_job *job, struct op_seen *seen, struct ports *ports) {
    w->looked = true;
    if (job->intranet != OP_HOST || job->elsewhere || op_phase_terminal(job->phase)) {
        w->host_port = 0;
    } else if (seen->configmap && seen->configmap->port) {
        w->host_port = seen->configmap->port;
    } else {
        ports_taken(w, ports);
        seen->ports_taken = ports->port;
        seen->n_ports_taken = ports->n;
        w->host_port = op_plan_port(job->uid, ports->port, ports->n);
    }
}

static int plan_entry(
    struct work *w, const struct op_job *job, struct op_plan *ret, struct co_err *err) {
    struct op_view view;
    struct ports ports = {0};
    op_view_init(&view, w->entry);
    op_round_failures(w->round, job->uid, &view.seen.failures, &view.seen.n_failures);
    view.seen.creates_max = op_round_room(w->round);
    settle_port(w, job, &view.seen, &ports);
    int r = op_plan_compute(job, &view.seen, co_wall_seconds(), &w->c->opts.settings, ret, err);
    free(ports.port);
    op_view_done(&view);
    return r;
}

static void log_phase(const struct op_job *job, const struct op_plan *plan) {
    if (plan->phase != job->phase) {
        const char *message = co_json_str(plan->status, "message");
        co_log_info("phase", CO_S("job", job->name), CO_S("namespace", job->ns),
            CO_S("from", job->phase ? op_phase_name(job->phase) : "none"),
            CO_S("to", op_phase_name(plan->phase)), CO_S("message", message ? message : ""));
    }
}

/* Begins a round; false when there is nothing to do one for. */
static bool look(struct work *w) {
    struct op_controller *c = w->c;
    struct co_metric *m = c->opts.metrics->row;
    struct co_err err = {0};
    CO_CLEANUP(op_job_freep) struct op_job *job = NULL;
    OP_AUTOPLAN struct op_plan plan = {0};
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int r = entry_decode(w->entry, &job, &err);
    if (!r) {
        r = plan_entry(w, job, &plan, &err);
    }
    double took = seconds_since(&start);
    int64_t rest = (int64_t)(took * 1e3 * REST_FACTOR);
    w->not_before = co_now_ms() + (rest < REST_MAX_MS ? rest : REST_MAX_MS);
    co_metric_observe(&m[OP_M_PLAN_SECONDS], 0, took);
    if (r) {
        co_metric_add(&m[OP_M_RECONCILE_TERMINAL], 0, 1);
        op_metrics_looked(c->opts.metrics, OP_M_ERROR, (int64_t)(took * 1e3));
        co_log_error("job cannot be planned", CO_S("job", w->entry->name),
            CO_S("namespace", w->entry->ns), CO_E(&err));
        wake_at(w, co_now_ms() + RETRY_MS);
        return false;
    }
    log_phase(job, &plan);
    c->busy++;
    w->beginning = !w->entry->n_children;
    c->beginning += w->beginning;
    op_round_begin(w->round, co_steal_ptr(job), &plan);
    return true;
}

static void let_go(struct op_controller *c, struct op_entry *e) {
    e->held = false;
    op_store_release(&c->store, e);
}

static void round_over(void *arg, struct op_entry *e, int64_t wake_ms) {
    struct op_controller *c = arg;
    struct work *w = e->work;
    c->busy--;
    c->beginning -= w->beginning;
    w->beginning = false;
    if (c->fresh.head && !co_timer_armed(c->turn)) {
        co_timer_start(c->turn, 0);
    }
    if (wake_ms) {
        wake_at(w, wake_ms);
    }
    if (w->dirty) {
        enqueue(w);
    } else {
        let_go(c, e);
    }
    if (c->stopping && !c->busy && c->stopped) {
        void (*fn)(void *) = c->stopped;
        c->stopped = NULL;
        fn(c->stopped_arg);
    }
}

static void serve(struct op_controller *c, struct work *w) {
    struct op_entry *e = w->entry;
    w->queued = false;
    w->dirty = false;
    c->n_queued--;
    co_metric_observe(
        &c->opts.metrics->row[OP_M_QUEUE_SECONDS], 0, (double)(co_now_ms() - w->queued_ms) / 1e3);
    if (c->on_change) {
        c->on_change(c->on_change_arg, e->ns, e->name);
    }
    bool act = c->leading && !c->stopping && c->synced && e->text;
    if (!act || !look(w)) {
        let_go(c, e);
    }
}

/* The next one in turn; NULL: none, or none that may begin yet. */
static struct work *dequeue(struct op_controller *c) {
    bool may_begin = c->fresh.head && c->beginning < BEGINNING_MAX;
    struct queue *q = may_begin ? &c->fresh : &c->begun;
    struct work *w = q->head;
    if (w) {
        q->head = w->next;
        q->tail = q->head ? q->tail : &q->head;
    }
    return w;
}

static void turn(void *arg) {
    struct op_controller *c = arg;
    int64_t end = co_now_ms() + TURN_MS;
    struct work *w;
    while ((w = dequeue(c))) {
        serve(c, w);
        if (co_now_ms() >= end) {
            co_timer_start(c->turn, 0);
            return;
        }
    }
}

static void enqueue_each(void *arg, const char *key, void *value) {
    (void)key;
    enqueue(work_of(arg, value));
}

/* ---- feeds ------------------------------------------------------------------------------ */

static void observe_lag(struct feed *f, int64_t ms) {
    co_metric_observe(&f->c->opts.metrics->row[OP_M_WATCH_LAG], (size_t)f->kind, (double)ms / 1e3);
}

static void answered(void *arg, enum op_store_kind kind, const json_t *obj) {
    struct op_controller *c = arg;
    struct feed *f = &c->feeds[kind];
    uint64_t reached = op_kube_watch_version(f->watch);
    uint64_t version = op_kube_object_version(obj);
    if (version > reached && !f->written) {
        f->written = version;
        f->written_ms = co_now_ms();
    } else if (version && version <= reached) {
        observe_lag(f, 0);
    }
    op_store_put(&c->store, kind, obj, reached);
}

static void feed_progress(void *arg, uint64_t version) {
    struct feed *f = arg;
    if (f->written && version >= f->written) {
        f->written = 0;
        observe_lag(f, co_now_ms() - f->written_ms);
    }
}

static void feed_begin(void *arg) {
    struct feed *f = arg;
    bool anew = op_kube_watch_version(f->watch) == 0;
    f->written = anew ? 0 : f->written;
    op_store_sync_begin(&f->c->store, f->kind, anew);
}

/* The other kinds may never find out: their versions may have grown beyond what they saw. */
static void feed_went_back(void *arg) {
    const struct feed *f = arg;
    for (size_t i = 0; i < OP_STORE_KINDS; i++) {
        struct op_kube_watch *other = f->c->feeds[i].watch;
        if (other && other != f->watch) {
            op_kube_watch_anew(other);
        }
    }
}

static void feed_object(void *arg, enum op_kube_event type, json_t *obj) {
    struct feed *f = arg;
    const char *ns = co_json_str(obj, "metadata", "namespace");
    if (!op_shard_has(&f->c->opts.shard, ns ? ns : "")) {
        return; /* the API server cannot leave them out */
    }
    if (type == OP_KUBE_DELETED) {
        op_store_remove(&f->c->store, f->kind, obj);
    } else {
        op_store_put(&f->c->store, f->kind, obj, 0);
    }
}

static void check_synced(struct op_controller *c, const struct feed *ended) {
    bool all = true;
    for (size_t i = 0; i < OP_STORE_KINDS; i++) {
        const struct feed *f = &c->feeds[i];
        all = all && (!f->watch || f == ended || f->absent || op_kube_watch_synced(f->watch));
    }
    if (all && !c->synced) {
        c->synced = true;
        co_log_info("in sync", CO_I("jobs", c->store.n_jobs), CO_I("pods", c->store.n_pods));
        co_map_each(&c->store.entries, enqueue_each, c);
    }
}

static void feed_end(void *arg) {
    struct feed *f = arg;
    f->absent = false;
    op_store_sync_end(&f->c->store, f->kind, op_kube_watch_version(f->watch));
    check_synced(f->c, f);
}

/* Jobs that need no gang must not wait until somebody installs its scheduler.  What comes with
 * Kubernetes itself does not come later. */
static void no_such_groups(struct feed *f) {
    struct op_controller *c = f->c;
    f->absent = true;
    if (c->opts.settings.gang->optional && !c->synced) {
        co_log_warn("the API server has no such groups: pods are placed one by one",
            CO_S("resource", c->podgroup_type.plural), CO_S("group", c->podgroup_type.group));
        op_kube_watch_free(co_steal_ptr(f->watch));
        c->opts.settings.gang = NULL;
    }
    check_synced(c, NULL);
}

static void feed_error(void *arg, const struct co_err *err, int64_t retry_ms) {
    struct feed *f = arg;
    co_metric_add(&f->c->opts.metrics->row[OP_M_WATCH_BREAKS], (size_t)f->kind, 1);
    co_log_warn("watch broke off, going on", CO_S("resource", feed_type(f->c, f->kind)->plural),
        CO_I("retry_ms", retry_ms), CO_E(err));
    if (f->kind == OP_STORE_PODGROUPS && err->code == CO_NOTFOUND) {
        no_such_groups(f);
    }
}

static const struct op_kube_watch_ops feed_ops = {
    .sync_begin = feed_begin,
    .object = feed_object,
    .sync_end = feed_end,
    .error = feed_error,
    .progress = feed_progress,
    .went_back = feed_went_back,
};

/* ---- life ------------------------------------------------------------------------------- */

struct op_controller *op_controller_new(
    struct co_loop *loop, struct op_kube_client *client, const struct op_controller_opts *opts) {
    struct op_controller *c = co_xcalloc(1, sizeof(*c));
    c->loop = loop;
    c->client = client;
    c->opts = *opts;
    const struct op_gang *gang = opts->settings.gang;
    if (gang) {
        c->podgroup_type =
            (struct op_kube_type){gang->group, gang->version, gang->plural, gang->kind};
    }
    c->fresh.tail = &c->fresh.head;
    c->begun.tail = &c->begun.head;
    c->turn = co_timer_new(loop, turn, c);
    op_store_init(&c->store, entry_changed, entry_gone, c);
    op_recorder_init(&c->recorder, loop, client, opts->instance);
    c->rounds = (struct op_rounds){.loop = loop,
        .client = client,
        .store = &c->store,
        .recorder = &c->recorder,
        .metrics = opts->metrics,
        .podgroup_type = feed_type(c, OP_STORE_PODGROUPS),
        .answered = answered,
        .over = round_over,
        .arg = c};
    for (size_t i = 0; i < OP_STORE_KINDS; i++) {
        const struct op_kube_type *type = feed_type(c, (enum op_store_kind)i);
        c->feeds[i] = (struct feed){.c = c, .kind = (enum op_store_kind)i};
        if (!type) {
            continue;
        }
        c->feeds[i].watch = op_kube_watch_new(
            client, &(struct op_kube_watch_opts){.type = type,
                        .ns = opts->ns,
                        .label_selector = i == OP_STORE_JOBS ? opts->selector : feeds[i].selector,
                        .idle_max_ms = opts->watch_idle_ms,
                        .ops = &feed_ops,
                        .arg = &c->feeds[i]});
    }
    return c;
}

void op_controller_free(struct op_controller *c) {
    if (!c) {
        return;
    }
    for (size_t i = 0; i < OP_STORE_KINDS; i++) {
        op_kube_watch_free(c->feeds[i].watch);
    }
    op_store_done(&c->store);
    op_recorder_done(&c->recorder);
    co_timer_free(c->turn);
    free(c);
}

static void abort_each(void *arg, const char *key, void *value) {
    const struct op_entry *e = value;
    const struct work *w = e->work;
    (void)arg;
    (void)key;
    if (w) {
        op_round_abort(w->round);
    }
}

void op_controller_lead(struct op_controller *c, bool leading) {
    if (leading == c->leading) {
        return;
    }
    c->leading = leading;
    co_map_each(&c->store.entries, leading ? enqueue_each : abort_each, c);
}

void op_controller_stop(struct op_controller *c, void (*done)(void *arg), void *arg) {
    c->stopping = true;
    c->stopped = done;
    c->stopped_arg = arg;
    if (!c->busy) {
        c->stopped = NULL;
        done(arg);
    }
}

bool op_controller_synced(const struct op_controller *c) {
    return c->synced;
}

/* ---- gauges ----------------------------------------------------------------------------- */

struct survey {
    int64_t now_ms, unfinished_ms, longest_ms;
    int64_t oldest; /* creation of the oldest job that waits; seconds, 0: none does */
    size_t jobs[OP_PHASES];
};

static void survey_entry(void *arg, const char *key, void *value) {
    struct survey *s = arg;
    const struct op_entry *e = value;
    const struct work *w = e->work;
    (void)key;
    if (w && op_round_busy(w->round)) {
        int64_t age = s->now_ms - op_round_began(w->round);
        s->unfinished_ms += age;
        s->longest_ms = age > s->longest_ms ? age : s->longest_ms;
    }
    if (!e->text) {
        return;
    }
    s->jobs[e->phase]++;
    if (e->waits && e->created && (!s->oldest || e->created < s->oldest)) {
        s->oldest = e->created;
    }
}

void op_controller_gauges(const struct op_controller *c) {
    struct survey s = {.now_ms = co_now_ms()};
    co_map_each(&c->store.entries, survey_entry, &s);
    int64_t waits = s.oldest ? co_wall_seconds() - s.oldest : 0;
    const struct {
        enum op_metric row;
        double value;
    } gauges[] = {
        {OP_M_PODS, (double)c->store.n_pods},
        {OP_M_LEADER, c->leading},
        {OP_M_QUEUE_DEPTH, (double)c->n_queued},
        {OP_M_WORKERS, (double)c->busy},
        {OP_M_UNFINISHED_SECONDS, (double)s.unfinished_ms / 1e3},
        {OP_M_LONGEST_SECONDS, (double)s.longest_ms / 1e3},
        {OP_M_OLDEST_SECONDS, waits > 0 ? (double)waits : 0},
    };
    struct co_metric *m = c->opts.metrics->row;
    for (size_t i = 0; i < CO_ARRAY_LEN(gauges); i++) {
        co_metric_set(&m[gauges[i].row], 0, gauges[i].value);
    }
    for (size_t p = 0; p < OP_PHASES; p++) {
        co_metric_set(&m[OP_M_JOBS], p, (double)s.jobs[p]);
    }
}

/* ---- the gate --------------------------------------------------------------------------- */

void op_controller_on_change(
    struct op_controller *c, void (*fn)(void *arg, const char *ns, const char *job), void *arg) {
    c->on_change = fn;
    c->on_change_arg = arg;
}

const char *op_controller_job_of(const struct op_controller *c, const char *ns, const char *pod) {
    const struct op_stored *st = op_store_child(&c->store, OP_STORE_PODS, ns, pod);
    return st ? st->entry->name : NULL;
}

static const struct verdict *judge(struct op_controller *c, struct op_entry *e) {
    struct verdict *v = &work_of(c, e)->verdict;
    if (v->known) {
        return v;
    }
    *v = (struct verdict){.known = true, .why = "a job that can be read"};
    CO_CLEANUP(op_job_freep) struct op_job *job = NULL;
    if (entry_decode(e, &job, NULL)) {
        return v;
    }
    struct op_view view;
    op_view_init(&view, e);
    v->over = op_phase_terminal(job->phase) || job->deleting;
    v->open = op_plan_gate_open(job, &view.seen, &c->opts.settings, NULL, &v->why);
    (void)snprintf(v->uid, sizeof(v->uid), "%s", job->uid);
    op_view_done(&view);
    return v;
}

void op_controller_claim(struct op_controller *c, const char *ns, const char *pod, const char *uid,
    const char *ip, const char *second_ip) {
    op_store_claim(&c->store, ns, pod, uid, ip, second_ip);
}

int op_controller_gate(struct op_controller *c, const char *ns, const char *pod, const char *uid,
    const char **ret_why) {
    const struct op_stored *st = op_store_child(&c->store, OP_STORE_PODS, ns, pod);
    *ret_why = "the operator does not know this pod yet";
    if (!c->synced || !st || !st->entry->text) {
        return -1;
    }
    if (strcmp(st->child->uid, uid) != 0) {
        *ret_why = "another pod has this name now";
        return -2;
    }
    const struct verdict *v = judge(c, st->entry);
    if (v->over) {
        *ret_why = "the job is over";
        return -2;
    }
    if (st->child->deleting || strcmp(st->child->owner_uid, v->uid) != 0) {
        *ret_why = "being a pod of the job";
        return 0;
    }
    *ret_why = v->why;
    return v->open;
}
