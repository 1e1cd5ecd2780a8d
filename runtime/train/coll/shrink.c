/* Groups made of groups: by colour, and of the ranks that survive a failure.
 *
 * The survivors agree in rounds who is dead (vote.h), then form the group of those that are left.
 * The next round shows whether all could: each rank votes with an extra bit, "again", if it failed.
 * If the set has grown or the bit is set, they form the group once more. */
#include <string.h>

#include "runtime/train/coll/vote.h"

/* ---- by colour ---- */

struct choice {
    int32_t colour, key;
};

/* Lists the ranks of a colour, ordered by key, then by rank. */
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
    struct rt_coll choices = {.kind = RT_ALL_GATHER,
        .op = (enum rt_op)COLL_USE_SPLIT,
        .in = &own,
        .out = all,
        .n = 2,
        .dtype = RT_I32};
    CO_TRY(coll_call_run(g, &choices, err));
    uint64_t which[2] = {++g->children, (uint64_t)(uint32_t)colour};
    if (colour < 0) {
        *ret_group = NULL;
        return 0;
    }
    uint32_t n = pick(all, g->size, colour, ranks);
    int rc = coll_group_enter(g, "split", err);
    if (rc == 0) {
        rc = coll_group_derive(g, ranks, n, coll_hash_more(g->id, which, sizeof(which)),
            co_now_ms() + g->form_ms, ret_group, err);
        coll_group_leave(g);
    }
    return rc;
}

/* ---- of the survivors ---- */

/* Forms the group of the ranks that are not dead. */
static int form_rest(
    struct rt_group *g, const struct coll_ballot *b, struct rt_group **ret, struct co_err *err) {
    CO_AUTOFREE uint32_t *ranks = co_xcalloc(g->size, sizeof(*ranks));
    uint32_t n = 0;
    for (uint32_t r = 0; r < g->size; r++) {
        if (!coll_vote_has(b->dead, r)) {
            ranks[n++] = r;
        }
    }
    int64_t end = co_now_ms() + g->call_ms / 2; /* the others vote and wait for this rank */
    uint64_t id = coll_hash_more(coll_hash_more(g->id, "shrink", 6), b->dead, b->bytes);
    id = coll_hash_more(id, &b->round, sizeof(b->round));
    return coll_group_derive(g, ranks, n, id, end < b->end_ms ? end : b->end_ms, ret, err);
}

/* Votes and forms until all survivors have formed the same group. */
static int shrink(
    struct rt_group *g, struct coll_ballot *b, struct rt_group **ret_group, struct co_err *err) {
    CO_AUTOFREE unsigned char *before = co_xcalloc(1, b->bytes);
    CO_CLEANUP(rt_group_closep) struct rt_group *left = NULL;
    int rc = coll_vote(g, b, err);
    while (rc == 0) {
        memcpy(before, b->dead, b->bytes);
        coll_vote_set(before, g->size, false);
        rt_group_closep(&left);
        int formed = form_rest(g, b, &left, err);
        if (formed < 0 && formed != CO_PEERLOST && formed != CO_TIMEOUT) {
            return formed;
        }
        coll_vote_set(b->dead, g->size, formed < 0);
        rc = coll_vote(g, b, err);
        if (rc == 0 && memcmp(before, b->dead, b->bytes) == 0) {
            *ret_group = co_steal_ptr(left);
            return 0;
        }
    }
    return rc;
}

int rt_group_shrink(
    struct rt_group *g, bool *ret_gone, struct rt_group **ret_group, struct co_err *err) {
    struct coll_ballot b = {.round = COLL_ROUND_SHRINK,
        .bytes = g->size / 8 + 1,
        .end_ms = co_now_ms() + 3 * g->call_ms};
    CO_AUTOFREE unsigned char *dead = co_xcalloc(1, b.bytes), *sent = co_xcalloc(1, b.bytes);
    b.dead = dead;
    b.sent = sent;
    CO_TRY(coll_group_enter(g, "shrink", err));
    (void)coll_group_fail(
        g, CO_GONE, g->size, true, "rank %u makes a smaller group of this one", g->rank);
    pthread_mutex_lock(&g->m);
    g->shrinks = true;
    pthread_mutex_unlock(&g->m);
    coll_queue_stop(g);
    int rc = shrink(g, &b, ret_group, err);
    pthread_mutex_lock(&g->m);
    g->votes = NULL;
    pthread_mutex_unlock(&g->m);
    coll_group_leave(g);
    for (uint32_t r = 0; rc == 0 && ret_gone && r < g->size; r++) {
        ret_gone[r] = coll_vote_has(dead, r);
    }
    return rc;
}
