#include "examples/wide_and_deep/tables.h"

#include "runtime/train/optim/optim.h"

#define DENSE_OPTIMIZER "adagrad:lr=0.005,initial=1e-4"
#define EMBEDDING_OPTIMIZER "adagrad:lr=0.05,initial=1e-4"

/* The first text that is not empty, with lr in place of its own when positive, as full text. */
static int optimizer_resolve(
    const char *const texts[3], double lr, char *ret_text, size_t size, struct co_err *err) {
    struct rt_optim o;
    size_t i = 0;

    while (texts[i][0] == '\0') {
        i++;
    }
    int rc = rt_optim_parse(texts[i], &o, err);
    if (rc == 0 && lr > 0.0) {
        rc = rt_optim_set(&o, "lr", lr, err);
    }
    return rc == 0 ? rt_optim_format(&o, ret_text, size, err) : rc;
}

int wd_tables_init(const struct wd_options *o, const struct wd_config *c, struct wd_tables *ret_t,
    struct co_err *err) {
    const char *const dense[3] = {o->optimizer, DENSE_OPTIMIZER, ""};
    const char *const embedding[3] = {o->embedding_optimizer, o->optimizer, EMBEDDING_OPTIMIZER};
    struct wd_layout layout;
    int rc = wd_layout_make(c, &layout, err);

    if (rc == 0) {
        rc = optimizer_resolve(
            dense, o->lr, ret_t->dense_optimizer, sizeof(ret_t->dense_optimizer), err);
    }
    if (rc == 0) {
        rc = optimizer_resolve(embedding, o->embedding_optimizer[0] != '\0' ? 0.0 : o->lr,
            ret_t->embedding_optimizer, sizeof(ret_t->embedding_optimizer), err);
    }
    if (rc < 0) {
        return rc;
    }
    ret_t->specs[WD_TABLE_DENSE] = (struct rt_table_spec){.name = "dense",
        .kind = RT_DENSE,
        .size = layout.total,
        .optimizer = ret_t->dense_optimizer};
    ret_t->specs[WD_TABLE_EMBEDDING] = (struct rt_table_spec){.name = "embedding",
        .kind = RT_SPARSE,
        .dim = (uint32_t)c->embed,
        .optimizer = ret_t->embedding_optimizer,
        .init = "uniform:min=-1,max=1",
        .seed = (uint64_t)o->seed};
    ret_t->specs[WD_TABLE_ENDED] = (struct rt_table_spec){
        .name = "ended", .kind = RT_DENSE, .size = 1, .optimizer = "sgd:lr=1"};
    return 0;
}
