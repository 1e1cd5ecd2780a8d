#include "examples/wide_and_deep/tables.h"

#include "runtime/optim/optim.h"

int wd_tables_init(const struct wd_options *o, const struct wd_config *c, struct wd_tables *ret_t,
    struct co_err *err) {
    struct rt_optim optim;
    struct wd_layout layout;
    int rc = wd_layout_make(c, &layout, err);

    if (rc == 0) {
        rc = rt_optim_parse(o->optimizer, &optim, err);
    }
    if (rc == 0 && o->lr > 0.0) {
        rc = rt_optim_set(&optim, "lr", o->lr, err);
    }
    if (rc == 0) {
        rc = rt_optim_format(&optim, ret_t->optimizer, sizeof(ret_t->optimizer), err);
    }
    if (rc < 0) {
        return rc;
    }
    ret_t->specs[WD_TABLE_DENSE] = (struct rt_table_spec){
        .name = "dense", .kind = RT_DENSE, .size = layout.total, .optimizer = ret_t->optimizer};
    ret_t->specs[WD_TABLE_EMBEDDING] = (struct rt_table_spec){.name = "embedding",
        .kind = RT_SPARSE,
        .dim = (uint32_t)c->embed,
        .optimizer = ret_t->optimizer,
        .init = "uniform:min=-1,max=1",
        .seed = (uint64_t)o->seed};
    ret_t->specs[WD_TABLE_ENDED] = (struct rt_table_spec){
        .name = "ended", .kind = RT_DENSE, .size = 1, .optimizer = "sgd:lr=1"};
    return 0;
}
