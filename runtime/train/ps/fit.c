/* Compares the tables of a checkpoint with those of a job, and converts rows.  Any thread. */
#include "runtime/train/ps/fit.h"

#include <stdio.h>
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ps/glog.h"

void ps_table_describe(const struct ps_table *t, struct ckpt_table *ret) {
    *ret = (struct ckpt_table){
        .sparse = t->spec.kind == RT_SPARSE,
        .size = t->spec.size,
        .dim = t->spec.dim,
        .state = t->spec.kind == RT_SPARSE ? ps_table_row(t) - t->spec.dim
                                           : ps_table_state(t, t->spec.size),
        .seed = t->spec.seed,
        .zeros = t->zeros,
    };
    (void)snprintf(ret->name, sizeof(ret->name), "%s", t->name);
    (void)snprintf(ret->optimizer, sizeof(ret->optimizer), "%s", t->optimizer);
    (void)snprintf(ret->init, sizeof(ret->init), "%s", t->init);
    (void)snprintf(ret->keeps, sizeof(ret->keeps), "%s", table_evict_keeps(&t->evict));
}

struct rt_table_spec ps_table_spec_of(const struct ckpt_table *saved) {
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

bool ps_fit_same_rule(const struct ps_table *t, const struct ckpt_table *saved) {
    size_t n = rule_len(t->optimizer);
    return n == rule_len(saved->optimizer) && strncmp(t->optimizer, saved->optimizer, n) == 0;
}

int ps_fit_check(const struct ps_table *t, const struct ckpt_table *saved, struct co_err *err) {
    struct ps_table was;
    const struct rt_table_spec spec = ps_table_spec_of(saved);
    const bool sparse = t->spec.kind == RT_SPARSE;
    if (sparse != saved->sparse || t->spec.size != saved->size || t->spec.dim != saved->dim) {
        return co_err_set(err, CO_INVALID,
            "table \"%s\" is %s there, size %llu, dim %u; here it is %s, size %llu, dim %u",
            t->name, saved->sparse ? "sparse" : "dense", (unsigned long long)saved->size,
            saved->dim, sparse ? "sparse" : "dense", (unsigned long long)t->spec.size, t->spec.dim);
    }
    int rc = ps_table_make(&spec, &was, err); /* it may be of a program with other rules */
    if (rc < 0) {
        return rc;
    }
    size_t state = ps_table_state(&was, sparse ? saved->dim : saved->size);
    if (sparse ? saved->state < state : saved->state != state) {
        return co_err_set(err, CO_INVALID,
            "table \"%s\" has %llu floats of state there with optimizer \"%s\", here that has %zu",
            t->name, (unsigned long long)saved->state, saved->optimizer, state);
    }
    return 0;
}

/* Earlier versions did not say what the counts mean: theirs count if they have the right size.
 */
bool ps_fit_keeps(const struct ps_table *t, const struct ckpt_table *saved) {
    size_t words = table_evict_words(&t->evict);
    if (saved->keeps[0]) {
        return words <= saved->state && strcmp(saved->keeps, table_evict_keeps(&t->evict)) == 0;
    }
    return ps_fit_same_rule(t, saved) && t->spec.dim + saved->state == ps_table_row(t);
}

void ps_fit_row(
    const struct ps_table *t, const struct ckpt_table *saved, const void *row, float *ret_row) {
    const unsigned char *from = row;
    size_t dim = t->spec.dim, state = ps_table_state(t, dim), words = table_evict_words(&t->evict);
    float *counts = ret_row + dim + state;
    if (ps_fit_same_rule(t, saved)) {
        co_copy_f32(ret_row, from, dim + state);
    } else {
        co_copy_f32(ret_row, from, dim);
        optim_state_init(&t->optim, dim, ret_row + dim);
    }
    if (ps_fit_keeps(t, saved)) {
        co_copy_f32(counts, from + (dim + saved->state - words) * sizeof(float), words);
    } else {
        memset(counts, 0, words * sizeof(float));
    }
}

void ps_fit_say(const struct ps_table *t, const struct ckpt_table *saved) {
    if (t->spec.kind == RT_SPARSE && table_evict_words(&t->evict) > 0 && !ps_fit_keeps(t, saved)) {
        ps_log_warn(
            "table \"%s\": its rows were saved with %s%s, which evict \"%s\" does not count: "
            "the counts of all rows begin at 0",
            t->name, saved->keeps[0] ? "counts of " : "other counts", saved->keeps, t->evict_text);
    }
}
