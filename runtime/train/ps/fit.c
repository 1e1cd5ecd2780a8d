/* Compares the tables of a checkpoint with those of a job, and converts rows.  Any thread. */
#include "runtime/train/ps/fit.h"

#include <stdio.h>
#include <string.h>

#include "runtime/train/rpc/bytes.h"

void rt_table_describe(const struct rt_table *t, struct rt_ckpt_table *ret) {
    *ret = (struct rt_ckpt_table){
        .sparse = t->spec.kind == RT_SPARSE,
        .size = t->spec.size,
        .dim = t->spec.dim,
        .state = t->spec.kind == RT_SPARSE ? rt_table_row(t) - t->spec.dim
                                           : rt_table_state(t, t->spec.size),
        .seed = t->spec.seed,
    };
    (void)snprintf(ret->name, sizeof(ret->name), "%s", t->name);
    (void)snprintf(ret->optimizer, sizeof(ret->optimizer), "%s", t->optimizer);
    (void)snprintf(ret->init, sizeof(ret->init), "%s", t->init);
}

struct rt_table_spec rt_table_spec_of(const struct rt_ckpt_table *saved) {
    return (struct rt_table_spec){
        .name = saved->name,
        .kind = saved->sparse ? RT_SPARSE : RT_DENSE,
        .size = saved->size,
        .dim = saved->dim,
        .optimizer = saved->optimizer,
        .init = saved->init,
        .seed = saved->seed,
    };
}

static size_t rule_len(const char *optimizer) {
    return strcspn(optimizer, ":");
}

bool rt_fit_same_rule(const struct rt_table *t, const struct rt_ckpt_table *saved) {
    size_t n = rule_len(t->optimizer);
    return n == rule_len(saved->optimizer) && strncmp(t->optimizer, saved->optimizer, n) == 0;
}

int rt_fit_check(const struct rt_table *t, const struct rt_ckpt_table *saved, const char *where,
    struct co_err *err) {
    struct rt_ckpt_table mine;
    rt_table_describe(t, &mine);
    if (mine.sparse != saved->sparse || mine.size != saved->size || mine.dim != saved->dim) {
        return co_err_set(err, CO_INVALID,
            "'%s': table '%s' is %s, size %llu, dim %u; expected %s, %llu, %u", where, t->name,
            saved->sparse ? "sparse" : "dense", (unsigned long long)saved->size, saved->dim,
            mine.sparse ? "sparse" : "dense", (unsigned long long)mine.size, mine.dim);
    }
    size_t state = rt_table_state(t, t->spec.kind == RT_SPARSE ? t->spec.dim : t->spec.size);
    if (rt_fit_same_rule(t, saved) &&
        (saved->sparse ? saved->state < state : saved->state != state)) {
        return co_err_set(err, CO_INVALID, "'%s': optimizer '%s' with %llu floats of state", where,
            saved->optimizer, (unsigned long long)saved->state);
    }
    return 0;
}

void rt_fit_row(
    const struct rt_table *t, const struct rt_ckpt_table *saved, const void *row, float *ret_row) {
    size_t dim = t->spec.dim, rule = dim + rt_table_state(t, dim), to = rt_table_row(t);
    size_t copied = !rt_fit_same_rule(t, saved) ? dim : dim + saved->state == to ? to : rule;
    rt_copy_f32(ret_row, row, copied);
    memset(ret_row + copied, 0, (to - copied) * sizeof(float));
    if (copied == dim && rule > dim) {
        rt_optim_state_init(&t->optim, dim, ret_row + dim);
    }
}
