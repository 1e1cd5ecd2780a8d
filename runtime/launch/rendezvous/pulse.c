/* Finds the nodes of a group that are late with their next request ("mute"), and words the log
 * lines about them.  Part of group.h. */
#include "runtime/launch/rendezvous/group.h"

enum {
    BEATS = 4,             /* requests of a node, at least, in the time after which it is lost */
    BEATS_A_SECOND = 4000, /* requests of all nodes together, at most, for the master's sake */
};

int64_t rl_group_beat_ms(size_t n, int64_t silent_ms) {
    int64_t fair = (int64_t)n * 1000 / BEATS_A_SECOND;
    int64_t beat = fair < RL_GROUP_BEAT_MS ? RL_GROUP_BEAT_MS : fair;
    return beat < silent_ms / BEATS ? beat : silent_ms / BEATS;
}

void rl_group_waits(struct rl_group *g, struct rl_group_node *n) {
    n->broken = false;
    n->deadline = n->mute_at = INT64_MAX;
    if (n->mute) {
        n->mute = false;
        n->patience_ms *= 2; /* a false alarm: a machine that is so busy will be late again */
        g->mutes++;
        g->news++;
    }
}

void rl_group_broke(struct rl_group_node *n, int64_t now) {
    n->broken = true;
    n->deadline = now + RL_GROUP_RECONNECT_MS;
    n->mute_at = INT64_MAX;
}

void rl_group_told(const struct rl_group *g, struct rl_group_node *n, int64_t now) {
    n->deadline = now + g->rules.silent_ms;
    n->mute_at = now + n->patience_ms;
    n->mutes_seen = g->mutes;
}

static bool is_watched(const struct rl_group *g, const struct rl_group_node *n) {
    return g->phase == RL_GROUP_RUNNING && n->in_round && !n->done && !n->mute;
}

int64_t rl_group_judge(struct rl_group *g, int64_t heard) {
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < g->n; i++) {
        struct rl_group_node *n = g->nodes[i];
        if (!is_watched(g, n)) {
            continue;
        }
        if (n->mute_at <= heard) {
            n->mute = true;
            g->mutes++;
            g->news++;
        } else {
            next = n->mute_at < next ? n->mute_at : next;
        }
    }
    return next;
}

void rl_group_mute_add(struct co_buf *line, size_t n, const char *who) {
    if (n < RL_GROUP_LISTED) {
        (void)!co_buf_addf(line, NULL, "%s%s", n ? ", " : "not heard of for a second: ", who);
    }
}

void rl_group_mute_end(struct co_buf *line, size_t n, int64_t silent_ms) {
    if (n) {
        (void)!co_buf_addf(line, NULL, "%s; lost after %.3g s", n > RL_GROUP_LISTED ? ", ..." : "",
            (double)silent_ms / 1000);
    } else {
        (void)!co_buf_adds(line, "all nodes are heard of again", NULL);
    }
}

size_t rl_group_mute_story(const struct rl_group *g, struct co_buf *ret) {
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->mute) {
            char who[300];
            rl_group_who(g->nodes[i], who, sizeof(who));
            rl_group_mute_add(ret, n++, who);
        }
    }
    rl_group_mute_end(ret, n, g->rules.silent_ms);
    return n;
}
