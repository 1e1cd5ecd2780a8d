/* Makes a larger group out of a group and new ranks.  The larger group forms from its endpoints
 * while the old one still exists.  An all_reduce in the old one shows each rank whether all have
 * succeeded, and then they vote: a rank that dies in the all_reduce leaves some that have its
 * result and some that have not, and of all that live either none or all must use the larger group.
 */
#include "runtime/train/coll/vote.h"

/* Agrees with all that live.  *ret_all: nobody has died, and all have formed the larger group. */
static int decide(struct rt_group *g, bool formed, bool *ret_all, struct co_err *err) {
    struct coll_ballot b = {.round = (uint32_t)g->children++,
        .bytes = g->size / 8 + 1,
        .end_ms = co_now_ms() + 3 * g->call_ms};
    CO_AUTOFREE unsigned char *dead = co_xcalloc(1, b.bytes), *sent = co_xcalloc(1, b.bytes);
    b.dead = dead;
    b.sent = sent;
    coll_vote_set(b.dead, g->size, !formed);
    CO_TRY(coll_group_enter(g, "grow", err));
    int rc = coll_vote(g, &b, err);
    pthread_mutex_lock(&g->m);
    g->votes = NULL;
    pthread_mutex_unlock(&g->m);
    coll_group_leave(g);
    CO_TRY(rc);
    for (uint32_t r = 0; r < g->size; r++) {
        if (coll_vote_has(dead, r)) {
            (void)coll_group_fail(
                g, CO_PEERLOST, r, true, "rank %u is lost, as the others have agreed", r);
            return coll_group_why(g, err);
        }
    }
    *ret_all = !coll_vote_has(dead, g->size);
    return 0;
}

int rt_group_grow(struct rt_group *g, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err) {
    struct rt_group_options o = *options;
    CO_CLEANUP(rt_group_closep) struct rt_group *grown = NULL;
    o.name = o.name ? o.name : g->name;
    o.token = o.token ? o.token : g->token;
    o.lanes = o.lanes ? o.lanes : g->lanes;
    if (o.encrypt == RT_ENCRYPT_UNSET) {
        o.encrypt = g->encrypt ? RT_ENCRYPT_YES : RT_ENCRYPT_NO;
    }
    o.call_timeout_ms = o.call_timeout_ms > 0 ? o.call_timeout_ms : g->call_ms;
    o.form_timeout_ms = o.form_timeout_ms > 0 ? o.form_timeout_ms : g->form_ms;
    CO_TRY(coll_group_enter(g, "grow", err));
    int rc = coll_group_open_from(g, NULL, &o, &grown, err);
    coll_group_leave(g);
    struct co_err *later = rc < 0 ? NULL : err;
    int32_t own = rc, worst = 0;
    bool all = false;
    /* Some ranks fail at once, others only after the time limit for forming: wait for those. */
    int64_t usual = g->call_ms;
    g->call_ms += o.form_timeout_ms;
    int decided = rt_all_reduce(g, &own, &worst, 1, RT_I32, RT_MIN, later);
    if (decided == 0 || decided == CO_PEERLOST || decided == CO_TIMEOUT) {
        decided = decide(g, decided == 0 && worst == 0, &all, later);
    }
    g->call_ms = usual;
    CO_TRY(rc);
    CO_TRY(decided);
    if (!all) {
        CO_TRY(rt_group_check(g, err));
        return co_err_set(err, worst < 0 ? worst : CO_UNAVAILABLE,
            "another rank could not form the larger group");
    }
    *ret_group = co_steal_ptr(grown);
    return 0;
}
