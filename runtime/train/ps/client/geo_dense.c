/* Dense tables in geo mode: the copy is the whole vector.  geo.h has the formulas.  Runs on the
 * program's threads. */
#include <math.h>
#include <string.h>

#include "common/bytes.h"
#include "common/huge.h"
#include "runtime/train/ps/client/geo_part.h"
#include "runtime/train/ps/finite.h"

/* Merges the servers' values, server [n], into the copy.  The first ones become the copy.  g->m is
 * held. */
static void take_values(struct psc_geo_table *t, const float *server) {
    if (t->local) {
        psc_geo_merge(t->local, t->base, server, t->n);
        return;
    }
    t->local = co_huge_xalloc(t->n * sizeof(float));
    t->base = co_huge_xalloc(t->n * sizeof(float));
    memcpy(t->local, server, t->n * sizeof(float));
    memcpy(t->base, server, t->n * sizeof(float));
    if (t->n_state > 0) {
        t->state = co_huge_xalloc(t->n_state * sizeof(float));
        optim_state_init(&t->table->local_optim, t->n, t->state);
    }
}

int psc_geo_pull_dense(struct psc_geo *g, uint32_t table, float *ret_w, struct co_err *err) {
    struct psc_geo_table *t = &g->tables[table];
    if (atomic_load(&g->over)) {
        return psc_pull_values(g->c, table, ret_w, err);
    }
    CO_AUTOFREE float *server = co_xmalloc(t->n * sizeof(float));
    CO_TRY(psc_pull_values(g->c, table, server, err));
    pthread_mutex_lock(&g->m);
    take_values(t, server);
    memcpy(ret_w, t->local, t->n * sizeof(float));
    pthread_mutex_unlock(&g->m);
    return 0;
}

/* Pulls the values if there is no copy yet. */
static int need_values(struct psc_geo *g, struct psc_geo_table *t, struct co_err *err) {
    pthread_mutex_lock(&g->m);
    bool have = t->local != NULL;
    pthread_mutex_unlock(&g->m);
    if (have) {
        return 0;
    }
    CO_AUTOFREE float *w = co_xmalloc(t->n * sizeof(float));
    return psc_geo_pull_dense(g, t->index, w, err);
}

/* Whether value i is finite, and its part of the state. */
static bool is_finite(const struct psc_geo_table *t, const float *w, const float *state, size_t i) {
    const size_t planes = t->optim.rule->planes;
    bool finite = isfinite(w[i]);
    for (size_t p = 0; p < planes; p++) {
        finite = finite && isfinite(state[p * t->n + i]);
    }
    for (size_t k = planes * t->n; k < t->n_state; k++) {
        finite = finite && isfinite(state[k]);
    }
    return finite;
}

/* Moves to bad [n] what of the gradient is not finite, or would make the copy overflow. */
static bool take_bad(struct psc_geo_table *t, float *gradient, float *bad) {
    CO_AUTOFREE float *w = co_xmalloc(t->n * sizeof(float));
    CO_AUTOFREE float *state = co_xmalloc((t->n_state + 1) * sizeof(float));
    bool any = false;
    for (size_t i = 0; i < t->n; i++) {
        bad[i] = isfinite(gradient[i]) ? 0 : gradient[i];
        gradient[i] = isfinite(gradient[i]) ? gradient[i] : 0;
        any = any || bad[i] != 0;
    }
    pthread_mutex_lock(&t->g->m);
    memcpy(w, t->local, t->n * sizeof(float));
    if (t->n_state > 0) {
        memcpy(state, t->state, t->n_state * sizeof(float));
    }
    optim_apply(&t->optim, t->n, w, gradient, state);
    for (size_t i = 0; i < t->n; i++) {
        if (!ps_all_small_f32(&gradient[i], 1) && !is_finite(t, w, state, i)) {
            psc_geo_note_overflow(t, "index", i);
            bad[i] = INFINITY;
            gradient[i] = 0;
            any = true;
        }
    }
    pthread_mutex_unlock(&t->g->m);
    return any;
}

int psc_geo_push_dense(
    struct psc_geo *g, uint32_t table, const float *gradient, float *ret_w, struct co_err *err) {
    struct psc_geo_table *t = &g->tables[table];
    enum rt_nonfinite nonfinite = psc_client_nonfinite(g->c);
    CO_AUTOFREE float *rest = NULL; /* the gradient with 0 for values that are left out */
    bool whole = true;
    int rc = need_values(g, t, err);
    if (rc == 0 && nonfinite != RT_NONFINITE_ALLOW && !ps_all_small_f32(gradient, t->n)) {
        CO_AUTOFREE float *bad = co_xmalloc(t->n * sizeof(float));
        rest = co_xmalloc(t->n * sizeof(float));
        memcpy(rest, gradient, t->n * sizeof(float));
        whole = !take_bad(t, rest, bad);
        /* The servers count and name them but apply nothing. */
        rc = whole ? 0 : psc_send_values(g->c, t->index, bad, err);
    }
    if (rc < 0) {
        return rc;
    }
    pthread_mutex_lock(&g->m);
    if (whole || nonfinite == RT_NONFINITE_SKIP) {
        optim_apply(&t->optim, t->n, t->local, rest ? rest : gradient, t->state);
        t->dirty = true;
    }
    if (ret_w) {
        memcpy(ret_w, t->local, t->n * sizeof(float));
    }
    pthread_mutex_unlock(&g->m);
    return 0;
}

int psc_geo_dense_begin(struct psc_geo_table *t, struct co_err *err) {
    struct psc_geo *g = t->g;
    if (!t->delta) {
        t->delta = co_huge_xalloc(t->n * sizeof(float));
        t->server = co_huge_xalloc(t->n * sizeof(float));
    }
    pthread_mutex_lock(&g->m);
    bool dirty = t->dirty;
    if (dirty) {
        psc_geo_split(
            t->local, t->base, t->delta, t->n, g->c->trainers, table_largest(t->table->wire));
    }
    bool known = t->local != NULL;
    t->dirty = false;
    pthread_mutex_unlock(&g->m);
    if (!known) {
        return 0;
    }
    /* Without changes of its own this trainer still reads those of the others. */
    CO_TRY(psc_dense_call(g->c, "exchange", t->index,
        dirty ? RPC_FRAME_XCHG_DENSE : RPC_FRAME_PULL_DENSE, t->delta, &t->call, err));
    t->call->take = psc_dense_take;
    t->call->out = t->server;
    psc_call_start(t->call);
    return 0;
}

void psc_geo_dense_take(struct psc_geo_table *t) {
    pthread_mutex_lock(&t->g->m);
    take_values(t, t->server);
    pthread_mutex_unlock(&t->g->m);
}
