/* A checkpoint in memory, for prediction without servers.  It can follow newer checkpoints.
 *
 *     model --> version now        tables: layers of rows, a dense vector   <-- readers hold it
 *               version before     for callers with pointers to its vectors     while they read
 *
 * A refresh makes a new version beside the present one.  The two share what has not changed.  Then
 * the new version replaces the present one.  Any thread reads; one thread at a time refreshes. */
#include <string.h>

#include "runtime/train/ckpt/ckpt.h"
#include "runtime/train/ps/client/model_internal.h"
#include "runtime/train/ps/glog.h"

/* ---- versions ---- */

static struct psc_version *version_hold(const struct rt_model *m) {
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&m->m;
    pthread_mutex_lock(lock);
    struct psc_version *v = m->now;
    (void)__atomic_fetch_add(&v->holders, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(lock);
    return v;
}

/* From now on readers get `v`.  Pointers into the version that it replaces stay valid until the
 * next publish. */
static void publish(struct rt_model *m, struct psc_version *v_own) {
    pthread_mutex_lock(&m->m);
    struct psc_version *gone = m->before;
    m->before = m->now;
    m->now = v_own;
    pthread_mutex_unlock(&m->m);
    psc_version_drop(gone);
}

/* ---- opening, closing ---- */

int rt_model_open(const char *dir, struct rt_model **ret_model, struct co_err *err) {
    struct rt_model *m = co_xcalloc(1, sizeof(*m));
    struct co_err why = {0};
    pthread_mutex_init(&m->m, NULL);
    m->dir = co_xstrdup(dir);
    int rc = ckpt_expect(dir, CKPT_EITHER, &why);
    if (rc == 0) {
        rc = psc_model_read_newest(m, &m->now, &why);
    }
    if (rc == 0 && ckpt_has_newer_save(dir, m->number)) {
        ps_log_warn(
            "\"%s\" has a newer model, which rt_save wrote: checkpoint %llu of the servers is "
            "used; to use that model, save it to a directory of its own",
            dir, (unsigned long long)m->number);
    }
    rc = rc == CO_NOTFOUND ? psc_model_read_saved(m, &why) : rc;
    if (rc < 0) {
        rt_model_close(m);
        return co_err_set(err, rc, "%s", why.msg);
    }
    *ret_model = m;
    return 0;
}

void rt_model_close(struct rt_model *m) {
    if (m) {
        psc_version_drop(m->before);
        psc_version_drop(m->now);
        pthread_mutex_destroy(&m->m);
        free(m->dir);
        free(m);
    }
}

/* ---- following ---- */

/* Makes a version with the point's tables that shares all values with the present one. */
static int next_version(const struct rt_model *m, const struct ckpt_point *p,
    struct psc_version **ret, struct co_err *err) {
    CO_CLEANUP(psc_version_dropp) struct psc_version *v = NULL;
    CO_TRY(psc_version_of(p, &v, err));
    for (uint32_t i = 0; i < m->n; i++) {
        const struct psc_view *from = &m->now->views[i];
        psc_layers_hold(&from->layers, &v->views[i].layers);
        v->views[i].dense = from->dense;
        if (from->dense) {
            (void)__atomic_fetch_add(&from->dense->holders, 1, __ATOMIC_RELAXED);
        }
    }
    *ret = co_steal_ptr(v);
    return 0;
}

/* The index of the loaded checkpoint in the chain; -1: it is not there. */
static int place_of(const struct rt_model *m, const struct ckpt_chain *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->points[i].number == m->number && c->points[i].base == m->base) {
            return (int)i;
        }
    }
    return -1;
}

int rt_model_refresh(struct rt_model *m, bool *ret_new, struct co_err *err) {
    CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
    CO_CLEANUP(psc_version_dropp) struct psc_version *v = NULL;
    const struct ckpt_search search = {.dir = m->dir, .most = UINT64_MAX};
    struct co_err why = {0};
    *ret_new = false;
    int rc = ckpt_chain_newest(&search, &c, &why);
    if (rc == CO_NOTFOUND || (rc == 0 && ckpt_chain_number(c) <= m->number)) {
        return 0;
    }
    if (rc < 0) {
        return co_err_set(err, rc, "%s", why.msg);
    }
    const struct ckpt_point *p = &c->points[c->n - 1];
    CO_TRY(psc_model_check(m, p, err));
    int at = place_of(m, c);
    if (at >= 0) {
        CO_TRY(next_version(m, p, &v, err));
        rc = psc_model_read_points(v, c, (uint32_t)at + 1, err);
        if (rc == 0) {
            m->number = p->number;
        }
    } else {
        rc = psc_model_read_newest(m, &v, err);
    }
    if (rc == 0) {
        publish(m, co_steal_ptr(v));
        *ret_new = true;
    }
    return rc;
}

uint64_t rt_model_number(const struct rt_model *m) {
    return m->number;
}

/* ---- lookups ---- */

int rt_model_table(
    const struct rt_model *m, const char *name, uint32_t *ret_table, struct co_err *err) {
    struct psc_version *v = version_hold(m);
    uint32_t i = 0;
    while (i < v->n && strcmp(v->tables[i].name, name) != 0) {
        i++;
    }
    psc_version_drop(v);
    if (i == m->n) {
        return co_err_set(err, CO_NOTFOUND, "the model has no table \"%s\"", name);
    }
    *ret_table = i;
    return 0;
}

const struct rt_table_spec *rt_model_spec(const struct rt_model *m, uint32_t table) {
    if (table >= m->n) {
        return NULL;
    }
    struct psc_version *v = version_hold(m);
    const struct rt_table_spec *spec = &v->tables[table].spec;
    psc_version_drop(v);
    return spec;
}

const float *rt_model_dense(const struct rt_model *m, uint32_t table) {
    if (table >= m->n) {
        return NULL;
    }
    struct psc_version *v = version_hold(m);
    const struct psc_vector *dense = v->views[table].dense;
    psc_version_drop(v);
    return dense ? dense->values : NULL;
}

void rt_model_sparse(
    const struct rt_model *m, uint32_t table, const uint64_t *ids, size_t n, float *ret_rows) {
    struct psc_version *v = version_hold(m);
    psc_layers_read(&v->views[table].layers, &v->tables[table], ids, n, ret_rows);
    psc_version_drop(v);
}

size_t rt_model_ids(const struct rt_model *m, uint32_t table, uint64_t *ret_ids, size_t n) {
    struct psc_version *v = version_hold(m);
    size_t found = psc_layers_ids(&v->views[table].layers, ret_ids, n);
    psc_version_drop(v);
    return found;
}

uint32_t rt_model_tables(const struct rt_model *m) {
    return m->n;
}
