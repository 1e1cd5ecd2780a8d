/* Reads checkpoints of servers, and what rt_save wrote, into versions of a model. */
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ckpt/ckpt.h"
#include "runtime/train/ps/client/model_internal.h"
#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/shard/restore.h"

/* ---- reading checkpoints of servers ---- */

/* Reads one point of a chain into a version. */
struct point_load {
    const struct ckpt_point *point;
    struct psc_version *v;
    struct psc_layer **fresh; /* [n]; rows of this point; NULL: none yet */
};

static struct psc_layer *fresh_layer(const struct point_load *l, uint32_t table) {
    if (!l->fresh[table]) {
        l->fresh[table] = psc_layer_new(l->v->tables[table].spec.dim);
    }
    return l->fresh[table];
}

static int take_rows(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    const struct point_load *l = arg;
    size_t each = ckpt_rows_bytes(&l->point->tables[c->table], 1);
    for (uint32_t i = 0; i < c->items; i++, data += each) {
        CO_TRY(psc_layer_set(fresh_layer(l, c->table), co_get_u64(data), data + 8, err));
    }
    return 0;
}

static int take_erased(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    const struct point_load *l = arg;
    for (uint32_t i = 0; i < c->items; i++, data += 8) {
        CO_TRY(psc_layer_erase(fresh_layer(l, c->table), co_get_u64(data), err));
    }
    return 0;
}

static int take_dense(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    const struct point_load *l = arg;
    struct psc_view *view = &l->v->views[c->table];
    uint64_t size = l->v->tables[c->table].spec.size;
    if (__atomic_load_n(&view->dense->holders, __ATOMIC_ACQUIRE) > 1) { /* readers have it too */
        struct psc_vector *copy = NULL;
        int rc = psc_vector_new(size, &copy, err);
        if (rc < 0 || !copy) { /* copy is never NULL; static analysers do not see that */
            return rc;
        }
        memcpy(copy->values, view->dense->values, size * sizeof(float));
        psc_vector_drop(view->dense);
        view->dense = copy;
    }
    co_copy_f32(view->dense->values + c->begin, data, c->items);
    return 0;
}

static int push_layers(const struct point_load *l, struct co_err *err) {
    int rc = 0;
    for (uint32_t i = 0; i < l->v->n; i++) {
        struct psc_layer *fresh = co_steal_ptr(l->fresh[i]);
        struct psc_layers *layers = &l->v->views[i].layers, old = *layers;
        if (fresh && rc < 0) {
            psc_layer_drop(fresh);
        } else if (fresh) {
            rc = psc_layers_push(&old, fresh, layers, err);
            if (rc == 0) {
                psc_layers_done(&old);
            }
        }
    }
    return rc;
}

/* Reads all parts of one checkpoint of the chain into fresh layers and vectors. */
static int walk_point(
    struct point_load *l, const struct ckpt_chain *chain, uint32_t i, struct co_err *err) {
    static const struct {
        uint32_t kind;
        int (*take)(void *arg, const struct ckpt_part_chunk *c, const unsigned char *data,
            struct co_err *err);
    } kinds[] = {{CKPT_PART_ROWS, take_rows}, {CKPT_PART_ERASED, take_erased},
        {CKPT_PART_DENSE, take_dense}};
    for (size_t k = 0; k < CO_ARRAY_LEN(kinds); k++) {
        struct ckpt_walk w = {
            .chain = chain, .kinds = 1U << kinds[k].kind, .take = kinds[k].take, .arg = l};
        CO_TRY(ckpt_walk_point(&w, i, err));
    }
    return 0;
}

int psc_model_read_points(
    struct psc_version *v, const struct ckpt_chain *chain, uint32_t from, struct co_err *err) {
    CO_AUTOFREE struct psc_layer **fresh = co_xcalloc(v->n, sizeof(struct psc_layer *));
    for (uint32_t i = from; i < chain->n; i++) {
        struct point_load l = {.point = &chain->points[i], .v = v, .fresh = fresh};
        int rc = walk_point(&l, chain, i, err);
        int pushed = push_layers(&l, err); /* or drops them */
        CO_TRY(rc);
        CO_TRY(pushed);
    }
    return 0;
}

/* Gives a version that has its tables no rows, and vectors that are zero. */
static int begin_views(struct psc_version *v, struct co_err *err) {
    for (uint32_t i = 0; i < v->n; i++) {
        const struct rt_table_spec *s = &v->tables[i].spec;
        struct psc_layers none = {0};
        CO_TRY(s->kind == RT_SPARSE
                   ? psc_layers_push(&none, psc_layer_new(s->dim), &v->views[i].layers, err)
                   : psc_vector_new(s->size, &v->views[i].dense, err));
    }
    return 0;
}

/* ---- reading what rt_save wrote ---- */

static int read_saved_chunk(struct psc_version *v, uint32_t table, const struct ckpt_table *saved,
    uint32_t n, const unsigned char *data, size_t at, struct co_err *err) {
    struct psc_view *view = &v->views[table];
    if (!saved->sparse) {
        size_t left = at < saved->size ? saved->size - at : 0;
        co_copy_f32(view->dense->values + at, data, n < left ? n : left);
        return 0;
    }
    size_t stride = ckpt_rows_bytes(saved, 1) - sizeof(uint64_t);
    const unsigned char *row = data + n * 8UL;
    for (uint32_t i = 0; i < n; i++, row += stride) {
        CO_TRY(psc_layer_set(view->layers.at[0], co_get_u64(data + i * 8UL), row, err));
    }
    return 0;
}

static int read_saved(
    struct psc_version *v, const struct ckpt *k, uint32_t table, struct co_err *err) {
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = NULL;
    CO_TRY(ckpt_file_open(k, table, &f, err));
    for (size_t at = 0;;) {
        uint32_t n;
        const void *data;
        size_t bytes;
        int ends = ckpt_next(f, &n, &data, &bytes, err);
        CO_TRY(ends);
        if (ends) {
            return 0;
        }
        CO_TRY(read_saved_chunk(v, table, ckpt_table(k, table), n, data, at, err));
        at += n;
    }
}

static int read_opened(struct rt_model *m, const struct ckpt *k, struct co_err *err) {
    CO_CLEANUP(psc_version_dropp) struct psc_version *v = psc_version_new(ckpt_tables(k));
    CO_TRY(ckpt_verify(k, err));
    for (uint32_t i = 0; i < v->n; i++) {
        CO_TRY(psc_version_table(v, i, ckpt_table(k, i), err));
    }
    CO_TRY(begin_views(v, err));
    for (uint32_t i = 0; i < v->n; i++) {
        CO_TRY(read_saved(v, k, i, err));
    }
    m->n = v->n;
    m->now = co_steal_ptr(v);
    return 0;
}

/* ret_again: another save has taken its place meanwhile. */
static int open_newest(struct rt_model *m, bool *ret_again, struct co_err *err) {
    CO_CLEANUP(ckpt_closep) struct ckpt *k = NULL;
    *ret_again = false;
    CO_TRY(ckpt_open(m->dir, &k, err));
    int rc = read_opened(m, k, err);
    *ret_again = rc == CO_DAMAGED && ckpt_is_replaced(k);
    return rc;
}

int psc_model_read_saved(struct rt_model *m, struct co_err *err) {
    int rc = 0;
    bool again = true;
    for (int i = 0; i < CKPT_READS_MAX && again; i++) {
        rc = open_newest(m, &again, err);
    }
    return rc;
}

/* ---- the newest checkpoint ---- */

static void say_skipped(void *arg, const struct co_err *why) {
    (void)arg;
    ps_log_warn("%s; skipped", co_err_text(why));
}

int psc_model_check(const struct rt_model *m, const struct ckpt_point *p, struct co_err *err) {
    int rc = p->n_tables == m->n ? 0
                                 : co_err_set(err, CO_INVALID,
                                       "it has %u tables, this model has %u", p->n_tables, m->n);
    for (uint32_t i = 0; i < m->n && rc == 0; i++) {
        const struct ckpt_table *saved = &p->tables[i];
        const struct ps_table *t = &m->now->tables[i];
        rc = strcmp(t->name, saved->name) == 0
                 ? ps_fit_check(t, saved, err)
                 : co_err_set(err, CO_INVALID, "its table %u is \"%s\", this model's is \"%s\"", i,
                       saved->name, t->name);
    }
    return rc < 0 ? co_err_wrap(err, "checkpoint %llu in \"%s\" does not fit",
                        (unsigned long long)p->number, m->dir)
                  : 0;
}

static int read_chain(
    struct rt_model *m, const struct ckpt_chain *c, struct psc_version **ret, struct co_err *err) {
    const struct ckpt_point *p = &c->points[c->n - 1];
    CO_CLEANUP(psc_version_dropp) struct psc_version *v = NULL;
    if (m->now) {
        CO_TRY(psc_model_check(m, p, err));
    }
    CO_TRY(psc_version_of(p, &v, err));
    CO_TRY(begin_views(v, err));
    CO_TRY(psc_model_read_points(v, c, 0, err));
    if (!m->now) { /* others read it from then on */
        m->n = v->n;
    }
    m->number = p->number;
    m->base = p->base;
    *ret = co_steal_ptr(v);
    return 0;
}

int psc_model_read_newest(struct rt_model *m, struct psc_version **ret, struct co_err *err) {
    struct ckpt_search search = {.dir = m->dir, .most = UINT64_MAX, .skip = say_skipped};
    struct co_err damage = {0}; /* of the newest one whose files are not what they should be: */
    uint64_t damaged = 0;
    for (;;) {
        CO_CLEANUP(ckpt_chain_closep) struct ckpt_chain *c = NULL;
        struct co_err why = {0};
        int rc = ckpt_chain_newest(&search, &c, &why);
        if (rc == 0 && damage.code && ckpt_chain_number(c) <= m->number) {
            rc = CO_NOTFOUND;
        } else if (rc == 0) {
            damaged = damaged ? damaged : c->damaged;
            rc = read_chain(m, c, ret, &why);
        }
        if (c && rc == CO_DAMAGED) {
            say_skipped(NULL, &why);
            search.most = ckpt_chain_number(c) - 1;
            damaged = damaged ? damaged : ckpt_chain_number(c);
            damage = damage.code ? damage : why;
            continue;
        }
        if (rc == 0 && damaged) {
            ps_log_warn(
                "checkpoint %llu in \"%s\" is damaged: checkpoint %llu is used in its place",
                (unsigned long long)damaged, m->dir, (unsigned long long)m->number);
        }
        bool all = damage.code && (rc == CO_NOTFOUND || rc == CO_DAMAGED);
        return rc == 0 ? 0
                       : co_err_set(err, all ? damage.code : rc, "%s", all ? damage.msg : why.msg);
    }
}
