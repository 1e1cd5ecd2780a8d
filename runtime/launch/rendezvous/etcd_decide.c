/* Decides what a node does next, from a snapshot of the keys (etcd_view.h) and from what the node
 * knows of itself.  Pure.  Every node decides on its own; as all of them see the same keys in the
 * same order of revisions, they come to the same result. */
#include <stdio.h>
#include <string.h>

#include "common/word_list.h"
#include "runtime/launch/rendezvous/assign.h"
#include "runtime/launch/rendezvous/etcd_view.h"

enum {
    SAME_NAME_MS =
        3000,   /* on top of the lease that an earlier process of this node may have left */
    LISTED = 8, /* names in a message */
};

static bool is_elastic(const struct rdzv_etcd_self *self) {
    return self->o->min_nodes < self->o->max_nodes;
}

static void set_decision(struct rdzv_etcd_decision *d, enum rdzv_etcd_next next, int code,
    const char *fmt, ...) CO_PRINTF(4, 5);

static void set_decision(
    struct rdzv_etcd_decision *d, enum rdzv_etcd_next next, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    struct co_err err = {0};
    (void)co_err_setv(&err, CO_INTERNAL, fmt, ap);
    va_end(ap);
    d->next = next;
    d->code = code;
    memcpy(d->why, err.msg, sizeof(d->why));
}

/* Whether the node waits for the next round.  One of our nodes says so in its own key, and lives as
 * long as that key does: its heartbeat proves nothing, as Paddle's nodes delete all heartbeats to
 * make every node start again.  One of Paddle's nodes is ready once it has written its value after
 * the last round. */
static bool is_ready(const struct rdzv_etcd_view *v, const struct rdzv_etcd_node *n) {
    return n->ours ? n->ready == v->round + 1 && n->value_mod > 0 : n->value_mod > v->round_mod;
}

/* The rank of that node in the current round; -1: it is not in it. */
static ssize_t place_in(const struct rdzv_etcd_view *v, const char *name) {
    for (size_t i = 0; i < json_array_size(v->roster); i++) {
        if (co_streq(json_string_value(json_array_get(v->roster, i)), name)) {
            return (ssize_t)i;
        }
    }
    return -1;
}

/* What ended the round that runs, if anything has. */
struct broken {
    bool any;
    bool failed; /* it counts against --max_restart */
    char why[640];
};

static void missing_why(
    const struct rdzv_etcd_view *v, const char *name, size_t rank, struct broken *b) {
    const json_t *message = json_object_get(v->why, name);
    int64_t code = json_integer_value(co_json_at(message, "code"));
    const char *why = co_json_str(message, "why");
    b->any = true;
    b->failed = code >= 0;
    if (message) {
        (void)snprintf(b->why, sizeof(b->why), "node %.200s (rank %zu) %s: %.300s", name, rank,
            code < 0                                    ? "left"
            : json_is_true(co_json_at(message, "gone")) ? "is gone"
                                                        : "failed",
            why ? why : "");
    } else {
        (void)snprintf(b->why, sizeof(b->why),
            "node %.200s (rank %zu) is gone: its lease in etcd ended", name, rank);
    }
}

/* Several nodes may be missing at once; the one with the lowest number is reported as the cause.
 * First come nodes that gave a reason of their own, by time; then nodes that died without a
 * message; last those that ended because another one was lost. */
static int64_t rank_cause(const struct rdzv_etcd_view *v, const char *name) {
    const json_t *message = json_object_get(v->why, name);
    if (!message) {
        return INT64_MAX - 1;
    }
    bool own = json_integer_value(co_json_at(message, "code")) != 0;
    return own ? json_integer_value(co_json_at(message, "revision")) : INT64_MAX;
}

/* Whether a missing node ended well.  Paddle's launcher reports that only by the status key. */
static bool left_well(const struct rdzv_etcd_view *v, const char *name) {
    for (size_t i = 0; v->completed && i < json_array_size(v->paddles); i++) {
        if (co_streq(json_string_value(json_array_get(v->paddles, i)), name)) {
            return true;
        }
    }
    return json_object_get(v->done, name) != NULL;
}

static void find_missing(const struct rdzv_etcd_view *v, struct broken *b) {
    int64_t first = 0;
    for (size_t i = 0; i < json_array_size(v->roster); i++) {
        const char *name = json_string_value(json_array_get(v->roster, i));
        if (!name || rdzv_etcd_view_find(v, name) || left_well(v, name)) {
            continue;
        }
        int64_t this = rank_cause(v, name);
        if (!b->any || this < first) {
            first = this;
            missing_why(v, name, i, b);
        }
    }
}

static void find_broken(
    const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self, struct broken *b) {
    find_missing(v, b);
    if (!b->any && v->again) {
        b->any = b->failed = true;
        const char *why = co_json_str(v->again, "why");
        (void)snprintf(b->why, sizeof(b->why), "%.600s", why ? why : "a node asks for a new start");
    }
    for (size_t i = 0; i < v->n && !b->any && self->o->level >= 0; i++) {
        const struct rdzv_etcd_node *n = &v->nodes[i];
        /* A node beyond the maximum ends itself (one_too_many); the round continues. */
        if (place_in(v, n->name) < 0 && v->n <= (size_t)self->o->max_nodes) {
            b->any = true;
            (void)snprintf(b->why, sizeof(b->why), "node %.200s%s%.200s came", n->name,
                n->host ? " at " : "", n->host ? n->host : "");
        }
    }
}

/* How many nodes of the last round still live. */
static size_t alive_of_roster(const struct rdzv_etcd_view *v) {
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++) {
        n += place_in(v, v->nodes[i].name) >= 0;
    }
    return n;
}

/* ---- while workers run ---- */

static void decide_running(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *d) {
    struct broken b = {0};
    const struct rdzv_etcd_node *me = rdzv_etcd_view_find(v, self->o->name);
    if (v->round != self->round) {
        b.any = true;
        (void)snprintf(b.why, sizeof(b.why), "the others began round %d", v->round);
    } else if (!me || !me->ours || !co_streq(me->id, self->id)) {
        b.any = b.failed = true;
        (void)snprintf(b.why, sizeof(b.why), "the lease of this node in etcd ended");
    } else if (self->beat_deleted) {
        b.any = true;
        (void)snprintf(b.why, sizeof(b.why),
            "heartbeats were deleted: a node of Paddle's launcher "
            "came, or asks for a new start");
    } else {
        find_broken(v, self, &b);
    }
    bool over = self->o->level < 0 || json_object_size(v->done) > 0;
    if (b.any && over) {
        set_decision(d, RDZV_ETCD_END, CO_PEERLOST, "%s", b.why);
    } else if (b.any && b.failed && v->restarts >= self->o->max_restart) {
        set_decision(d, RDZV_ETCD_END, CO_NORESOURCE, "%s, and %s", b.why,
            self->o->max_restart > 0 ? "no restart is left" : "restarts are not allowed");
    } else if (b.any) {
        set_decision(d, RDZV_ETCD_CHANGED, 0, "%s", b.why);
    } else if (self->done && json_object_size(v->done) >= json_array_size(v->roster)) {
        d->next = RDZV_ETCD_ALL_DONE;
    }
}

/* ---- while nodes gather ---- */

static int by_created(const void *a, const void *b) {
    const struct rdzv_etcd_node *const *x = a, *const *y = b;
    int64_t p = (*x)->created, q = (*y)->created;
    return p != q ? (p < q ? -1 : 1) : strcmp((*x)->name, (*y)->name);
}

/* Ends this node when it came after the job had its maximum of nodes. */
static bool one_too_many(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *d) {
    size_t max = (size_t)self->o->max_nodes;
    if (v->n <= max) {
        return false;
    }
    CO_AUTOFREE const struct rdzv_etcd_node **all = co_xcalloc(v->n, sizeof(*all));
    for (size_t i = 0; i < v->n; i++) {
        all[i] = &v->nodes[i];
    }
    qsort(all, v->n, sizeof(*all), by_created);
    char names[256] = "";
    for (size_t i = 0; i < max; i++) {
        if (strcmp(all[i]->name, self->o->name) == 0) {
            return false;
        }
        if (i < LISTED) {
            co_word_list_add(names, sizeof(names), "%.24s", all[i]->name);
        }
    }
    set_decision(d, RDZV_ETCD_END, CO_NORESOURCE,
        "node %s is one too many: the job has its %zu nodes (%s%s)", self->o->name, max, names,
        max > LISTED ? ", ..." : "");
    return true;
}

/* Ends this node when its rank or address clashes with that of a node that came before it. */
static bool find_clash(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *d) {
    const struct rdzv_etcd_node *me = rdzv_etcd_view_find(v, self->o->name);
    CO_AUTOFREE struct rdzv_assign_node *before = co_xcalloc(v->n, sizeof(*before));
    const struct rdzv_assign_node mine = {self->o->name, self->o->rank, self->o->value};
    const struct rdzv_assign_rule rule = {.sort_ip = self->o->sort_ip, .holes = is_elastic(self)};
    struct co_err err = {0};
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++) {
        const struct rdzv_etcd_node *other = &v->nodes[i];
        if (other->value_mod && by_created(&other, &me) < 0) {
            before[n++] = (struct rdzv_assign_node){other->name, other->rank, other->value};
        }
    }
    int r = rdzv_assign_fits(before, n, &mine, (size_t)self->o->max_nodes, &rule, &err);
    if (r) {
        set_decision(d, RDZV_ETCD_END, r, "%s", err.msg);
    }
    return r != 0;
}

static void decide_met(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *d) {
    size_t size = json_array_size(v->roster);
    CO_AUTOFREE size_t *order = co_xcalloc(size, sizeof(*order));
    for (size_t i = 0; i < size; i++) {
        const char *name = json_string_value(json_array_get(v->roster, i));
        const struct rdzv_etcd_node *n = name ? rdzv_etcd_view_find(v, name) : NULL;
        if (!n || !n->value_mod) {
            d->next =
                RDZV_ETCD_REGISTER; /* a node died before the round began: wait for the next */
            return;
        }
        order[i] = (size_t)(n - v->nodes);
    }
    (void)self;
    d->next = RDZV_ETCD_MET;
    d->order = co_steal_ptr(order);
    d->n = size;
}

static void decide_proposal(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *d) {
    CO_AUTOFREE struct rdzv_assign_node *nodes = co_xcalloc(v->n, sizeof(*nodes));
    CO_AUTOFREE size_t *order = co_xcalloc(v->n, sizeof(*order));
    struct rdzv_assign_rule rule = {.sort_ip = self->o->sort_ip, .holes = is_elastic(self)};
    struct co_err err = {0};
    struct broken b = {0};
    for (size_t i = 0; i < v->n; i++) {
        const struct rdzv_etcd_node *n = &v->nodes[i];
        nodes[i] = (struct rdzv_assign_node){n->name, n->rank, n->value};
    }
    int r = rdzv_assign(nodes, v->n, &rule, order, &err);
    if (r) { /* nodes clash: the later one of them ends itself in find_clash */
        set_decision(d, RDZV_ETCD_WAIT, 0, "%s", err.msg);
        return;
    }
    for (size_t i = 0; i < v->n; i++) {
        const struct rdzv_etcd_node *n = &v->nodes[order[i]];
        if (n->ours && strcmp(n->name, self->o->name) != 0) {
            return; /* the first of our nodes writes the round, and this is not it */
        }
        if (n->ours) {
            break;
        }
    }
    /* When no node of the last round is here, this is a new job of the same name: its restarts
     * count from 0. */
    find_broken(v, self, &b);
    d->restarts = alive_of_roster(v) ? v->restarts + (b.any && b.failed) : 0;
    d->next = RDZV_ETCD_PROPOSE;
    d->order = co_steal_ptr(order);
    d->n = v->n;
}

/* Waits for nodes, and proposes the round when the job is full, or has its minimum and no node came
 * or went for elastic_ms. */
static void wait_for(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *d) {
    size_t n_ready = 0;
    char names[256] = "";
    for (size_t i = 0; i < v->n; i++) {
        size_t len = strlen(names);
        if (is_ready(v, &v->nodes[i]) && n_ready++ < LISTED) {
            (void)snprintf(names + len, sizeof(names) - len, " %.24s", v->nodes[i].name);
        }
    }
    set_decision(d, RDZV_ETCD_WAIT, 0, "%zu of %s%d nodes are here:%s%s", n_ready,
        is_elastic(self) ? "at least " : "", self->o->min_nodes, names,
        n_ready > LISTED ? " ..." : "");
    if (n_ready < v->n || v->n < (size_t)self->o->min_nodes) {
        return;
    }
    d->at = self->quiet_since + self->o->elastic_ms;
    if (v->n == (size_t)self->o->max_nodes || d->at <= self->now) {
        decide_proposal(v, self, d);
    }
}

static void decide_meeting(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *d) {
    const struct rdzv_etcd_node *me = rdzv_etcd_view_find(v, self->o->name);
    bool mine = me && me->ours && co_streq(me->id, self->id);
    if (me && me->ours && !mine) {
        d->at = self->since + self->o->silent_ms + SAME_NAME_MS;
        if (self->now >= d->at) {
            set_decision(d, RDZV_ETCD_END, CO_EXISTS, "the name %s is taken by the node at %s",
                self->o->name, me->host ? me->host : "an unknown address");
        } else {
            set_decision(d, RDZV_ETCD_WAIT, 0,
                "the name %s is taken, by a former life of this node or another", self->o->name);
        }
        return;
    }
    bool in_roster = place_in(v, self->o->name) >= 0;
    if (mine && (one_too_many(v, self, d) || find_clash(v, self, d))) {
        return;
    }
    if (mine && in_roster && v->round > self->round && me->ready == v->round) {
        decide_met(v, self, d);
        return;
    }
    if (!in_roster && self->o->level < 0 && alive_of_roster(v) > 0) {
        set_decision(d, RDZV_ETCD_END, CO_NORESOURCE,
            "node %s is late: the job runs with %zu nodes and --elastic_level -1", self->o->name,
            json_array_size(v->roster));
        return;
    }
    if (!mine || me->ready != v->round + 1 || !me->value_mod || !me->beats) {
        d->next = RDZV_ETCD_REGISTER;
        return;
    }
    wait_for(v, self, d);
}

void rdzv_etcd_decide(const struct rdzv_etcd_view *v, const struct rdzv_etcd_self *self,
    struct rdzv_etcd_decision *ret) {
    *ret = (struct rdzv_etcd_decision){.next = RDZV_ETCD_WAIT, .at = INT64_MAX};
    if (self->state == RDZV_MEETING) {
        decide_meeting(v, self, ret);
    } else if (self->state == RDZV_MET) {
        decide_running(v, self, ret);
    }
}
