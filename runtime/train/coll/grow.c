/* A group of the ranks of a group and of new ones: formed anew from the endpoints, beside the old
 * one, which tells whether all have done so. */
#include "runtime/train/coll/coll.h"

int rt_group_grow(struct rt_group *g, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err) {
    struct rt_group_options o = *options;
    CO_CLEANUP(rt_group_closep) struct rt_group *grown = NULL;
    o.name = o.name ? o.name : g->name;
    o.token = o.token ? o.token : g->token;
    o.lanes = o.lanes ? o.lanes : g->lanes;
    o.call_timeout_ms = o.call_timeout_ms > 0 ? o.call_timeout_ms : g->call_ms;
    o.form_timeout_ms = o.form_timeout_ms > 0 ? o.form_timeout_ms : g->form_ms;
    int rc = rt_group_open_from(g, NULL, &o, &grown, err);
    int32_t own = rc, worst = 0;
    /* Some know at once that it does not work, others when the time is over. */
    int64_t usual = g->call_ms;
    g->call_ms += o.form_timeout_ms;
    int agreed = rt_all_reduce(g, &own, &worst, 1, RT_I32, RT_MIN, rc < 0 ? NULL : err);
    g->call_ms = usual;
    if (rc < 0 || agreed < 0) {
        return rc < 0 ? rc : agreed;
    }
    if (worst < 0) {
        return co_err_set(err, worst, "another rank could not form the larger group");
    }
    *ret_group = co_steal_ptr(grown);
    return 0;
}
