/* Geo mode's rounds: begins them when they are due, ends them when they are answered, and makes the
 * last one at the end.  A table has at most one round in flight.  Runs on the program's threads. */
#include "runtime/train/ps/client/geo.h"

#include "common/huge.h"
#include "runtime/train/ps/client/geo_part.h"
#include "runtime/train/ps/glog.h"

static bool is_sparse(const struct psc_geo_table *t) {
    return t->table->spec.kind == RT_SPARSE;
}

/* A schedule counts this trainer's steps.  g->m is held. */
static void set_rate(struct psc_geo_table *t) {
    const struct optim *o = &t->table->local_optim;
    t->optim.hyper[OPTIM_LR] =
        (float)optim_schedule_rate(&t->table->rates, (double)o->hyper[OPTIM_LR], t->g->steps);
}

/* Schedules follow the steps of a sync job, also where it goes back or this trainer was restarted;
 * in other modes this process's own. */
static uint64_t count_from(const struct rt_client *c, uint64_t own) {
    return c->options.mode == RT_SYNC ? c->progress.steps : own;
}

static void make_copy(struct psc_geo_table *t) {
    const struct table_store_shape row = {.dim = (uint32_t)(2 * t->n + t->n_state + 2)};
    t->rows = is_sparse(t) ? table_store_new(&row, NULL) : NULL;
}

void psc_geo_note_overflow(struct psc_geo_table *t, const char *what, uint64_t which) {
    if (!t->overflowed) {
        t->overflowed = true;
        ps_log_warn("table \"%s\", %s %llu: an update with a large gradient would overflow, and "
                    "counts as one with Inf; clip_value or clip_norm of the optimizer bound "
                    "gradients; more of it is only counted",
            t->table->name, what, (unsigned long long)which);
    }
}

static void drop_copy(struct psc_geo_table *t) {
    co_huge_free(co_steal_ptr(t->local), t->n * sizeof(float));
    co_huge_free(co_steal_ptr(t->base), t->n * sizeof(float));
    co_huge_free(co_steal_ptr(t->state), t->n_state * sizeof(float));
    co_huge_free(co_steal_ptr(t->delta), t->n * sizeof(float));
    co_huge_free(co_steal_ptr(t->server), t->n * sizeof(float));
    free(co_steal_ptr(t->changed));
    free(co_steal_ptr(t->ids));
    free(co_steal_ptr(t->fetched));
    table_store_free(co_steal_ptr(t->rows));
    t->n_changed = t->room = t->n_ids = 0;
    t->dirty = false;
}

struct psc_geo *psc_geo_open(struct rt_client *c) {
    bool any = false;
    for (uint32_t i = 0; i < c->n_tables; i++) {
        any = any || c->tables[i].spec.mode == RT_GEO;
    }
    if (!any) {
        return NULL;
    }
    struct psc_geo *g = co_xcalloc(1, sizeof(*g));
    g->c = c;
    g->steps = count_from(c, 0);
    pthread_mutex_init(&g->rounds, NULL);
    pthread_mutex_init(&g->m, NULL);
    g->tables = co_xcalloc(c->n_tables, sizeof(*g->tables));
    for (uint32_t i = 0; i < c->n_tables; i++) {
        struct psc_geo_table *t = &g->tables[i];
        t->g = g;
        t->index = i;
        if (c->tables[i].spec.mode != RT_GEO) {
            continue;
        }
        t->table = &c->tables[i];
        t->optim = t->table->local_optim;
        t->n = is_sparse(t) ? t->table->spec.dim : t->table->spec.size;
        t->n_state = optim_state_floats(&t->table->local_optim, t->n);
        set_rate(t);
        make_copy(t);
    }
    return g;
}

/* ---- rounds ---- */

static int wait_call(struct psc_geo_table *t, struct co_err *err) {
    struct rt_call *call = co_steal_ptr(t->call);
    return is_sparse(t) ? psc_pull_rows_wait(call, err)
                        : psc_call_wait(call, t->g->c->options.call_timeout_ms, err);
}

/* Waits for the answer of the table's round, if one is in flight, and puts it into the copy. */
static int end_round(struct psc_geo_table *t, struct co_err *err) {
    if (!t->call) {
        return 0;
    }
    int rc = wait_call(t, err);
    if (rc == 0 && is_sparse(t)) {
        psc_geo_sparse_take(t);
    } else if (rc == 0) {
        psc_geo_dense_take(t);
    }
    free(co_steal_ptr(t->ids));
    free(co_steal_ptr(t->fetched));
    t->n_ids = 0;
    return rc;
}

static int begin_round(struct psc_geo_table *t, struct co_err *err) {
    CO_TRY(end_round(t, err));
    int rc = is_sparse(t) ? psc_geo_sparse_begin(t, err) : psc_geo_dense_begin(t, err);
    if (!t->call) {
        free(co_steal_ptr(t->ids));
        free(co_steal_ptr(t->fetched));
    }
    return rc;
}

static bool is_answered(const struct psc_geo_table *t) {
    return t->call && psc_call_is_over(t->call);
}

static void next_round(struct psc_geo *g) {
    pthread_mutex_lock(&g->m);
    g->round++;
    pthread_mutex_unlock(&g->m);
}

static void follow_schedules(struct psc_geo *g) {
    pthread_mutex_lock(&g->m);
    for (uint32_t i = 0; i < g->c->n_tables; i++) {
        if (g->tables[i].table) {
            set_rate(&g->tables[i]);
        }
    }
    pthread_mutex_unlock(&g->m);
}

int psc_geo_step(struct psc_geo *g, struct co_err *err) {
    if (!g) {
        return 0;
    }
    int rc = 0;
    pthread_mutex_lock(&g->rounds);
    bool due = (g->steps + 1) % g->c->options.k_steps == 0;
    g->steps++;
    follow_schedules(g);
    if (due) {
        next_round(g);
    }
    for (uint32_t i = 0; i < g->c->n_tables && rc == 0; i++) {
        struct psc_geo_table *t = &g->tables[i];
        if (t->table && due) {
            rc = begin_round(t, err);
        } else if (t->table && is_answered(t)) {
            rc = end_round(t, err);
        }
    }
    pthread_mutex_unlock(&g->rounds);
    return rc;
}

int psc_geo_flush(struct psc_geo *g, struct co_err *err) {
    if (!g) {
        return 0;
    }
    int rc = 0;
    pthread_mutex_lock(&g->rounds);
    next_round(g);
    for (uint32_t i = 0; i < g->c->n_tables && rc == 0; i++) {
        struct psc_geo_table *t = &g->tables[i];
        pthread_mutex_lock(&g->m);
        bool dirty = t->dirty;
        pthread_mutex_unlock(&g->m);
        rc = t->table && dirty ? begin_round(t, err) : 0;
    }
    for (uint32_t i = 0; i < g->c->n_tables && rc == 0; i++) {
        rc = end_round(&g->tables[i], err);
    }
    /* Makes all rows old again: the next pull reads what others have sent meanwhile. */
    next_round(g);
    pthread_mutex_unlock(&g->rounds);
    return rc;
}

int psc_geo_end(struct psc_geo *g, struct co_err *err) {
    int rc = psc_geo_flush(g, err);
    if (g) {
        atomic_store(&g->over, true);
    }
    return rc;
}

void psc_geo_forget(struct psc_geo *g) {
    if (!g) {
        return;
    }
    pthread_mutex_lock(&g->rounds);
    for (uint32_t i = 0; i < g->c->n_tables; i++) {
        if (g->tables[i].call) { /* what it brings is dropped, too */
            (void)!wait_call(&g->tables[i], NULL);
        }
    }
    pthread_mutex_lock(&g->m);
    for (uint32_t i = 0; i < g->c->n_tables; i++) {
        struct psc_geo_table *t = &g->tables[i];
        if (t->table) {
            drop_copy(t);
            make_copy(t);
        }
    }
    g->steps = count_from(g->c, g->steps);
    pthread_mutex_unlock(&g->m);
    follow_schedules(g);
    atomic_store(&g->over, false);
    pthread_mutex_unlock(&g->rounds);
}

void psc_geo_close(struct psc_geo *g) {
    for (uint32_t i = 0; g && i < g->c->n_tables; i++) {
        if (g->tables[i].call) {
            (void)!wait_call(&g->tables[i], NULL);
        }
        drop_copy(&g->tables[i]);
    }
    if (g) {
        pthread_mutex_destroy(&g->rounds);
        pthread_mutex_destroy(&g->m);
        free(g->tables);
        free(g);
    }
}
