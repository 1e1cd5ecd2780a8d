/* Finds the nodes of a group that are late with their next request, and writes the log lines about
 * them.  Part of group.h. */
#include "runtime/launch/rendezvous/group.h"

enum {
    BEATS = 4,             /* requests of a node, at least, in the time after which it is lost */
    BEATS_A_SECOND = 4000, /* requests of all nodes together, at most, for the master's sake */
    RETRY_MS = 20,
    RETRY_SLOW_MS = 500,
};

int64_t rdzv_group_beat_ms(size_t n, int64_t silent_ms) {
    int64_t fair = (int64_t)n * 1000 / BEATS_A_SECOND;
    int64_t beat = fair < RDZV_GROUP_BEAT_MS ? RDZV_GROUP_BEAT_MS : fair;
    return beat < silent_ms / BEATS ? beat : silent_ms / BEATS;
}

void rdzv_group_waits(struct rdzv_group *g, struct rdzv_group_node *n) {
    n->broken = false;
    n->deadline = n->late_at = INT64_MAX;
    if (n->late) {
        n->late = false;
        n->patience_ms *= 2; /* a false alarm: a machine that is so busy will be late again */
        g->late_version++;
        g->notices++;
    }
}

int64_t rdzv_group_retry_ms(int max_nodes) {
    int64_t fair = (int64_t)max_nodes * 1000 / BEATS_A_SECOND;
    return fair > RETRY_SLOW_MS ? RETRY_SLOW_MS : fair < RETRY_MS ? RETRY_MS : fair;
}

void rdzv_group_broke(const struct rdzv_group *g, struct rdzv_group_node *n, int64_t now) {
    n->broken = true;
    n->deadline = now + RDZV_GROUP_RECONNECT_MS + rdzv_group_retry_ms(g->rules.max);
    n->late_at = INT64_MAX;
}

void rdzv_group_notified(const struct rdzv_group *g, struct rdzv_group_node *n, int64_t now) {
    n->deadline = now + g->rules.silent_ms;
    n->late_at = now + n->patience_ms;
    n->late_seen = g->late_version;
}

static void excuse(int64_t *at, int64_t ms) {
    *at += *at < INT64_MAX ? ms : 0;
}

void rdzv_group_excuse(struct rdzv_group *g, int64_t ms) {
    for (size_t i = 0; i < g->n; i++) {
        excuse(&g->nodes[i]->deadline, ms);
        excuse(&g->nodes[i]->late_at, ms);
    }
    g->quiet_since += ms;
}

static bool is_watched(const struct rdzv_group *g, const struct rdzv_group_node *n) {
    return g->phase == RDZV_GROUP_RUNNING && n->part == RDZV_PART_WORKING && !n->late;
}

int64_t rdzv_group_judge(struct rdzv_group *g, int64_t read_to) {
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < g->n; i++) {
        struct rdzv_group_node *n = g->nodes[i];
        if (!is_watched(g, n)) {
            continue;
        }
        if (n->late_at <= read_to) {
            n->late = true;
            g->late_version++;
            g->notices++;
        } else {
            next = n->late_at < next ? n->late_at : next;
        }
    }
    return next;
}

void rdzv_group_late_add(struct co_buf *line, size_t n, const char *who) {
    if (n < RDZV_GROUP_LISTED) {
        (void)!co_buf_addf(line, NULL, "%s%s", n ? ", " : "silent for a second: ", who);
    }
}

void rdzv_group_late_end(struct co_buf *line, size_t n, int64_t silent_ms) {
    if (n) {
        (void)!co_buf_addf(line, NULL, "%s; lost after %.3g s",
            n > RDZV_GROUP_LISTED ? ", ..." : "", (double)silent_ms / 1000);
    } else {
        (void)!co_buf_adds(line, "all nodes answer again", NULL);
    }
}

size_t rdzv_group_describe_late(const struct rdzv_group *g, struct co_buf *ret) {
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->late) {
            char who[300];
            rdzv_group_who(g->nodes[i], who, sizeof(who));
            rdzv_group_late_add(ret, n++, who);
        }
    }
    rdzv_group_late_end(ret, n, g->rules.silent_ms);
    return n;
}
