/* What geo.c (rounds, opening, closing), geo_dense.c and geo_sparse.c share.  No other code
 * includes this. */
#pragma once

#include <float.h>
#include <stdatomic.h>

#include "runtime/train/ps/client/geo.h"
#include "runtime/train/table/narrow.h"
#include "runtime/train/table/store.h"

struct psc_geo_table {
    struct psc_geo *g;
    uint32_t index;
    const struct ps_table *table;
    struct optim optim; /* the table's, with the rate of this step */
    size_t n, n_state;  /* dense: values; sparse: values of a row */
    bool dirty;         /* something has changed since the last round */
    bool overflowed;    /* a warning about a row that would overflow was logged */
    /* dense; NULL until the first pull.  geo->m guards the first line, `rounds` the second */
    float *local, *base, *state; /* [n], [n], [n_state] */
    float *delta, *server;       /* [n] of the round in flight */
    /* sparse; geo->m guards them */
    struct table_store *rows;
    uint64_t *changed; /* ids of rows that have changed since the last round */
    size_t n_changed, room;
    /* the round in flight; sparse: its ids, and first their deltas, then the servers' rows */
    struct rt_call *call;
    uint64_t *ids;
    float *fetched;
    size_t n_ids;
};

struct psc_geo {
    struct rt_client *c;
    atomic_bool over; /* the trainer makes no more steps */
    uint64_t steps;
    pthread_mutex_t rounds;       /* held while a round begins or ends; taken before m */
    pthread_mutex_t m;            /* guards copies; not held while anything travels */
    uint32_t round;               /* counts rounds; dates the rows of sparse tables */
    struct psc_geo_table *tables; /* [c->n_tables]; table NULL: in another mode */
};

/* geo_dense.c, geo_sparse.c; `rounds` is held.  begin starts a round's call, if there is something
 * to send or read; take puts its answer, which has arrived, into the copy. */
CO_MUST_CHECK int psc_geo_dense_begin(struct psc_geo_table *t, struct co_err *err);
void psc_geo_dense_take(struct psc_geo_table *t);
CO_MUST_CHECK int psc_geo_sparse_begin(struct psc_geo_table *t, struct co_err *err);
void psc_geo_sparse_take(struct psc_geo_table *t);

static inline float psc_geo_within(float x, float most) {
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

static inline float psc_geo_bound(float x) {
    return psc_geo_within(x, FLT_MAX);
}

/* An update that would overflow: a warning, once. */
void psc_geo_note_overflow(struct psc_geo_table *t, const char *what, uint64_t which);

/* local += server - base; base = server */
static inline void psc_geo_merge(float *local, float *base, const float *server, size_t n) {
    for (size_t i = 0; i < n; i++) {
        local[i] = psc_geo_bound(local[i] + psc_geo_bound(server[i] - base[i]));
        base[i] = server[i];
    }
}

/* ret_delta = (local - base) / trainers: the part of a change that is sent, at most what the wire
 * has values for.  base += ret_delta. */
static inline void psc_geo_split(
    const float *local, float *base, float *ret_delta, size_t n, uint32_t trainers, float most) {
    for (size_t i = 0; i < n; i++) {
        ret_delta[i] = psc_geo_within(psc_geo_bound(local[i] - base[i]) / (float)trainers, most);
        base[i] += ret_delta[i];
    }
}
