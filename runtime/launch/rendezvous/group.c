/* The members of a job and its rounds.  group.h has the states; pulse.c has the part that finds
 * nodes that are late. */
#include "runtime/launch/rendezvous/group.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/json/json.h"
#include "common/word_list.h"

static void node_free(struct rdzv_group_node *n) {
    free(n->name);
    free(n->id);
    free(n->host);
    free(n->value);
    free(n);
}

void rdzv_group_init(struct rdzv_group *g, const struct rdzv_group_rules *rules) {
    *g = (struct rdzv_group){.rules = *rules, .round = 1};
}

void rdzv_group_done(struct rdzv_group *g) {
    for (size_t i = 0; i < g->n; i++) {
        node_free(g->nodes[i]);
    }
    free(g->nodes);
    free(g->roster);
    co_map_done(&g->by_name);
}

struct rdzv_group_node *rdzv_group_find(const struct rdzv_group *g, const char *name) {
    return co_map_get(&g->by_name, name);
}

static bool is_elastic(const struct rdzv_group *g) {
    return g->rules.min < g->rules.max;
}

/* The node has a rank in the running round. */
static bool in_round(const struct rdzv_group_node *n) {
    return n->part >= RDZV_PART_WORKING;
}

static void set_part(struct rdzv_group *g, struct rdzv_group_node *n, enum rdzv_group_part next) {
    static const unsigned from[] = {
        [RDZV_PART_AWAY] = 1U << RDZV_PART_WORKING | 1U << RDZV_PART_DONE, /* the round has ended */
        [RDZV_PART_READY] = ~0U, /* at the end of a round only a node of Paddle, which asks once */
        [RDZV_PART_WORKING] = 1U << RDZV_PART_READY,
        [RDZV_PART_DONE] = 1U << RDZV_PART_WORKING,
    };
    assert(from[next] & 1U << n->part);
    g->working += next == RDZV_PART_WORKING;
    g->working -= n->part == RDZV_PART_WORKING;
    n->part = next;
}

void rdzv_group_who(const struct rdzv_group_node *n, char *ret, size_t size) {
    CO_AUTOJSON json_t *value = NULL;
    const char *host = n->host;
    if (!host && co_json_parse(n->value, strlen(n->value), &value, NULL) == 0) {
        host = co_json_str(value, "candidate");
    }
    char rank[24] = "";
    if (in_round(n) || n->rank >= 0) {
        (void)snprintf(rank, sizeof(rank), "rank %d", in_round(n) ? (int)n->place : n->rank);
    }
    (void)snprintf(ret, size, "node %.100s%s%s%s%.120s%s", n->name, *rank || host ? " (" : "", rank,
        *rank && host ? ", " : "", host ? host : "", *rank || host ? ")" : "");
}

static void end_job(struct rdzv_group *g, int code, const char *text) {
    if (g->phase != RDZV_GROUP_OVER) {
        g->phase = RDZV_GROUP_OVER;
        (void)co_err_set(&g->over, code, "%s", text);
        g->notices++;
    }
}

/* Ends the running round and begins to gather the next one.  failed: it counts against
 * --max_restart, and ends the job when no restart is left. */
static void end_round(struct rdzv_group *g, const char *why, bool failed, int64_t now) {
    if (failed && ++g->restarts > g->rules.max_restart) {
        char text[640];
        (void)snprintf(text, sizeof(text), "%s, and %s", why,
            g->rules.max_restart > 0 ? "no restart is left" : "restarts are not allowed");
        end_job(g, CO_NORESOURCE, text);
        return;
    }
    g->round++;
    g->phase = RDZV_GROUP_GATHERING;
    g->quiet_since = now;
    g->notices++;
    (void)snprintf(g->why, sizeof(g->why), "%s", why);
    for (size_t i = 0; i < g->n; i++) {
        set_part(g, g->nodes[i], g->nodes[i]->id ? RDZV_PART_AWAY : RDZV_PART_READY);
        g->nodes[i]->late = false;
    }
    g->n_roster = 0;
}

static void remove_node(struct rdzv_group *g, struct rdzv_group_node *n) {
    (void)co_map_remove(&g->by_name, n->name);
    g->nodes[n->index] = g->nodes[--g->n];
    g->nodes[n->index]->index = n->index;
    if (in_round(n)) {
        g->roster[n->place] = NULL;
        g->working -= n->part == RDZV_PART_WORKING;
    }
    g->notices++;
    g->version++;
    node_free(n);
}

/* Removes a node that is lost or has failed.  why: "its launcher is gone". */
static void lose_node(
    struct rdzv_group *g, struct rdzv_group_node *n, const char *why, bool failed, int64_t now) {
    char text[640];
    size_t len;
    rdzv_group_who(n, text, sizeof(text));
    len = strlen(text);
    (void)snprintf(text + len, sizeof(text) - len, " %s", why);
    bool matters = n->part == RDZV_PART_WORKING && g->phase == RDZV_GROUP_RUNNING;
    remove_node(g, n);
    g->quiet_since = now;
    if (!matters) {
        return;
    }
    if (g->rules.level < 0 || g->any_done) {
        end_job(g, CO_PEERLOST, text);
    } else {
        end_round(g, text, failed, now);
    }
}

/* ---- a round begins ---- */

static struct rdzv_assign_rule deal_rule(const struct rdzv_group *g) {
    return (struct rdzv_assign_rule){.sort_ip = g->rules.sort_ip, .holes = is_elastic(g)};
}

static struct rdzv_assign_node *as_deal(const struct rdzv_group *g) {
    struct rdzv_assign_node *nodes = co_xcalloc(g->n ? g->n : 1, sizeof(*nodes));
    for (size_t i = 0; i < g->n; i++) {
        nodes[i] =
            (struct rdzv_assign_node){g->nodes[i]->name, g->nodes[i]->rank, g->nodes[i]->value};
    }
    return nodes;
}

static void begin_round(struct rdzv_group *g) {
    CO_AUTOFREE struct rdzv_assign_node *nodes = as_deal(g);
    CO_AUTOFREE size_t *order = co_xcalloc(g->n, sizeof(*order));
    struct rdzv_assign_rule rule = deal_rule(g);
    struct co_err err = {0};
    if (rdzv_assign(nodes, g->n, &rule, order, &err)) {
        end_job(g, err.code, err.msg);
        return;
    }
    g->roster = co_xrealloc(g->roster, g->n, sizeof(struct rdzv_group_node *));
    g->n_roster = g->n;
    for (size_t i = 0; i < g->n; i++) {
        struct rdzv_group_node *n = g->nodes[order[i]];
        g->roster[i] = n;
        n->place = i;
        set_part(g, n, RDZV_PART_WORKING);
        n->late_seen = g->late_version;
    }
    g->any_done = false;
    g->phase = RDZV_GROUP_RUNNING;
    g->notices++;
}

/* When the gathering round may begin: in the past (at once), in the future (an elastic job waits
 * for more nodes), or INT64_MAX (nodes are missing). */
static int64_t may_begin(const struct rdzv_group *g) {
    if (g->phase != RDZV_GROUP_GATHERING || g->n < (size_t)g->rules.min) {
        return INT64_MAX;
    }
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->part != RDZV_PART_READY || g->nodes[i]->broken) {
            return INT64_MAX;
        }
    }
    return g->n == (size_t)g->rules.max ? INT64_MIN : g->quiet_since + g->rules.elastic_ms;
}

int64_t rdzv_group_tick(struct rdzv_group *g, int64_t read_to, int64_t now) {
    for (size_t i = 0; i < g->n;) {
        struct rdzv_group_node *n = g->nodes[i];
        if (n->deadline > read_to) {
            i++;
            continue;
        }
        char text[64];
        (void)snprintf(
            text, sizeof(text), "has been silent for %.1f s", (double)g->rules.silent_ms / 1000);
        lose_node(g, n, n->broken ? "is gone: its launcher ended without a word" : text, true, now);
    }
    int64_t next = may_begin(g);
    if (next <= now) {
        begin_round(g);
        next = INT64_MAX;
    }
    int64_t late = rdzv_group_judge(g, read_to);
    next = late < next ? late : next;
    for (size_t i = 0; i < g->n; i++) {
        next = g->nodes[i]->deadline < next ? g->nodes[i]->deadline : next;
    }
    return next;
}

/* ---- requests of nodes ---- */

/* The node that a new one replaces: it has the same name or rank, and its connection broke. */
static struct rdzv_group_node *find_replaced(
    const struct rdzv_group *g, const struct rdzv_group_hello *h) {
    struct rdzv_group_node *n = rdzv_group_find(g, h->name);
    for (size_t i = 0; i < g->n && !n && h->rank >= 0; i++) {
        n = g->nodes[i]->rank == h->rank && g->nodes[i]->broken ? g->nodes[i] : NULL;
    }
    return n && n->broken ? n : NULL;
}

static int refuse_too_many(
    const struct rdzv_group *g, const struct rdzv_group_hello *h, struct co_err *err) {
    char names[256] = "";
    for (size_t i = 0; i < g->n && i < RDZV_GROUP_LISTED; i++) {
        co_word_list_add(names, sizeof(names), "%.24s", g->nodes[i]->name);
    }
    return co_err_set(err, CO_NORESOURCE,
        "node %s is one too many: the job has its %zu node%s (%s%s)", h->name, g->n,
        g->n == 1 ? "" : "s", names, g->n > RDZV_GROUP_LISTED ? ", ..." : "");
}

static int may_join(
    const struct rdzv_group *g, const struct rdzv_group_hello *h, struct co_err *err) {
    if (h->id && (h->min != g->rules.min || h->max != g->rules.max)) {
        return co_err_set(err, CO_INVALID,
            "node %s was started with --nnodes %d:%d, the job with %d:%d", h->name, h->min, h->max,
            g->rules.min, g->rules.max);
    }
    struct rdzv_group_node *same = rdzv_group_find(g, h->name);
    if (same) {
        char text[320];
        rdzv_group_who(same, text, sizeof(text));
        return co_err_set(err, CO_EXISTS, "the name %s is taken by %s", h->name, text);
    }
    CO_AUTOFREE struct rdzv_assign_node *nodes = as_deal(g);
    struct rdzv_assign_node one = {h->name, h->rank, h->value};
    struct rdzv_assign_rule rule = deal_rule(g);
    /* Before the count of nodes: "rank 1 is taken" helps more than "one node too many". */
    CO_TRY(rdzv_assign_fits(nodes, g->n, &one, (size_t)g->rules.max, &rule, err));
    if (g->n >= (size_t)g->rules.max) {
        return refuse_too_many(g, h, err);
    }
    if (g->phase == RDZV_GROUP_RUNNING && (g->rules.level < 0 || g->any_done)) {
        return co_err_set(err, CO_NORESOURCE, "node %s is late: the job runs with %zu nodes%s",
            h->name, g->n,
            g->any_done ? ", and some have done their work" : " and --elastic_level -1");
    }
    return 0;
}

static struct rdzv_group_node *add_node(struct rdzv_group *g, const struct rdzv_group_hello *h) {
    struct rdzv_group_node *n = co_xcalloc(1, sizeof(*n));
    n->name = co_xstrdup(h->name);
    n->id = h->id ? co_xstrdup(h->id) : NULL;
    n->host = h->host ? co_xstrdup(h->host) : NULL;
    n->value = co_xstrdup(h->value);
    n->rank = h->rank;
    n->index = g->n;
    n->deadline = n->late_at = INT64_MAX;
    n->patience_ms = RDZV_GROUP_PATIENCE_MS;
    g->nodes = co_xgrow(g->nodes, g->n, sizeof(struct rdzv_group_node *));
    g->nodes[g->n++] = n;
    (void)co_map_set(&g->by_name, n->name, n);
    return n;
}

static void join_round(
    struct rdzv_group *g, struct rdzv_group_node *n, const char *value, int64_t now) {
    if (n->part == RDZV_PART_READY && strcmp(n->value, value) == 0) {
        return;
    }
    free(n->value);
    n->value = co_xstrdup(value);
    set_part(g, n, RDZV_PART_READY);
    g->quiet_since = now;
    g->version++;
}

int rdzv_group_receive(struct rdzv_group *g, const struct rdzv_group_hello *h, int64_t now,
    struct rdzv_group_node **ret, struct co_err *err) {
    if (g->phase == RDZV_GROUP_OVER) {
        return co_err_set(err, g->over.code, "%s", g->over.msg);
    }
    struct rdzv_group_node *n = rdzv_group_find(g, h->name);
    bool known = n && (n->id ? h->id && strcmp(n->id, h->id) == 0 : !h->id) && n->rank == h->rank;
    if (!known) {
        struct rdzv_group_node *old = find_replaced(g, h);
        if (old) {
            lose_node(g, old, "was replaced", true, now);
        }
        CO_TRY(g->phase == RDZV_GROUP_OVER ? co_err_set(err, g->over.code, "%s", g->over.msg)
                                           : may_join(g, h, err));
        if (g->phase == RDZV_GROUP_RUNNING) {
            char text[256];
            (void)snprintf(text, sizeof(text), "node %.100s%s%.100s came", h->name,
                h->host ? " at " : "", h->host ? h->host : "");
            end_round(g, text, false, now);
            if (g->phase == RDZV_GROUP_OVER) {
                return co_err_set(err, g->over.code, "%s", g->over.msg);
            }
        }
        n = add_node(g, h);
        g->quiet_since = now;
        g->version++;
    }
    n->state = h->state;
    n->received_round = h->round;
    rdzv_group_waits(g, n);
    if (h->state == RDZV_NODE_JOINING && !in_round(n)) {
        join_round(g, n, h->value, now);
    } else if (h->state == RDZV_NODE_DONE && n->part == RDZV_PART_WORKING && h->round == g->round) {
        set_part(g, n, RDZV_PART_DONE);
        g->any_done = true;
        g->notices++;
    }
    *ret = n;
    return 0;
}

enum rdzv_group_notice rdzv_group_notice(
    const struct rdzv_group *g, const struct rdzv_group_node *n) {
    if (g->phase == RDZV_GROUP_OVER) {
        return RDZV_NOTICE_OVER;
    }
    bool running = g->phase == RDZV_GROUP_RUNNING && in_round(n);
    switch (n->state) {
    case RDZV_NODE_JOINING:
        return running ? RDZV_NOTICE_MET : RDZV_NOTICE_NONE;
    case RDZV_NODE_STOPPING:
        return RDZV_NOTICE_NONE;
    default:
        if (!running || n->received_round != g->round) {
            return RDZV_NOTICE_CHANGED;
        }
        if (n->state == RDZV_NODE_DONE && !g->working) {
            return RDZV_NOTICE_ALL_DONE;
        }
        return n->late_seen != g->late_version ? RDZV_NOTICE_LATE : RDZV_NOTICE_NONE;
    }
}

void rdzv_group_leave(
    struct rdzv_group *g, struct rdzv_group_node *n, int code, const char *why, int64_t now) {
    if (code) {
        char text[384];
        (void)snprintf(text, sizeof(text), "%s: %.300s", code < 0 ? "left" : "failed", why);
        lose_node(g, n, text, code > 0, now);
        return;
    }
    if (in_round(n) && g->phase == RDZV_GROUP_RUNNING) {
        g->any_done = true;
    }
    remove_node(g, n);
    g->quiet_since = now;
}

void rdzv_group_part(struct rdzv_group *g, const char *why) {
    end_job(g, CO_OK, why);
}

void rdzv_group_restart(struct rdzv_group *g, const struct rdzv_group_node *n, int round,
    const char *why, int64_t now) {
    if (g->phase != RDZV_GROUP_RUNNING || !in_round(n) || round != g->round) {
        return;
    }
    char text[640];
    rdzv_group_who(n, text, sizeof(text));
    size_t len = strlen(text);
    (void)snprintf(text + len, sizeof(text) - len, " starts again: %.300s", why);
    end_round(g, text, true, now);
}

/* ---- log lines ---- */

static bool rank_taken(const struct rdzv_group *g, int rank) {
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->rank == rank) {
            return true;
        }
    }
    return false;
}

void rdzv_group_describe(const struct rdzv_group *g, struct co_buf *ret) {
    bool ranks = g->n && g->nodes[0]->rank >= 0 && !is_elastic(g);
    (void)!co_buf_addf(ret, NULL, "%zu of %s%d nodes are here%s", g->n,
        is_elastic(g) ? "at least " : "", g->rules.min, ranks ? ", missing: rank" : ":");
    int listed = 0;
    for (int i = 0; ranks && i < g->rules.max && listed <= RDZV_GROUP_LISTED; i++) {
        if (!rank_taken(g, i)) {
            (void)!co_buf_addf(ret, NULL, listed++ == RDZV_GROUP_LISTED ? " ..." : " %d", i);
        }
    }
    for (size_t i = 0; !ranks && i < g->n && listed <= RDZV_GROUP_LISTED; i++) {
        const struct rdzv_group_node *n = g->nodes[i];
        (void)!co_buf_addf(ret, NULL, listed++ == RDZV_GROUP_LISTED ? " ..." : " %s%s%s%s", n->name,
            n->host ? " (" : "", n->host ? n->host : "", n->host ? ")" : "");
    }
}
