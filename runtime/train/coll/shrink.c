/* Groups made of groups: by list, by colour, and of those that are left after a failure.
 *
 * Who is left is agreed upon over the control connections: every rank tells all others whom it
 * takes for dead, adds what they tell it and whose connection ends, and tells again when that
 * changed its mind; it is done when all the others have last said what it says itself. */
#include <errno.h>
#include <string.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/monitor.h"

static bool bit(const unsigned char *bits, uint32_t i) {
    return bits[i / 8] >> (i % 8) & 1;
}

static void set_bit(unsigned char *bits, uint32_t i) {
    bits[i / 8] = (unsigned char)(bits[i / 8] | 1U << (i % 8));
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
    return rt_group_derive(
        g, ranks, n, rt_hash_more(id, ranks, n * sizeof(*ranks)), ret_group, err);
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
    return rt_group_derive(g, ranks, n, rt_hash_more(g->id, which, sizeof(which)), ret_group, err);
}

/* ---- of those that are left ---- */

struct ballot {
    unsigned char *dead; /* what this rank says, a bit a rank */
    uint32_t bytes;
    int64_t end_ms;
};

/* Adds what is known by now; under g->m.  True: that was news. */
static bool learn(struct rt_group *g, struct ballot *b, bool late) {
    bool news = false;
    for (uint32_t r = 0; r < g->size; r++) {
        struct rt_peer *p = &g->peers[r];
        bool lost = r != g->rank &&
                    (atomic_load(&p->gone) || atomic_load(&p->left) ||
                        (r == g->failed_rank && g->why.code == CO_PEERLOST) || (late && !p->said));
        if (lost && !bit(b->dead, r)) {
            set_bit(b->dead, r);
            news = true;
        }
        if (p->said && bit(p->dead, g->rank)) {
            set_bit(b->dead, g->rank); /* and it counts when its sender has left since */
        }
        for (uint32_t q = 0; p->said && !bit(b->dead, r) && q < g->size; q++) {
            if (bit(p->dead, q) && !bit(b->dead, q)) {
                set_bit(b->dead, q);
                news = true;
            }
        }
    }
    return news;
}

static bool agreed(const struct rt_group *g, const struct ballot *b) {
    for (uint32_t r = 0; r < g->size; r++) {
        const struct rt_peer *p = &g->peers[r];
        if (r != g->rank && !bit(b->dead, r) &&
            (!p->said || memcmp(p->dead, b->dead, b->bytes) != 0)) {
            return false;
        }
    }
    return true;
}

/* Until all that live say the same. */
static int vote(struct rt_group *g, struct ballot *b) {
    pthread_mutex_lock(&g->m);
    if (g->failed_rank == g->rank && g->why.code == CO_PEERLOST) {
        set_bit(b->dead, g->rank);
    }
    (void)learn(g, b, false);
    rt_monitor_tell(g, RT_WORD_DEAD, g->rank, 0, b->dead, b->bytes);
    while (!bit(b->dead, g->rank) && !agreed(g, b)) {
        bool late = false;
        struct timespec t = {.tv_sec = b->end_ms / 1000, .tv_nsec = b->end_ms % 1000 * 1000000};
        if (pthread_cond_timedwait(&g->changed, &g->m, &t) == ETIMEDOUT) {
            late = true;
            b->end_ms += g->call_ms;
        }
        if (learn(g, b, late)) {
            rt_monitor_tell(g, RT_WORD_DEAD, g->rank, 0, b->dead, b->bytes);
        }
    }
    pthread_mutex_unlock(&g->m);
    return bit(b->dead, g->rank) ? CO_PEERLOST : 0;
}

int rt_group_shrink(
    struct rt_group *g, bool *ret_gone, struct rt_group **ret_group, struct co_err *err) {
    struct ballot b = {.bytes = (g->size + 7) / 8, .end_ms = rt_now_ms() + g->call_ms};
    CO_AUTOFREE unsigned char *dead = co_xcalloc(1, b.bytes);
    CO_AUTOFREE uint32_t *ranks = co_xcalloc(g->size, sizeof(*ranks));
    uint32_t n = 0;
    b.dead = dead;
    (void)rt_group_fail(
        g, CO_GONE, g->size, true, "rank %u makes a smaller group of this one", g->rank);
    rt_queue_stop(g);
    int rc = g->size > 1 ? vote(g, &b) : 0;
    if (rc < 0) {
        return co_err_set(err, rc, "the others have given this rank, %u, up", g->rank);
    }
    for (uint32_t r = 0; r < g->size; r++) {
        if (ret_gone) {
            ret_gone[r] = bit(dead, r);
        }
        if (!bit(dead, r)) {
            ranks[n++] = r;
        }
    }
    uint64_t id = rt_hash_more(rt_hash_more(g->id, "shrink", 6), dead, b.bytes);
    return rt_group_derive(g, ranks, n, id, ret_group, err);
}
