#include "runtime/train/ps/client/model_internal.h"
#include "runtime/train/ps/fit.h"

struct psc_version *psc_version_new(uint32_t n) {
    struct psc_version *v = co_xcalloc(1, sizeof(*v));
    v->holders = 1;
    v->n = n;
    v->tables = co_xcalloc(n, sizeof(*v->tables));
    v->views = co_xcalloc(n, sizeof(*v->views));
    return v;
}

int psc_version_table(
    struct psc_version *v, uint32_t i, const struct ckpt_table *saved, struct co_err *err) {
    struct rt_table_spec spec = ps_table_spec_of(saved);
    CO_TRY(ps_table_make(&spec, &v->tables[i], err));
    v->tables[i].zeros = saved->zeros;
    return 0;
}

int psc_version_of(const struct ckpt_point *p, struct psc_version **ret, struct co_err *err) {
    CO_CLEANUP(psc_version_dropp) struct psc_version *v = psc_version_new(p->n_tables);
    for (uint32_t i = 0; i < v->n; i++) {
        CO_TRY(psc_version_table(v, i, &p->tables[i], err));
    }
    *ret = co_steal_ptr(v);
    return 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it is counted down. */
static bool last_holder(uint32_t *holders) {
    return __atomic_fetch_sub(holders, 1, __ATOMIC_ACQ_REL) == 1;
}

int psc_vector_new(uint64_t size, struct psc_vector **ret, struct co_err *err) {
    void *p = NULL;
    CO_TRY(co_try_alloc(size + 1, sizeof(float), SIZE_MAX, "values", &p, err));
    *ret = p;
    (*ret)->holders = 1;
    return 0;
}

void psc_vector_drop(struct psc_vector *v) {
    if (v && last_holder(&v->holders)) {
        free(v);
    }
}

void psc_version_drop(struct psc_version *v) {
    if (v && last_holder(&v->holders)) {
        for (uint32_t i = 0; i < v->n; i++) {
            psc_layers_done(&v->views[i].layers);
            psc_vector_drop(v->views[i].dense);
        }
        free(v->tables);
        free(v->views);
        free(v);
    }
}
