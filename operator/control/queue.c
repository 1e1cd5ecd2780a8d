#include "operator/control/queue.h"

enum {
    /* One turn of the loop plans for at most this long, so that events are never kept waiting. */
    TURN_MS = 5,
    /* A look that took t ms is followed by no other of the same job for this many times t, unless
     * the job may go on: the events of a thousand pods are taken in bunches, those of a few pods
     * one by one. */
    REST_FACTOR = 100,
    /* Nor sooner than a millisecond for so many children, however cheap it was: half a second for
     * a thousand pods, in which only counters change. */
    CHILDREN_A_MS = 2,
    REST_MAX_MS = 5000,
    /* So many jobs are given their first pods at a time: as many as the API server answers no later
     * than one.  More would wait for each other there and keep the scheduler and kubelets waiting,
     * so that the first jobs run with the last ones; and what waits here has a bound in memory. */
    BEGINNING_MIN = 4,
    BEGINNING_FIRST = 8, /* as long as nothing is known */
    BEGINNING_MAX = 64,
    /* While the API server has much to do, so many begun jobs go on to Running before the next one
     * begins: those who place pods and run them have their share of it, too, and the first jobs run
     * first.  Nobody waits longer than this for one that takes its time. */
    STARTING_MAX = 32,
    STARTING_MS = 3000,
    /* So many looks go on at a time: each keeps a job's tree, and a plan, until its status is
     * written; what waits here costs nothing and is planned with what was seen meanwhile. */
    BUSY_MAX = 96,
};

struct line {
    struct op_queued *head, **tail;
};

struct op_queue {
    struct co_loop *loop;
    struct op_queue_opts opts;
    struct co_timer *turn;
    /* Oldest request first: the jobs that have nothing yet, and those that have. */
    struct line fresh, begun;
    size_t waiting, busy, beginning;
    struct op_queued *starting[STARTING_MAX]; /* in no order */
    size_t n_starting;
    struct co_timer *later; /* one of them has had its time */
};

static void arm_turn(struct op_queue *q) {
    if (!co_timer_armed(q->turn)) {
        co_timer_start(q->turn, 0);
    }
}

void op_queue_join(struct op_queue *q, struct op_queued *ret, struct op_entry *e) {
    *ret = (struct op_queued){.queue = q, .entry = e};
}

/* Those that run, or have had their time, make room. */
static void prune_starting(struct op_queue *q, const struct op_queued *leaving) {
    int64_t now = co_now_ms();
    for (size_t i = q->n_starting; i-- > 0;) {
        const struct op_queued *p = q->starting[i];
        if (p == leaving || !p->entry->waits || now >= p->starting_until) {
            q->starting[i] = q->starting[--q->n_starting];
        }
    }
}

void op_queue_leave(struct op_queued *place) {
    prune_starting(place->queue, place);
    co_timer_free(co_steal_ptr(place->timer));
}

void op_queue_hurry(struct op_queued *place) {
    place->hurried = true;
}

void op_queue_ask(struct op_queued *place) {
    struct op_queue *q = place->queue;
    place->dirty = true;
    if (place->queued || place->busy) {
        return;
    }
    if (!place->hurried && co_now_ms() < place->not_before) {
        op_queue_ask_at(place, place->not_before);
        return;
    }
    place->queued = true;
    place->queued_ms = co_now_ms();
    co_metric_add(&q->opts.metrics->row[OP_M_QUEUE_ADDS], 0, 1);
    q->waiting++;
    op_store_hold(place->entry);
    place->next = NULL;
    struct line *l = place->entry->n_children ? &q->begun : &q->fresh;
    *l->tail = place;
    l->tail = &place->next;
    arm_turn(q);
}

static void forget_wish(struct op_queued *place) {
    place->wake_ms = 0;
    co_timer_free(co_steal_ptr(place->timer)); /* hundreds of bytes, and few jobs have one */
}

static void wake_place(void *arg) {
    struct op_queued *place = arg;
    forget_wish(place);
    op_queue_ask(place);
}

void op_queue_ask_at(struct op_queued *place, int64_t at_ms) {
    if (!place->timer) {
        place->timer = co_timer_new(place->queue->loop, wake_place, place);
    }
    if (!place->wake_ms || at_ms < place->wake_ms) {
        int64_t in = at_ms - co_now_ms();
        place->wake_ms = at_ms;
        co_timer_start(place->timer, in > 0 ? in : 0);
    }
}

bool op_queue_left_alone(const struct op_queued *place) {
    return !place->queued && !place->busy && !place->timer && co_now_ms() >= place->not_before;
}

void op_queue_rest(struct op_queued *place, double took_seconds) {
    int64_t least = (int64_t)(place->entry->n_children / CHILDREN_A_MS);
    int64_t rest = (int64_t)(took_seconds * 1e3 * REST_FACTOR);
    rest = rest > least ? rest : least;
    place->not_before = co_now_ms() + (rest < REST_MAX_MS ? rest : REST_MAX_MS);
}

void op_queue_begin(struct op_queued *place) {
    struct op_queue *q = place->queue;
    place->busy = true;
    place->beginning = !place->entry->n_children;
    q->busy++;
    q->beginning += place->beginning;
    if (place->beginning && !place->starting_until && q->n_starting < STARTING_MAX) {
        place->starting_until = co_now_ms() + STARTING_MS;
        q->starting[q->n_starting++] = place;
    }
}

void op_queue_end(struct op_queued *place, int64_t ask_at_ms) {
    struct op_queue *q = place->queue;
    q->busy--;
    q->beginning -= place->beginning;
    place->busy = place->beginning = false;
    if (q->waiting) { /* for this one's end, perhaps */
        arm_turn(q);
    }
    if (ask_at_ms) {
        op_queue_ask_at(place, ask_at_ms);
    }
    if (place->dirty) {
        op_queue_ask(place);
    } else {
        op_store_release(q->opts.store, place->entry);
    }
}

/* The first of those that have nothing yet may begin. */
static bool may_begin(struct op_queue *q) {
    int64_t now = co_now_ms();
    const struct op_load *load = q->opts.load;
    if (!q->fresh.head ||
        q->beginning >= op_load_share(load, now, BEGINNING_MIN, BEGINNING_FIRST, BEGINNING_MAX)) {
        return false;
    }
    prune_starting(q, NULL);
    if (q->n_starting < STARTING_MAX || op_load_is_quiet(load, now)) {
        return true;
    }
    if (!co_timer_armed(q->later)) {
        co_timer_start(q->later, STARTING_MS / 10);
    }
    return false;
}

/* The next one in turn; NULL: none, or none that may begin yet. */
static struct op_queued *take_place(struct op_queue *q) {
    if (q->busy >= BUSY_MAX) {
        return NULL;
    }
    struct line *l = may_begin(q) ? &q->fresh : &q->begun;
    struct op_queued *place = l->head;
    if (place) {
        l->head = place->next;
        l->tail = l->head ? l->tail : &l->head;
    }
    return place;
}

static void serve_place(struct op_queue *q, struct op_queued *place) {
    struct op_entry *e = place->entry;
    place->queued = false;
    place->dirty = false;
    place->hurried = false;
    q->waiting--;
    forget_wish(place); /* what was due then is seen now, and the look says when the next is */
    co_metric_observe(&q->opts.metrics->row[OP_M_QUEUE_SECONDS], 0,
        (double)(co_now_ms() - place->queued_ms) / 1e3);
    if (!q->opts.serve(q->opts.arg, e)) {
        op_store_release(q->opts.store, e);
    }
}

static void take_turn(void *arg) {
    struct op_queue *q = arg;
    int64_t end = co_now_ms() + TURN_MS;
    struct op_queued *place;
    while ((place = take_place(q))) {
        serve_place(q, place);
        if (co_now_ms() >= end) {
            co_timer_start(q->turn, 0);
            return;
        }
    }
}

struct op_queue *op_queue_new(struct co_loop *loop, const struct op_queue_opts *opts) {
    struct op_queue *q = co_xcalloc(1, sizeof(*q));
    q->loop = loop;
    q->opts = *opts;
    q->fresh.tail = &q->fresh.head;
    q->begun.tail = &q->begun.head;
    q->turn = co_timer_new(loop, take_turn, q);
    q->later = co_timer_new(loop, take_turn, q);
    return q;
}

void op_queue_free(struct op_queue *q) {
    if (q) {
        co_timer_free(q->turn);
        co_timer_free(q->later);
        free(q);
    }
}

size_t op_queue_waiting(const struct op_queue *q) {
    return q->waiting;
}

size_t op_queue_busy(const struct op_queue *q) {
    return q->busy;
}
