/* Where the job begins, by the welcomes of all servers. */
#include "runtime/train/ps/client/greet.h"

/* A summary of all servers' welcomes.
 *
 *     fresh: no trainer has begun there   dirty: tables have changed since the server started
 *     some fresh, none dirty              the job begins, from the same checkpoint or from none
 *     some fresh, others dirty            the fresh servers restarted while the job ran
 *     eras differ                         a trainer sent some servers back to a checkpoint, and
 *                                         was lost before it reached the rest
 *
 * Welcomes arrive at different times.  A server that said fresh may not be fresh any more: another
 * trainer may have begun since, and made dirty a server that answers later.  One that said dirty
 * may have gone back since (psc_muster_doubtful).
 *
 * Whoever sends a server back has all go back, to the step of the checkpoint.  Steps after it need
 * all servers in the era; so, where one is in an older era, there must be none. */
struct muster {
    struct psc_welcome fresh;  /* of the fresh server with the oldest checkpoint */
    uint32_t fresh_server;     /* PSC_NONE: none is fresh */
    struct psc_welcome newest; /* of the server with the highest era */
    bool dirty;                /* a server that is not fresh is dirty */
    bool unlike;               /* the fresh servers' checkpoints differ */
    uint64_t welcomed;         /* when the last welcome came */
};

/* A replaced server also counts as fresh while its era is not newer than the one in which this
 * trainer used the server before it: trainers that have begun there cannot have received anything
 * from the other servers.  An era that this trainer has chosen since, and begun at some servers,
 * says nothing of that: another one may have chosen the same, and have begun at all. */
static bool is_fresh(const struct rt_client *c, const struct psc_welcome *w) {
    return w->fresh || (w->replaced && w->era <= c->progress.lived);
}

static struct muster look_around(struct rt_client *c) {
    struct muster m = {.newest = psc_link_welcomed(c, 0), .fresh_server = PSC_NONE};
    for (uint32_t i = 0; i < c->n_servers; i++) {
        const struct psc_welcome w = psc_link_welcomed(c, i);
        m.newest = w.era > m.newest.era ? w : m.newest;
        bool fresh = is_fresh(c, &w), some = m.fresh_server != PSC_NONE;
        m.dirty = m.dirty || (!fresh && w.dirty);
        m.welcomed = w.welcomed > m.welcomed ? w.welcomed : m.welcomed;
        m.unlike = m.unlike || (fresh && some && w.restored != m.fresh.restored);
        if (fresh && (!some || w.restored < m.fresh.restored)) {
            m.fresh = w;
            m.fresh_server = i;
        }
    }
    return m;
}

/* Steps were made in the newest era, and a server that was not restarted never learned of it. */
static bool is_left_behind(struct rt_client *c, const struct psc_welcome *newest) {
    bool behind = false;
    for (uint32_t i = 0; i < c->n_servers; i++) {
        const struct psc_welcome w = psc_link_welcomed(c, i);
        bool goes = w.dirty || w.restored != newest->restored;
        behind = behind || (!is_fresh(c, &w) && goes && w.era < newest->era);
    }
    return behind && newest->step != newest->restored_step;
}

int psc_muster_choose(struct rt_client *c, struct co_err *err) {
    struct muster m = look_around(c);
    bool some = m.fresh_server != PSC_NONE;
    bool sync = c->options.mode == RT_SYNC, emptied = some && m.dirty;
    bool back = (emptied && sync) || m.unlike || (sync && is_left_behind(c, &m.newest));
    if (some && (emptied || back) && m.fresh.restored == 0) {
        return co_err_set(err, CO_INVALID,
            "server %u (%s) was restarted and has none of its tables; the others have theirs",
            m.fresh_server, psc_link_endpoint(c, m.fresh_server));
    }
    const struct psc_welcome *at = back && some ? &m.fresh : &m.newest;
    struct psc_progress *p = &c->progress;
    p->era = m.newest.era + back;
    p->restored = sync || back ? at->restored : 0;
    p->origin = at->origin;
    /* With backup, others may have made steps since on a server that was replaced. */
    p->steps = back ? at->restored_step : at->step;
    p->barriers_done = 0; /* the most that any server knows: server 0 may have restarted */
    for (uint32_t i = 0; i < c->n_servers; i++) {
        const struct psc_welcome w = psc_link_welcomed(c, i);
        bool ahead = !back && w.era == p->era && w.step < p->steps;
        p->steps = ahead ? w.step : p->steps;
        p->barriers_done = w.barriers > p->barriers_done ? w.barriers : p->barriers_done;
    }
    return 0;
}

/* Some seem to be restarted while the job ran.  Lists servers whose welcome may be out of date:
 * hello went out to them before the last of all welcomes came. */
uint32_t psc_muster_doubtful(struct rt_client *c, uint32_t *ret_which) {
    struct muster m = look_around(c);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_servers; i++) {
        const struct psc_welcome w = psc_link_welcomed(c, i);
        bool doubtful = m.dirty && m.fresh_server != PSC_NONE && w.asked < m.welcomed;
        if (doubtful && psc_link_ask_again(c, i)) {
            ret_which[n++] = i;
        }
    }
    return n;
}
