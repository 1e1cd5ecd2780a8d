/* Compares the tables of a checkpoint with those of a job, and converts rows.  Any thread. */
#include "runtime/train/ps/fit.h"

#include <stdio.h>
#include <string.h>

#include "runtime/train/ps/say.h"
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
    (void)snprintf(ret->keeps, sizeof(ret->keeps), "%s", rt_evict_keeps(&t->evict));
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

int rt_fit_check(const struct rt_table *t, const struct rt_ckpt_table *saved, struct co_err *err) {
    struct rt_table was;
    const struct rt_table_spec spec = rt_table_spec_of(saved);
    const bool sparse = t->spec.kind == RT_SPARSE;
    if (sparse != saved->sparse || t->spec.size != saved->size || t->spec.dim != saved->dim) {
        return co_err_set(err, CO_INVALID,
            "table '%s' is %s there, size %llu, dim %u; here it is %s, size %llu, dim %u", t->name,
            saved->sparse ? "sparse" : "dense", (unsigned long long)saved->size, saved->dim,
            sparse ? "sparse" : "dense", (unsigned long long)t->spec.size, t->spec.dim);
    }
    int rc = rt_table_make(&spec, &was, err); /* it may be of a program with other rules */
    if (rc < 0) {
        return rc;
    }
    size_t state = rt_table_state(&was, sparse ? saved->dim : saved->size);
    if (sparse ? saved->state < state : saved->state != state) {
        return co_err_set(err, CO_INVALID,
            "table '%s' has %llu floats of state there with optimizer '%s', here that has %zu",
            t->name, (unsigned long long)saved->state, saved->optimizer, state);
    }
    return 0;
}

/* Earlier versions did not say what the counts mean: theirs count if they have the right size.
 */
bool rt_fit_keeps(const struct rt_table *t, const struct rt_ckpt_table *saved) {
    size_t words = rt_evict_words(&t->evict);
    if (saved->keeps[0]) {
        return words <= saved->state && strcmp(saved->keeps, rt_evict_keeps(&t->evict)) == 0;
    }
    return rt_fit_same_rule(t, saved) && t->spec.dim + saved->state == rt_table_row(t);
}

void rt_fit_row(
    const struct rt_table *t, const struct rt_ckpt_table *saved, const void *row, float *ret_row) {
    const unsigned char *from = row;
    size_t dim = t->spec.dim, state = rt_table_state(t, dim), words = rt_evict_words(&t->evict);
    float *counts = ret_row + dim + state;
    if (rt_fit_same_rule(t, saved)) {
        rt_copy_f32(ret_row, from, dim + state);
    } else {
        rt_copy_f32(ret_row, from, dim);
        rt_optim_state_init(&t->optim, dim, ret_row + dim);
    }
    if (rt_fit_keeps(t, saved)) {
        rt_copy_f32(counts, from + (dim + saved->state - words) * sizeof(float), words);
    } else {
        memset(counts, 0, words * sizeof(float));
    }
}

void rt_fit_say(const struct rt_table *t, const struct rt_ckpt_table *saved) {
    if (t->spec.kind == RT_SPARSE && rt_evict_words(&t->evict) > 0 && !rt_fit_keeps(t, saved)) {
        rt_say_warn("table '%s': its rows were saved with %s%s, which evict '%s' does not count: "
                    "the counts of all rows begin at 0",
            t->name, saved->keeps[0] ? "counts of " : "other counts", saved->keeps, t->evict_text);
    }
}
