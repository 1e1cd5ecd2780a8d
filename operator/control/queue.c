/* The work queue: lines of entries by namespace, in two rings of namespaces.
 *
 *   rings[FRESH] -> tenant a ------> tenant b     namespaces with new jobs, served first
 *                     |                |
 *                   entry            entry        oldest request first
 *                     |
 *                   entry
 *   rings[BEGUN] -> tenant b -> ...               namespaces with other jobs
 *
 * A tenant that was served goes to the end of its ring. */
#include "operator/control/queue.h"

#include <assert.h>
#include <string.h>

enum {
    /* One turn of the loop plans for at most this long, so that other events are not delayed. */
    TURN_MS = 5,
    /* The pause after a reconcile that took t ms of CPU time is REST_FACTOR * t, unless the job may
     * make progress.  So the changes of a thousand pods are handled in batches, those of a few pods
     * one by one. */
    REST_FACTOR = 100,
    /* The pause is at least 1 ms for so many children, however cheap the reconcile was: half a
     * second for a thousand pods, in which only counters change. */
    CHILDREN_A_MS = 2,
    REST_MAX_MS = 5000,
    /* So many jobs get their first pods at a time: as many as the API server can serve without its
     * latency growing.  With more, the first jobs would not run before the last ones, because the
     * scheduler and kubelets would wait for the API server as well.  It also bounds our memory. */
    BEGINNING_MIN = 4,
    BEGINNING_FIRST = 8, /* as long as the load is unknown */
    BEGINNING_MAX = 64,
    /* While the API server is busy, at most so many jobs are between their first pods and Running;
     * a new one begins when one of them runs.  This leaves capacity to the scheduler and to
     * kubelets, and lets the first jobs run first.  A job holds its slot for STARTING_MS at most,
     * and not at all when the scheduler cannot place its pods. */
    STARTING_MAX = 32,
    STARTING_MS = 3000,
    /* Reconciles in flight: each keeps a parsed job and a plan in memory until its status is
     * written.  A job that waits in the queue costs nothing. */
    BUSY_MAX = 96,
};

/* Jobs without any child, and jobs with some. */
enum queue_class { FRESH, BEGUN, KINDS };

/* The limits that namespaces share: BUSY_MAX, BEGINNING_*, STARTING_MAX. */
enum share { BUSY, BEGINNING, STARTING, SHARES };

/* A namespace; exists as long as an entry of it has joined. */
struct ctl_tenant {
    struct co_link link; /* in ctl_queue.tenants, by its name; must be first */
    struct {
        STAILQ_HEAD(, ctl_queued) line; /* entries that wait, oldest request first */
        TAILQ_ENTRY(ctl_tenant) ring;   /* while the line is not empty */
    } of[KINDS];
    size_t uses[SHARES]; /* how much of each limit it uses */
    size_t places;       /* entries that have joined */
    char ns[];
};

/* Tenants whose line is not empty; the first is served next. */
TAILQ_HEAD(ring, ctl_tenant);

struct ctl_queue {
    struct co_loop *loop;
    struct ctl_queue_opts opts;
    struct co_timer *turn;
    struct co_index tenants;
    struct ring rings[KINDS];
    size_t waiting;                            /* entries in lines */
    size_t used[SHARES];                       /* by all tenants together */
    size_t users[SHARES];                      /* tenants that use any */
    struct ctl_queued *starting[STARTING_MAX]; /* the first used[STARTING] are set, in no order */
    struct co_timer *later;                    /* due: a STARTING slot may have timed out */
};

/* ---- namespaces ------------------------------------------------------------------------- */

static struct ctl_tenant *tenant_need(struct ctl_queue *q, const char *ns) {
    uint64_t hash = co_hash_str(ns);
    struct co_link *l = co_index_first(&q->tenants, hash);
    while (l && strcmp(((struct ctl_tenant *)l)->ns, ns) != 0) {
        l = co_index_next(l);
    }
    if (l) {
        return (struct ctl_tenant *)l;
    }
    size_t size = strlen(ns) + 1;
    struct ctl_tenant *t = co_xcalloc(1, sizeof(*t) + size);
    memcpy(t->ns, ns, size);
    for (enum queue_class k = 0; k < KINDS; k++) {
        STAILQ_INIT(&t->of[k].line);
    }
    co_index_add(&q->tenants, &t->link, hash);
    return t;
}

static void use(struct ctl_queue *q, struct ctl_tenant *t, enum share s) {
    q->users[s] += !t->uses[s]++;
    q->used[s]++;
}

static void unuse(struct ctl_queue *q, struct ctl_tenant *t, enum share s) {
    q->users[s] -= !--t->uses[s];
    q->used[s]--;
}

/* When a limit is used up, a tenant that uses none of it may still exceed it by one, as long as
 * fewer tenants than the limit use any: then another tenant has more than one.  So at most twice
 * the limit is used. */
static bool has_room(
    const struct ctl_queue *q, const struct ctl_tenant *t, enum share s, size_t limit) {
    return q->used[s] < limit || (!t->uses[s] && q->users[s] < limit);
}

static void line_add(struct ctl_queue *q, struct ctl_queued *place, enum queue_class k) {
    struct ctl_tenant *t = place->tenant;
    if (STAILQ_EMPTY(&t->of[k].line)) {
        TAILQ_INSERT_TAIL(&q->rings[k], t, of[k].ring);
    }
    STAILQ_INSERT_TAIL(&t->of[k].line, place, waits);
    q->waiting++;
}

/* Takes the first entry of a tenant's line; the tenant goes to the end of its ring. */
static struct ctl_queued *line_take(struct ctl_queue *q, struct ctl_tenant *t, enum queue_class k) {
    struct ctl_queued *place = STAILQ_FIRST(&t->of[k].line);
    STAILQ_REMOVE_HEAD(&t->of[k].line, waits);
    TAILQ_REMOVE(&q->rings[k], t, of[k].ring);
    if (!STAILQ_EMPTY(&t->of[k].line)) {
        TAILQ_INSERT_TAIL(&q->rings[k], t, of[k].ring);
    }
    q->waiting--;
    return place;
}

/* ---- entries ---------------------------------------------------------------------------- */

static void set_state(struct ctl_queued *place, enum ctl_queued_state next) {
    static const unsigned from[] = {
        [CTL_QUEUED_IDLE] =
            1U << CTL_QUEUED_WAITING | 1U << CTL_QUEUED_BUSY | 1U << CTL_QUEUED_AGAIN,
        [CTL_QUEUED_WAITING] = 1U << CTL_QUEUED_IDLE,
        [CTL_QUEUED_BUSY] = 1U << CTL_QUEUED_IDLE,
        [CTL_QUEUED_AGAIN] = 1U << CTL_QUEUED_BUSY,
    };
    assert(from[next] & 1U << place->state);
    place->state = next;
}

static void arm_turn(struct ctl_queue *q) {
    if (!co_timer_armed(q->turn)) {
        co_timer_start(q->turn, 0);
    }
}

void ctl_queue_join(struct ctl_queue *q, struct ctl_queued *ret, struct ctl_entry *e) {
    *ret = (struct ctl_queued){.queue = q, .entry = e, .tenant = tenant_need(q, e->ns)};
    ret->tenant->places++;
}

/* Frees the entry's STARTING slot, if it has one; the last slot fills the gap. */
static void stop_starting(struct ctl_queued *place) {
    struct ctl_queue *q = place->queue;
    if (!place->starting) {
        return;
    }
    size_t i = 0;
    while (q->starting[i] != place) {
        i++;
    }
    place->starting = false;
    unuse(q, place->tenant, STARTING);
    q->starting[i] = q->starting[q->used[STARTING]];
}

/* Frees the slots of jobs that run, or whose time is over. */
static void prune_starting(struct ctl_queue *q) {
    int64_t now = co_now_ms();
    for (size_t i = q->used[STARTING]; i-- > 0;) {
        struct ctl_queued *p = q->starting[i];
        if (!p->entry->waits || now >= p->starting_until) {
            stop_starting(p);
        }
    }
}

/* The slot to give up for another tenant: the oldest one of the tenant that has the most. */
static struct ctl_queued *least_needed_start(const struct ctl_queue *q) {
    struct ctl_queued *least = q->starting[0];
    for (size_t i = 1; i < q->used[STARTING]; i++) {
        struct ctl_queued *p = q->starting[i];
        size_t uses = p->tenant->uses[STARTING], most = least->tenant->uses[STARTING];
        if (uses > most || (uses == most && p->starting_until < least->starting_until)) {
            least = p;
        }
    }
    return least;
}

/* Takes a STARTING slot for the entry.  There may be none, when the limit did not apply because the
 * API server is not busy. */
static void start_if_room(struct ctl_queue *q, struct ctl_queued *place) {
    if (place->starting || !has_room(q, place->tenant, STARTING, STARTING_MAX)) {
        return;
    }
    if (q->used[STARTING] == STARTING_MAX) {
        stop_starting(least_needed_start(q));
    }
    place->starting = true;
    place->starting_until = co_now_ms() + STARTING_MS;
    q->starting[q->used[STARTING]] = place;
    use(q, place->tenant, STARTING);
}

/* The job's pods will not run soon: the scheduler cannot place one of them, or there are none
 * because a quota refuses them or their gang is not admitted. */
static bool is_stuck(const struct ctl_entry *e) {
    bool has_pods = false;
    for (const struct ctl_stored *st = e->children; st; st = st->next) {
        if (st->kind == CTL_STORE_PODS) {
            const struct api_pod *pod = st->pod;
            if (pod->phase == API_POD_PENDING && !pod->scheduled && *pod->cause->reason) {
                return true;
            }
            has_pods = true;
        }
    }
    return !has_pods;
}

static void stop_if_stuck(struct ctl_queued *place) {
    if (place->starting && is_stuck(place->entry)) {
        stop_starting(place);
    }
}

void ctl_queue_leave(struct ctl_queued *place) {
    struct ctl_queue *q = place->queue;
    struct ctl_tenant *t = place->tenant;
    stop_starting(place);
    co_timer_free(co_steal_ptr(place->timer));
    if (--t->places == 0) {
        co_index_remove(&q->tenants, &t->link);
        free(t);
    }
}

void ctl_queue_skip_back_off(struct ctl_queued *place) {
    place->skips_back_off = true;
}

void ctl_queue_add(struct ctl_queued *place) {
    struct ctl_queue *q = place->queue;
    if (place->state == CTL_QUEUED_BUSY) {
        set_state(place, CTL_QUEUED_AGAIN);
    }
    if (place->state != CTL_QUEUED_IDLE) {
        return;
    }
    if (!place->skips_back_off && co_now_ms() < place->not_before) {
        ctl_queue_add_at(place, place->not_before);
        return;
    }
    set_state(place, CTL_QUEUED_WAITING);
    place->queued_ms = co_now_ms();
    co_metric_add(&q->opts.metrics->row[CTL_M_QUEUE_ADDS], 0, 1);
    ctl_store_hold(place->entry);
    line_add(q, place, place->entry->n_children ? BEGUN : FRESH);
    arm_turn(q);
}

static void forget_wish(struct ctl_queued *place) {
    place->wake_ms = 0;
    co_timer_free(co_steal_ptr(place->timer)); /* not kept: a timer takes hundreds of bytes */
}

static void wake_place(void *arg) {
    struct ctl_queued *place = arg;
    forget_wish(place);
    ctl_queue_add(place);
}

void ctl_queue_add_at(struct ctl_queued *place, int64_t at_ms) {
    if (!place->timer) {
        place->timer = co_timer_new(place->queue->loop, wake_place, place);
    }
    if (!place->wake_ms || at_ms < place->wake_ms) {
        int64_t in = at_ms - co_now_ms();
        place->wake_ms = at_ms;
        co_timer_start(place->timer, in > 0 ? in : 0);
    }
}

bool ctl_queue_is_idle(const struct ctl_queued *place) {
    return place->state == CTL_QUEUED_IDLE && !place->timer && co_now_ms() >= place->not_before;
}

void ctl_queue_back_off(struct ctl_queued *place, double took_seconds) {
    int64_t least = (int64_t)(place->entry->n_children / CHILDREN_A_MS);
    int64_t rest = (int64_t)(took_seconds * 1e3 * REST_FACTOR);
    rest = rest > least ? rest : least;
    place->not_before = co_now_ms() + (rest < REST_MAX_MS ? rest : REST_MAX_MS);
}

void ctl_queue_begin(struct ctl_queued *place) {
    struct ctl_queue *q = place->queue;
    set_state(place, CTL_QUEUED_BUSY);
    place->beginning = !place->entry->n_children;
    stop_if_stuck(place);
    use(q, place->tenant, BUSY);
    if (place->beginning) {
        use(q, place->tenant, BEGINNING);
        start_if_room(q, place);
    }
}

void ctl_queue_end(struct ctl_queued *place, int64_t add_at_ms) {
    struct ctl_queue *q = place->queue;
    bool again = place->state == CTL_QUEUED_AGAIN;
    unuse(q, place->tenant, BUSY);
    if (place->beginning) {
        unuse(q, place->tenant, BEGINNING);
    }
    stop_if_stuck(place);
    place->beginning = false;
    set_state(place, CTL_QUEUED_IDLE);
    if (q->waiting) { /* a limit may have kept them waiting */
        arm_turn(q);
    }
    if (add_at_ms) {
        ctl_queue_add_at(place, add_at_ms);
    }
    if (again) {
        ctl_queue_add(place);
    } else {
        ctl_store_release(q->opts.store, place->entry);
    }
}

/* The first tenant of a ring that is within the limits; NULL: none. */
static struct ctl_tenant *next_tenant(
    struct ctl_queue *q, enum queue_class k, const size_t limit[SHARES]) {
    struct ctl_tenant *t;
    TAILQ_FOREACH(t, &q->rings[k], of[k].ring) {
        enum share s = 0;
        while (s < SHARES && has_room(q, t, s, limit[s])) {
            s++;
        }
        if (s == SHARES) {
            return t;
        }
        if (s == STARTING && !co_timer_armed(q->later)) {
            co_timer_start(q->later, STARTING_MS / 10);
        }
        if (!t->uses[BUSY] && !t->uses[STARTING]) { /* tenants behind it cannot have more room */
            break;
        }
    }
    return NULL;
}

/* Takes the next entry to serve; NULL: none waits, or the limits let none begin. */
static struct ctl_queued *take_place(struct ctl_queue *q) {
    int64_t now = co_now_ms();
    const struct ctl_load *load = q->opts.load;
    const size_t limits[KINDS][SHARES] = {
        [FRESH] = {[BUSY] = BUSY_MAX,
            [BEGINNING] = ctl_load_share(load, now, BEGINNING_MIN, BEGINNING_FIRST, BEGINNING_MAX),
            [STARTING] = ctl_load_is_quiet(load, now) ? SIZE_MAX : STARTING_MAX},
        [BEGUN] = {[BUSY] = BUSY_MAX, [BEGINNING] = SIZE_MAX, [STARTING] = SIZE_MAX},
    };
    prune_starting(q);
    for (enum queue_class k = 0; k < KINDS; k++) {
        struct ctl_tenant *t = next_tenant(q, k, limits[k]);
        if (t) {
            return line_take(q, t, k);
        }
    }
    return NULL;
}

static void serve_place(struct ctl_queue *q, struct ctl_queued *place) {
    struct ctl_entry *e = place->entry;
    set_state(place, CTL_QUEUED_IDLE); /* ctl_queue_begin makes it BUSY */
    place->skips_back_off = false;
    forget_wish(place); /* this reconcile comes before it, and will set the next time */
    co_metric_observe(&q->opts.metrics->row[CTL_M_QUEUE_SECONDS], 0,
        (double)(co_now_ms() - place->queued_ms) / 1e3);
    if (!q->opts.serve(q->opts.arg, e)) {
        ctl_store_release(q->opts.store, e);
    }
}

static void take_turn(void *arg) {
    struct ctl_queue *q = arg;
    int64_t end = co_now_ms() + TURN_MS;
    struct ctl_queued *place;
    while ((place = take_place(q))) {
        serve_place(q, place);
        if (co_now_ms() >= end) {
            co_timer_start(q->turn, 0);
            return;
        }
    }
}

struct ctl_queue *ctl_queue_new(struct co_loop *loop, const struct ctl_queue_opts *opts) {
    struct ctl_queue *q = co_xcalloc(1, sizeof(*q));
    q->loop = loop;
    q->opts = *opts;
    for (enum queue_class k = 0; k < KINDS; k++) {
        TAILQ_INIT(&q->rings[k]);
    }
    q->turn = co_timer_new(loop, take_turn, q);
    q->later = co_timer_new(loop, take_turn, q);
    return q;
}

void ctl_queue_free(struct ctl_queue *q) {
    if (q) {
        co_timer_free(q->turn);
        co_timer_free(q->later);
        co_index_done(&q->tenants);
        free(q);
    }
}

size_t ctl_queue_waiting(const struct ctl_queue *q) {
    return q->waiting;
}

size_t ctl_queue_busy(const struct ctl_queue *q) {
    return q->used[BUSY];
}
