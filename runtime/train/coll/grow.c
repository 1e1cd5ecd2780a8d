/* Makes a larger group out of a group and new ranks.  The larger group forms from its endpoints
 * while the old one still exists; an all_reduce in the old one shows each rank whether all have
 * succeeded, so that not only some of them use the larger group. */
#include "runtime/train/coll/coll.h"

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
    int32_t own = rc, worst = 0;
    /* Some ranks fail at once, others only after the time limit for forming: wait for those. */
    int64_t usual = g->call_ms;
    g->call_ms += o.form_timeout_ms;
    int agreed = rt_all_reduce(g, &own, &worst, 1, RT_I32, RT_MIN, rc < 0 ? NULL : err);
    g->call_ms = usual;
    CO_TRY(rc);
    CO_TRY(agreed);
    if (worst < 0) {
        return co_err_set(err, worst, "another rank could not form the larger group");
    }
    *ret_group = co_steal_ptr(grown);
    return 0;
}
