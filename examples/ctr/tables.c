/* Makes the specs of the model's tables from the program's options. */
#include "examples/ctr/tables.h"

#include <string.h>

#include "examples/ctr/net.h"
#include "runtime/train/optim/optim.h"

#define DENSE_OPTIMIZER "adagrad:lr=0.005,initial=1e-4"
#define EMBEDDING_OPTIMIZER "adagrad:lr=0.05,initial=1e-4"

/* Takes the first text that is not empty and writes its full form; a positive lr replaces its
 * rate. */
static int optimizer_resolve(
    const char *const texts[3], double lr, char *ret_text, size_t size, struct co_err *err) {
    struct optim o;
    size_t i = 0;

    while (texts[i][0] == '\0') {
        i++;
    }
    CO_TRY(optim_parse(texts[i], &o, err));
    if (lr > 0.0) {
        CO_TRY(optim_set(&o, "lr", lr, err));
    }
    return optim_format(&o, ret_text, size, err);
}

int ctr_tables_init(const struct ctr_options *o, struct ctr_tables *ret_t, struct co_err *err) {
    const char *const dense[3] = {o->optimizer, DENSE_OPTIMIZER, ""};
    const char *const embedding[3] = {o->embedding_optimizer, o->optimizer, EMBEDDING_OPTIMIZER};
    const char *rows = strcmp(o->wire, "int8") == 0 ? NULL : o->wire; /* int8 is for dense tables */
    struct ctr_layout layout;

    CO_TRY(ctr_layout_make(o->net, &layout, err));
    CO_TRY(optimizer_resolve(
        dense, o->lr, ret_t->dense_optimizer, sizeof(ret_t->dense_optimizer), err));
    CO_TRY(optimizer_resolve(embedding, o->embedding_optimizer[0] != '\0' ? 0.0 : o->lr,
        ret_t->embedding_optimizer, sizeof(ret_t->embedding_optimizer), err));
    ret_t->specs[CTR_TABLE_DENSE] = (struct rt_table_spec){.name = "dense",
        .kind = RT_DENSE,
        .size = layout.total,
        .optimizer = ret_t->dense_optimizer,
        .wire = o->wire};
    ret_t->specs[CTR_TABLE_EMBEDDING] = (struct rt_table_spec){.name = "embedding",
        .kind = RT_SPARSE,
        .dim = (uint32_t)o->net->config.embed,
        .optimizer = ret_t->embedding_optimizer,
        .init = o->net->row_init,
        .seed = (uint64_t)o->seed,
        .wire = rows};
    return 0;
}
