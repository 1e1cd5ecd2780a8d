/* Sparse tables in geo mode: a copy of each row that this trainer has used.  Copies stay until the
 * client closes.  geo.h has the formulas.  Runs on the program's threads.  A row of the store:
 *
 *     | local f32[dim] | base f32[dim] | state f32[n_state] | round u32 | changed u32 |
 *
 * round: the round in which the row was last sent or pulled.  If it is not the present one and the
 * row has not changed, a read pulls the row again.  changed: the row is in t->changed. */
#include <math.h>
#include <string.h>

#include "runtime/train/ps/client/geo_part.h"
#include "runtime/train/ps/finite.h"

struct mark {
    uint32_t round;
    uint32_t changed;
};

enum { AHEAD = 8 }; /* rows between a prefetch and the use */

/* A pull in progress. */
struct wanted {
    struct psc_geo_table *t;
    struct psc_ids places;   /* where the caller has each id */
    uint64_t *ids, *missing; /* each once; those that the servers are asked for */
    uint32_t *slots;         /* by id */
    size_t n_missing;
    float *fetched; /* [n_missing][dim] */
    float *rows;    /* [places.n][dim], the caller's */
};

static struct mark read_mark(const struct psc_geo_table *t, const float *row) {
    struct mark m;
    memcpy(&m, row + 2 * t->n + t->n_state, sizeof(m));
    return m;
}

static void write_mark(const struct psc_geo_table *t, float *row, struct mark m) {
    memcpy(row + 2 * t->n + t->n_state, &m, sizeof(m));
}

static float *row_at(const struct psc_geo_table *t, uint32_t slot) {
    return slot == TABLE_SLOT_NONE ? NULL : table_store_values(t->rows, slot);
}

static float *find_row(const struct psc_geo_table *t, uint64_t id) {
    return row_at(t, table_store_find(t->rows, id));
}

/* Row i of n is used next; those that follow begin to come from memory. */
static void fetch_ahead(const struct psc_geo_table *t, const uint32_t *slots, size_t i, size_t n) {
    if (i + AHEAD < n) {
        table_store_fetch(t->rows, slots[i + AHEAD]);
    }
}

/* A row that was just made gets those values (NULL: those that the servers send for an id without a
 * row). */
static void begin_row(const struct psc_geo_table *t, uint64_t id, const float *values, float *row) {
    if (values) {
        memcpy(row, values, t->n * sizeof(float));
    } else {
        ps_table_absent_row(t->table, id, row);
    }
    memcpy(row + t->n, row, t->n * sizeof(float));
    if (t->n_state > 0) {
        optim_state_init(&t->table->local_optim, t->n, row + 2 * t->n);
    }
}

/* ---- pull ---- */

static void wanted_free(struct wanted *w) {
    if (w) {
        psc_ids_done(&w->places);
        free(w->ids);
        free(w->missing);
        free(w->slots);
        free(w->fetched);
        free(w);
    }
}

/* Lists the rows without a copy, or with one of an earlier round.  The lock is held. */
static void find_missing(struct wanted *w) {
    struct psc_geo_table *t = w->t;
    size_t n = w->places.n_unique;
    table_store_find_many(t->rows, w->ids, n, w->slots);
    for (size_t i = 0; i < n; i++) {
        fetch_ahead(t, w->slots, i, n);
        const float *row = row_at(t, w->slots[i]);
        struct mark m = row ? read_mark(t, row) : (struct mark){0};
        if (!row || (!m.changed && m.round != t->g->round)) {
            w->missing[w->n_missing++] = w->ids[i];
        }
    }
}

int psc_geo_pull_start(struct psc_geo *g, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct rt_call **ret_call, struct co_err *err) {
    struct psc_geo_table *t = &g->tables[table];
    if (atomic_load(&g->over)) {
        return psc_pull_rows_start(g->c, table, ids, n, ret_rows, ret_call, err);
    }
    struct wanted *w = co_xcalloc(1, sizeof(*w));
    *w = (struct wanted){.t = t, .rows = ret_rows};
    psc_ids_init(&w->places, ids, (uint32_t)n, g->c->base, g->c->n_servers);
    w->ids = co_xmalloc(w->places.n_unique * sizeof(*ids));
    w->missing = co_xmalloc(w->places.n_unique * sizeof(*ids));
    w->slots = co_xmalloc(w->places.n_unique * sizeof(*w->slots));
    for (uint32_t u = 0; u < w->places.n_unique; u++) {
        w->ids[u] = ids[w->places.first[u]];
    }
    pthread_mutex_lock(&g->m);
    find_missing(w);
    pthread_mutex_unlock(&g->m);
    w->fetched = co_xmalloc(w->n_missing * t->n * sizeof(float));
    struct rt_call *call = NULL;
    int rc = psc_pull_rows_start(g->c, table, w->missing, w->n_missing, w->fetched, &call, err);
    if (rc < 0) {
        wanted_free(w);
        return rc;
    }
    call->geo = w;
    *ret_call = call;
    return 0;
}

/* Merges a row of the servers into its copy, or makes the copy.  The lock is held. */
static int take_row(struct psc_geo_table *t, uint64_t id, const float *server, struct co_err *err) {
    uint32_t slot;
    bool fresh;
    CO_TRY(table_store_make(t->rows, id, &slot, &fresh, err));
    float *row = table_store_values(t->rows, slot);
    if (fresh) {
        begin_row(t, id, server, row);
    }
    psc_geo_merge(row, row + t->n, server, t->n);
    write_mark(t, row, (struct mark){.round = t->g->round, .changed = read_mark(t, row).changed});
    return 0;
}

/* To all places that the caller has for them.  The lock is held. */
static void give_rows(struct wanted *w) {
    const struct psc_geo_table *t = w->t;
    const struct psc_ids *p = &w->places;
    table_store_find_many(t->rows, w->ids, p->n_unique, w->slots);
    for (uint32_t u = 0; u < p->n_unique; u++) {
        fetch_ahead(t, w->slots, u, p->n_unique);
        const float *row = row_at(t, w->slots[u]);
        /* NULL: never, as missing rows were just taken */
        for (uint32_t i = row ? p->first[u] : PSC_NONE; i != PSC_NONE; i = p->next[i]) {
            memcpy(w->rows + i * t->n, row, t->n * sizeof(float));
        }
    }
}

int psc_geo_pull_wait(struct rt_call *call, struct co_err *err) {
    struct wanted *w = call->geo;
    struct psc_geo_table *t = w->t;
    int rc = psc_pull_rows_wait(call, err);
    pthread_mutex_lock(&t->g->m);
    for (size_t i = 0; i < w->n_missing && rc == 0; i++) {
        rc = take_row(t, w->missing[i], w->fetched + i * t->n, err);
    }
    if (rc == 0) {
        give_rows(w);
    }
    pthread_mutex_unlock(&t->g->m);
    wanted_free(w);
    return rc;
}

/* ---- push ---- */

/* Puts the row on the list for the next round, once. */
static void note_changed(struct psc_geo_table *t, uint64_t id, float *row) {
    struct mark m = read_mark(t, row);
    if (m.changed) {
        return;
    }
    m.changed = 1;
    write_mark(t, row, m);
    if (t->n_changed == t->room) {
        t->room = t->room ? 2 * t->room : 256;
        t->changed = co_xrealloc(t->changed, t->room, sizeof(*t->changed));
    }
    t->changed[t->n_changed++] = id;
    t->dirty = true;
}

/* A row without a copy begins with the initializer's values.  The difference to the servers' row is
 * added when that arrives. */
static void push_row(struct psc_geo_table *t, uint64_t id, const float *g, float *row, bool fresh) {
    if (fresh) {
        begin_row(t, id, NULL, row);
        write_mark(t, row, (struct mark){.round = t->g->round - 1});
    }
    optim_apply(&t->optim, t->n, row, g, row + 2 * t->n);
    note_changed(t, id, row);
}

/* The gradients of a push; those of one id are summed. */
struct gradient_sums {
    uint64_t *ids; /* [n] */
    float *g;      /* [n][dim] */
    size_t n;
};

static void sums_done(struct gradient_sums *s) {
    free(s->ids);
    free(s->g);
}

static void sum_up(const struct rt_client *c, const uint64_t *ids, size_t n, const float *gradients,
    size_t dim, struct gradient_sums *ret) {
    struct psc_ids b;
    psc_ids_init(&b, ids, (uint32_t)n, c->base, c->n_servers);
    *ret = (struct gradient_sums){.n = b.n_unique};
    ret->ids = co_xmalloc(b.n_unique * sizeof(*ids) + 1);
    ret->g = co_xmalloc(b.n_unique * dim * sizeof(float) + 1);
    for (uint32_t u = 0; u < b.n_unique; u++) {
        uint32_t i = b.first[u];
        float *sum = ret->g + u * dim;
        ret->ids[u] = ids[i];
        memcpy(sum, gradients + i * dim, dim * sizeof(float));
        for (i = b.next[i]; i != PSC_NONE; i = b.next[i]) {
            for (size_t k = 0; k < dim; k++) {
                sum[k] += gradients[i * dim + k];
            }
        }
    }
    psc_ids_done(&b);
}

/* Gives an infinite gradient to a row that this one would make overflow.  trial: as a row of the
 * store.  The lock is held. */
static void mark_overflow(struct psc_geo_table *t, uint64_t id, float *g, float *trial) {
    if (ps_all_small_f32(g, t->n) || !ps_all_finite_f32(g, t->n)) {
        return;
    }
    const float *row = find_row(t, id);
    if (row) {
        memcpy(trial, row, (2 * t->n + t->n_state) * sizeof(float));
    } else {
        begin_row(t, id, NULL, trial);
    }
    optim_apply(&t->optim, t->n, trial, g, trial + 2 * t->n);
    if (!ps_all_finite_f32(trial, 2 * t->n + t->n_state)) {
        psc_geo_note_overflow(t, "row", id);
        g[0] = INFINITY;
    }
}

static void mark_overflows(struct psc_geo_table *t, const struct gradient_sums *s) {
    CO_AUTOFREE float *trial = co_xmalloc((2 * t->n + t->n_state) * sizeof(float));
    pthread_mutex_lock(&t->g->m);
    for (size_t i = 0; i < s->n; i++) {
        mark_overflow(t, s->ids[i], s->g + i * t->n, trial);
    }
    pthread_mutex_unlock(&t->g->m);
}

/* Takes the rows that are not finite out of s, and sends them to the servers.  These count and name
 * them but apply nothing. */
static int warn_nonfinite(struct psc_geo_table *t, struct gradient_sums *s, struct co_err *err) {
    struct gradient_sums bad = {
        .ids = co_xmalloc(s->n * sizeof(*s->ids)), .g = co_xmalloc(s->n * t->n * sizeof(float))};
    size_t n = s->n;
    s->n = 0;
    for (size_t i = 0; i < n; i++) {
        const float *g = s->g + i * t->n;
        struct gradient_sums *to = ps_all_finite_f32(g, t->n) ? s : &bad;
        to->ids[to->n] = s->ids[i];
        memmove(to->g + to->n++ * t->n, g, t->n * sizeof(float));
    }
    int rc =
        psc_send_rows(t->g->c, t->index, RPC_FRAME_PUSH_SPARSE, bad.ids, bad.n, bad.g, t->n, err);
    sums_done(&bad);
    return rc;
}

int psc_geo_push_sparse(struct psc_geo *g, uint32_t table, const uint64_t *ids, size_t n,
    const float *gradients, struct co_err *err) {
    struct psc_geo_table *t = &g->tables[table];
    enum rt_nonfinite nonfinite = psc_client_nonfinite(g->c);
    CO_CLEANUP(sums_done) struct gradient_sums s;
    sum_up(g->c, ids, n, gradients, t->n, &s);
    if (nonfinite != RT_NONFINITE_ALLOW && !ps_all_small_f32(s.g, s.n * t->n)) {
        mark_overflows(t, &s);
    }
    if (nonfinite != RT_NONFINITE_ALLOW && !ps_all_finite_f32(s.g, s.n * t->n)) {
        int rc = warn_nonfinite(t, &s, err);
        if (rc < 0 || nonfinite <= RT_NONFINITE_REFUSE) {
            return rc;
        }
    }
    CO_AUTOFREE uint32_t *slots = co_xmalloc(s.n * sizeof(*slots));
    CO_AUTOFREE bool *fresh = co_xmalloc(s.n * sizeof(*fresh));
    pthread_mutex_lock(&g->m);
    int rc = table_store_make_many(t->rows, s.ids, s.n, slots, fresh, err);
    for (size_t i = 0; i < s.n && rc == 0; i++) {
        fetch_ahead(t, slots, i, s.n);
        push_row(t, s.ids[i], s.g + i * t->n, table_store_values(t->rows, slots[i]), fresh[i]);
    }
    pthread_mutex_unlock(&g->m);
    return rc;
}

/* ---- rounds ---- */

int psc_geo_sparse_begin(struct psc_geo_table *t, struct co_err *err) {
    struct psc_geo *g = t->g;
    pthread_mutex_lock(&g->m);
    t->ids = co_steal_ptr(t->changed);
    t->n_ids = t->n_changed;
    t->n_changed = t->room = 0;
    t->dirty = false;
    t->fetched = co_xmalloc(t->n_ids * t->n * sizeof(float));
    for (size_t i = 0; i < t->n_ids; i++) {
        float *row = find_row(t, t->ids[i]);
        psc_geo_split(row, row + t->n, t->fetched + i * t->n, t->n, g->c->trainers,
            table_largest(t->table->wire));
        write_mark(t, row, (struct mark){.round = g->round});
    }
    pthread_mutex_unlock(&g->m);
    if (t->n_ids == 0) {
        return 0;
    }
    CO_TRY(psc_send_rows(
        g->c, t->index, RPC_FRAME_PUSH_SPARSE, t->ids, t->n_ids, t->fetched, t->n, err));
    return psc_pull_rows_start(g->c, t->index, t->ids, t->n_ids, t->fetched, &t->call, err);
}

/* All of these rows have copies, so take_row makes none and cannot fail. */
void psc_geo_sparse_take(struct psc_geo_table *t) {
    pthread_mutex_lock(&t->g->m);
    for (size_t i = 0; i < t->n_ids; i++) {
        (void)!take_row(t, t->ids[i], t->fetched + i * t->n, NULL);
    }
    pthread_mutex_unlock(&t->g->m);
}
