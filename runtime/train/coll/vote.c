/* The rounds of vote.h.  The caller's thread votes; the monitor's thread stores what the others say
 * and wakes it.  g->m guards both. */
#include "runtime/train/coll/vote.h"

#include <errno.h>
#include <string.h>

#include "common/interrupt.h"
#include "runtime/train/coll/monitor.h"

static bool says_the_same(const struct coll_peer *p, const struct coll_ballot *b) {
    return p->round == b->round && memcmp(p->dead, b->sent, b->bytes) == 0;
}

/* The rank has not voted in this round, or its vote lacks a rank of this rank's last vote.  A rank
 * that knows more is not behind. */
static bool is_behind(const struct coll_peer *p, const struct coll_ballot *b) {
    bool behind = p->round != b->round;
    for (uint32_t i = 0; i < b->bytes; i++) {
        behind |= (b->sent[i] & ~p->dead[i]) != 0;
    }
    return behind;
}

static void notify(struct rt_group *g, struct coll_ballot *b) {
    memcpy(b->sent, b->dead, b->bytes);
    b->call_end_ms = co_now_ms() + g->call_ms;
    coll_monitor_send(g, COLL_WORD_DEAD, b->round, 0, b->sent, b->bytes);
}

static bool grows(uint32_t round) {
    return round < COLL_ROUND_SHRINK;
}

/* What the rank voted last was about the same. */
static bool has_voted(const struct coll_peer *p, const struct coll_ballot *b) {
    return p->round > 0 && grows(p->round) == grows(b->round);
}

/* Adds all dead ranks that are known by now; call under g->m.  late: the ranks that are behind
 * count as dead, too.  True: the set has grown. */
static bool learn(struct rt_group *g, struct coll_ballot *b, bool late) {
    bool news = false;
    for (uint32_t r = 0; r < g->size; r++) {
        struct coll_peer *p = &g->peers[r];
        bool lost = r != g->rank && (atomic_load(&p->gone) || atomic_load(&p->left) || p->out ||
                                        (grows(b->round) && !grows(p->round)) ||
                                        (r == g->failed_rank && g->why.code == CO_PEERLOST) ||
                                        (late && is_behind(p, b)));
        if (lost && !coll_vote_has(b->dead, r)) {
            coll_vote_set(b->dead, r, true);
            news = true;
        }
        if (has_voted(p, b) && coll_vote_has(p->dead, g->rank)) {
            coll_vote_set(b->dead, g->rank, true); /* even if the voter has left since */
        }
        uint32_t n =
            !has_voted(p, b) || coll_vote_has(b->dead, r) ? 0 : g->size + (p->round == b->round);
        for (uint32_t q = 0; q < n; q++) {
            if (coll_vote_has(p->dead, q) && !coll_vote_has(b->dead, q)) {
                coll_vote_set(b->dead, q, true);
                news = true;
            }
        }
    }
    return news;
}

static bool agreed(const struct rt_group *g, const struct coll_ballot *b) {
    bool all = true;
    for (uint32_t r = 0; r < g->size; r++) {
        all &= r == g->rank || coll_vote_has(b->dead, r) || says_the_same(&g->peers[r], b);
    }
    return all;
}

static int vote_locked(struct rt_group *g, struct coll_ballot *b) {
    if (g->failed_rank == g->rank && g->why.code == CO_PEERLOST) {
        coll_vote_set(b->dead, g->rank, true);
    }
    g->votes = b->sent;
    if (g->agreed_round < b->round) {
        (void)learn(g, b, false);
        notify(g, b);
    }
    int64_t ask_ms = co_interrupt_next();
    while (g->agreed_round < b->round && !coll_vote_has(b->dead, g->rank) && !agreed(g, b)) {
        int failed = grows(b->round) ? atomic_load(&g->failed) : 0;
        if (failed < 0 && failed != CO_PEERLOST && failed != CO_TIMEOUT) {
            return failed;
        }
        int64_t end_ms = b->call_end_ms < b->end_ms ? b->call_end_ms : b->end_ms;
        if (co_interrupt_wait(&g->changed, &g->m, end_ms, &ask_ms)) {
            return CO_CANCELED;
        }
        bool late = co_now_ms() >= end_ms;
        if (co_now_ms() >= b->end_ms) {
            return CO_TIMEOUT;
        }
        if (g->agreed_round < b->round && learn(g, b, late)) {
            notify(g, b);
        }
    }
    if (g->agreed_round == b->round) {
        memcpy(b->dead, g->agreed, b->bytes);
    }
    if (g->agreed_round > b->round || coll_vote_has(b->dead, g->rank)) {
        return CO_PEERLOST;
    }
    coll_monitor_send(g, COLL_WORD_AGREED, b->round, 0, b->dead, b->bytes);
    return 0;
}

int coll_vote(struct rt_group *g, struct coll_ballot *b, struct co_err *err) {
    b->round++;
    if (g->size == 1) {
        return 0;
    }
    pthread_mutex_lock(&g->m);
    int rc = vote_locked(g, b);
    pthread_mutex_unlock(&g->m);
    if (rc == CO_PEERLOST) {
        return co_err_set(err, rc, "the others have given this rank, %u, up", g->rank);
    }
    if (rc < 0 && grows(b->round) && atomic_load(&g->failed) < 0) {
        return coll_group_why(g, err);
    }
    if (rc == CO_CANCELED) {
        return co_interrupt_error(grows(b->round) ? "grow" : "shrink", err);
    }
    return rc < 0 ? co_err_set(err, rc, "the remaining ranks have not agreed which ranks are dead")
                  : 0;
}
