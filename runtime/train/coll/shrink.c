/* Groups made of groups: by list, by colour, and of those that are left after a failure.
 *
 * Who is left is agreed upon over the control connections, in rounds.  In a round every rank tells
 * all others whom it takes for dead, adds what they tell it and whose connection ends, and tells
 * again when that changed its mind.  When all the others have last said what it says itself, that
 * is agreed; it tells so, and whoever hears it believes it, whatever it knows by then: what one
 * has agreed to, all that live do.  Then they form the group, and find out in the next round
 * whether somebody has died meanwhile or could not form it: if so, they do it again. */
#include <errno.h>
#include <string.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/monitor.h"

static bool bit(const unsigned char *bits, uint32_t i) {
    return bits[i / 8] >> (i % 8) & 1;
}

static void set_bit(unsigned char *bits, uint32_t i, bool on) {
    bits[i / 8] = (unsigned char)((bits[i / 8] & ~(1U << (i % 8))) | (unsigned)on << (i % 8));
}

/* ---- by list, by colour ---- */

int rt_group_sub(struct rt_group *g, const uint32_t *ranks, uint32_t n, uint64_t tag,
    struct rt_group **ret_group, struct co_err *err) {
    bool member = false, ascending = n > 0;
    for (uint32_t i = 0; i < n; i++) {
        member |= ranks[i] == g->rank;
        ascending &= ranks[i] < g->size && (i == 0 || ranks[i] > ranks[i - 1]);
    }
    if (!member || !ascending) {
        return co_err_set(err, CO_INVALID,
            "the list of %u ranks must be ascending, below %u, and have rank %u in it", n, g->size,
            g->rank);
    }
    uint64_t id = rt_hash_more(rt_hash_more(g->id, "sub", 3), &tag, sizeof(tag));
    return rt_group_derive(g, ranks, n, rt_hash_more(id, ranks, n * sizeof(*ranks)),
        rt_now_ms() + g->form_ms, ret_group, err);
}

struct choice {
    int32_t colour, key;
};

/* Those of the colour, by key, then by rank. */
static uint32_t pick(const struct choice *all, uint32_t size, int32_t colour, uint32_t *ret_ranks) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < size; r++) {
        if (all[r].colour == colour) {
            uint32_t i = n++;
            for (; i > 0 && all[ret_ranks[i - 1]].key > all[r].key; i--) {
                ret_ranks[i] = ret_ranks[i - 1];
            }
            ret_ranks[i] = r;
        }
    }
    return n;
}

int rt_group_split(struct rt_group *g, int32_t colour, int32_t key, struct rt_group **ret_group,
    struct co_err *err) {
    struct choice own = {.colour = colour, .key = key};
    CO_AUTOFREE struct choice *all = co_xcalloc(g->size, sizeof(*all));
    CO_AUTOFREE uint32_t *ranks = co_xcalloc(g->size, sizeof(*ranks));
    int rc = rt_all_gather(g, &own, all, 2, RT_I32, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t which[2] = {++g->children, (uint64_t)(uint32_t)colour};
    if (colour < 0) {
        *ret_group = NULL;
        return 0;
    }
    uint32_t n = pick(all, g->size, colour, ranks);
    return rt_group_derive(g, ranks, n, rt_hash_more(g->id, which, sizeof(which)),
        rt_now_ms() + g->form_ms, ret_group, err);
}

/* ---- of those that are left ---- */

struct ballot {
    uint32_t round;
    unsigned char *dead; /* what this rank knows, a bit a rank; bit size: again, please */
    unsigned char *told; /* and what it has told of it */
    uint32_t bytes;
    int64_t call_end_ms; /* who is behind what was told then is dead */
    int64_t end_ms;      /* of all rounds */
};

static bool says_the_same(const struct rt_peer *p, const struct ballot *b) {
    return p->round == b->round && memcmp(p->dead, b->told, b->bytes) == 0;
}

/* Has said nothing yet, or without what this rank had told; not one that is ahead of it. */
static bool is_behind(const struct rt_peer *p, const struct ballot *b) {
    bool behind = p->round != b->round;
    for (uint32_t i = 0; i < b->bytes; i++) {
        behind |= (b->told[i] & ~p->dead[i]) != 0;
    }
    return behind;
}

static void tell(struct rt_group *g, struct ballot *b) {
    memcpy(b->told, b->dead, b->bytes);
    b->call_end_ms = rt_now_ms() + g->call_ms;
    rt_monitor_tell(g, RT_WORD_DEAD, b->round, 0, b->told, b->bytes);
}

/* Adds what is known by now; under g->m.  True: that was news. */
static bool learn(struct rt_group *g, struct ballot *b, bool late) {
    bool news = false;
    for (uint32_t r = 0; r < g->size; r++) {
        struct rt_peer *p = &g->peers[r];
        bool lost = r != g->rank && (atomic_load(&p->gone) || atomic_load(&p->left) ||
                                        (r == g->failed_rank && g->why.code == CO_PEERLOST) ||
                                        (late && is_behind(p, b)));
        if (lost && !bit(b->dead, r)) {
            set_bit(b->dead, r, true);
            news = true;
        }
        if (p->round > 0 && bit(p->dead, g->rank)) {
            set_bit(b->dead, g->rank, true); /* and it counts when its sender has left since */
        }
        uint32_t n = p->round == 0 || bit(b->dead, r) ? 0 : g->size + (p->round == b->round);
        for (uint32_t q = 0; q < n; q++) {
            if (bit(p->dead, q) && !bit(b->dead, q)) {
                set_bit(b->dead, q, true);
                news = true;
            }
        }
    }
    return news;
}

static bool agreed(const struct rt_group *g, const struct ballot *b) {
    bool all = true;
    for (uint32_t r = 0; r < g->size; r++) {
        all &= r == g->rank || bit(b->dead, r) || says_the_same(&g->peers[r], b);
    }
    return all;
}

/* Until something has changed or the time has come; true: it has. */
static bool wait_change(struct rt_group *g, int64_t end_ms) {
    struct timespec t = {.tv_sec = end_ms / 1000, .tv_nsec = end_ms % 1000 * 1000000};
    return pthread_cond_timedwait(&g->changed, &g->m, &t) == ETIMEDOUT;
}

static int vote_locked(struct rt_group *g, struct ballot *b) {
    if (g->failed_rank == g->rank && g->why.code == CO_PEERLOST) {
        set_bit(b->dead, g->rank, true);
    }
    g->votes = b->told;
    (void)learn(g, b, false);
    tell(g, b);
    while (g->agreed_round < b->round && !bit(b->dead, g->rank) && !agreed(g, b)) {
        bool late = wait_change(g, b->call_end_ms < b->end_ms ? b->call_end_ms : b->end_ms);
        if (rt_now_ms() >= b->end_ms) {
            return CO_TIMEOUT;
        }
        if (learn(g, b, late)) {
            tell(g, b);
        }
    }
    if (g->agreed_round == b->round) {
        memcpy(b->dead, g->agreed, b->bytes);
    }
    if (g->agreed_round > b->round || bit(b->dead, g->rank)) {
        return CO_PEERLOST;
    }
    rt_monitor_tell(g, RT_WORD_AGREED, b->round, 0, b->dead, b->bytes);
    return 0;
}

/* A round: until all that live say the same. */
static int vote(struct rt_group *g, struct ballot *b, struct co_err *err) {
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
    return rc < 0 ? co_err_set(err, rc, "the ranks that are left have not agreed who that is") : 0;
}

/* The group of those that are not dead. */
static int form_rest(
    struct rt_group *g, const struct ballot *b, struct rt_group **ret, struct co_err *err) {
    CO_AUTOFREE uint32_t *ranks = co_xcalloc(g->size, sizeof(*ranks));
    uint32_t n = 0;
    for (uint32_t r = 0; r < g->size; r++) {
        if (!bit(b->dead, r)) {
            ranks[n++] = r;
        }
    }
    int64_t end = rt_now_ms() + g->call_ms / 2; /* the others vote and wait for this rank */
    uint64_t id = rt_hash_more(rt_hash_more(g->id, "shrink", 6), b->dead, b->bytes);
    id = rt_hash_more(id, &b->round, sizeof(b->round));
    return rt_group_derive(g, ranks, n, id, end < b->end_ms ? end : b->end_ms, ret, err);
}

/* Votes and forms until all have formed the same. */
static int shrink(
    struct rt_group *g, struct ballot *b, struct rt_group **ret_group, struct co_err *err) {
    CO_AUTOFREE unsigned char *before = co_xcalloc(1, b->bytes);
    CO_CLEANUP(rt_group_closep) struct rt_group *left = NULL;
    int rc = vote(g, b, err);
    while (rc == 0) {
        memcpy(before, b->dead, b->bytes);
        set_bit(before, g->size, false);
        rt_group_closep(&left);
        int formed = form_rest(g, b, &left, err);
        if (formed < 0 && formed != CO_PEERLOST && formed != CO_TIMEOUT) {
            return formed;
        }
        set_bit(b->dead, g->size, formed < 0);
        rc = vote(g, b, err);
        if (rc == 0 && memcmp(before, b->dead, b->bytes) == 0) {
            *ret_group = co_steal_ptr(left);
            return 0;
        }
    }
    return rc;
}

int rt_group_shrink(
    struct rt_group *g, bool *ret_gone, struct rt_group **ret_group, struct co_err *err) {
    struct ballot b = {.bytes = g->size / 8 + 1, .end_ms = rt_now_ms() + 3 * g->call_ms};
    CO_AUTOFREE unsigned char *dead = co_xcalloc(1, b.bytes), *told = co_xcalloc(1, b.bytes);
    b.dead = dead;
    b.told = told;
    (void)rt_group_fail(
        g, CO_GONE, g->size, true, "rank %u makes a smaller group of this one", g->rank);
    rt_queue_stop(g);
    int rc = shrink(g, &b, ret_group, err);
    pthread_mutex_lock(&g->m);
    g->votes = NULL;
    pthread_mutex_unlock(&g->m);
    for (uint32_t r = 0; rc == 0 && ret_gone && r < g->size; r++) {
        ret_gone[r] = bit(dead, r);
    }
    return rc;
}
