#include "runtime/train/ps/client/model_internal.h"

struct psc_version *psc_version_new(uint32_t n) {
    struct psc_version *v = co_xcalloc(1, sizeof(*v));
    v->holders = 1;
    v->n = n;
    v->views = co_xcalloc(n, sizeof(*v->views));
    return v;
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
        free(v->views);
        free(v);
    }
}
