/* Exchanges of dense tables.  See exchange.h.
 *
 *     gradient --> sum <--> sending --> servers --> ready --> the trainer's next rt_exchange_dense
 *
 * They begin on the program's threads; on_exchanged runs on the thread that read the answer. */
#include "runtime/train/ps/client/exchange.h"

#include <string.h>

#include "common/huge.h"
#include "common/interrupt.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/finite.h"
#include "runtime/train/table/narrow.h"

struct exchange {
    float *sum;            /* [size] the sum of waiting gradients; under m */
    float *sending;        /* [size] the former sum; for the thread that set busy */
    uint32_t merged;       /* gradients in sum */
    uint32_t unread;       /* gradients sent since the last request for values */
    bool busy;             /* an exchange is in flight */
    struct rt_call *ready; /* the last complete exchange, if not taken by the trainer yet */
    float *w;              /* sync: the values that the next step refreshes */
    float *rest;           /* int8: see psc_exchanges_rest */
    struct psc_known known;
};

struct psc_exchanges {
    struct rt_client *c;
    pthread_mutex_t m;    /* guards what follows; none is taken after it */
    struct exchange at[]; /* by table */
};

/* Of a dense table's values. */
static size_t bytes_of(const struct ps_table *t) {
    return t->spec.size * sizeof(float);
}

struct psc_exchanges *psc_exchanges_new(struct rt_client *c) {
    struct psc_exchanges *x = co_xcalloc(1, sizeof(*x) + c->n_tables * sizeof(x->at[0]));
    x->c = c;
    pthread_mutex_init(&x->m, NULL);
    for (uint32_t i = 0; i < c->n_tables; i++) {
        const struct ps_table *t = &c->tables[i];
        x->at[i].rest = t->int8 ? co_huge_xalloc(bytes_of(t)) : NULL;
        x->at[i].known.w = t->int8 ? co_huge_xalloc(bytes_of(t)) : NULL;
    }
    return x;
}

void psc_exchanges_free(struct psc_exchanges *x) {
    for (uint32_t i = 0; x && i < x->c->n_tables; i++) {
        size_t bytes = bytes_of(&x->c->tables[i]);
        co_huge_free(x->at[i].sum, bytes);
        co_huge_free(x->at[i].sending, bytes);
        co_huge_free(x->at[i].rest, bytes);
        co_huge_free(x->at[i].known.w, bytes);
        free(x->at[i].known.versions);
        psc_call_free(x->at[i].ready);
    }
    if (x) {
        pthread_mutex_destroy(&x->m);
        free(x);
    }
}

bool psc_exchanges_pending(struct psc_exchanges *x) {
    bool any = false;
    pthread_mutex_lock(&x->m);
    for (uint32_t i = 0; i < x->c->n_tables; i++) {
        any = any || x->at[i].busy;
    }
    pthread_mutex_unlock(&x->m);
    return any;
}

void psc_exchanges_forget(struct psc_exchanges *x) {
    pthread_mutex_lock(&x->m);
    for (uint32_t i = 0; i < x->c->n_tables; i++) {
        x->at[i].busy = false;
        x->at[i].merged = 0;
        x->at[i].w = NULL;
        x->at[i].known.n = 0;
        if (x->at[i].rest) {
            memset(x->at[i].rest, 0, x->c->tables[i].spec.size * sizeof(float));
        }
    }
    pthread_mutex_unlock(&x->m);
}

float *psc_exchanges_rest(struct psc_exchanges *x, uint32_t table) {
    return x->at[table].rest;
}

struct psc_known *psc_exchanges_known(struct psc_exchanges *x, uint32_t table, uint32_t n) {
    struct psc_known *k = &x->at[table].known;
    if (k->n != n) {
        free(k->versions);
        k->versions = co_xcalloc(n, sizeof(*k->versions));
        k->n = n;
    }
    return k;
}

float *psc_exchanges_take_place(struct psc_exchanges *x, uint32_t table) {
    pthread_mutex_lock(&x->m);
    float *w = co_steal_ptr(x->at[table].w);
    pthread_mutex_unlock(&x->m);
    return w;
}

static int begin_exchange(
    struct psc_exchanges *x, uint32_t table, const float *gradient, bool sent, struct co_err *err);

/* Takes the sum of waiting gradients, to send it.  The caller has set busy, and holds m. */
static void take_sum(struct exchange *e) {
    float *t = e->sum;
    e->sum = e->sending;
    e->sending = t;
    e->unread += e->merged;
    e->merged = 0;
}

/* Runs when an exchange is over: keeps its values for the trainer, and sends the gradients that
 * have come meanwhile. */
static void on_exchanged(struct rt_call *call) {
    struct rt_client *c = call->c;
    struct psc_exchanges *x = c->exchanges;
    uint32_t table = (uint32_t)(call->table - c->tables);
    struct exchange *e = &x->at[table];
    struct rt_call *old = call;
    bool failed = psc_client_failure(c, NULL) < 0;
    pthread_mutex_lock(&x->m);
    if (!failed && !call->err.code && call->keep) {
        old = e->ready;
        e->ready = call;
    }
    uint32_t merged = e->merged;
    bool again = e->busy = !failed && merged > 0;
    if (again) {
        take_sum(e);
    }
    pthread_mutex_unlock(&x->m);
    psc_client_wake(c);
    psc_call_free(old);
    if (again) {
        if (c->options.merge_mean) {
            ps_mean(e->sending, c->tables[table].spec.size, merged);
        }
        /* The client keeps the failure. */
        (void)!begin_exchange(x, table, e->sending, false, NULL);
    }
}

/* Sends a gradient.  The caller has set busy, so no other thread is here for this table.  sent:
 * the gradient is not read after the return; otherwise it must stay until the exchange is over. */
static int begin_exchange(
    struct psc_exchanges *x, uint32_t table, const float *gradient, bool sent, struct co_err *err) {
    struct exchange *e = &x->at[table];
    struct rt_call *call = NULL;
    bool read = e->unread >= x->c->options.recv_after;
    int rc = psc_dense_call(x->c, "exchange", table,
        read ? RPC_FRAME_XCHG_DENSE : RPC_FRAME_PUSH_DENSE, gradient, &call, err);
    if (rc < 0) {
        pthread_mutex_lock(&x->m);
        e->busy = false;
        pthread_mutex_unlock(&x->m);
        psc_client_wake(x->c);
        return rc;
    }
    call->take = read ? psc_dense_check : NULL;
    call->keep = read;
    e->unread = read ? 0 : e->unread;
    call->done = on_exchanged;
    return psc_call_detach(call, sent, err);
}

static void merge_gradient(struct exchange *e, const float *g, size_t n) {
    if (e->merged++ == 0) {
        memcpy(e->sum, g, n * sizeof(float));
        return;
    }
    float *sum = e->sum;
    for (size_t i = 0; i < n; i++) {
        sum[i] += g[i];
    }
}

static bool is_full(const struct psc_exchanges *x, uint32_t table) {
    return x->at[table].busy && x->at[table].merged >= x->c->options.dense_merge_max;
}

static bool is_still_full(struct rt_client *c, const void *table) {
    pthread_mutex_lock(&c->exchanges->m);
    bool full = is_full(c->exchanges, *(const uint32_t *)table);
    pthread_mutex_unlock(&c->exchanges->m);
    return full;
}

/* Blocks while too many gradients wait already. */
static int await_room(struct rt_client *c, uint32_t table, struct co_err *err) {
    int waited = psc_client_await(c, is_still_full, &table);
    int rc = psc_client_failure(c, err);
    if (waited == CO_CANCELED && rc == 0) {
        return co_interrupt_error("exchange", err);
    }
    return waited == 0 || rc < 0
               ? rc
               : co_err_set(err, CO_TIMEOUT, "exchange of table \"%s\": no answer within %lld ms",
                     c->tables[table].name, (long long)c->options.call_timeout_ms);
}

/* Sums the gradient, if an exchange is in flight; else the caller is to send it, and *ret_send is
 * set.  *ret_ready: values that have come, or NULL.  False: there is no room now. */
static bool try_merge(struct psc_exchanges *x, uint32_t table, const float *gradient, size_t n,
    bool *ret_send, struct rt_call **ret_ready) {
    struct exchange *e = &x->at[table];
    pthread_mutex_lock(&x->m);
    bool room = !is_full(x, table);
    *ret_send = room && !e->busy;
    if (room) {
        *ret_ready = co_steal_ptr(e->ready);
    }
    if (!e->sum) {
        e->sum = co_huge_xalloc(n * sizeof(float));
        e->sending = co_huge_xalloc(n * sizeof(float));
    }
    if (*ret_send) {
        e->busy = true;
        e->unread++;
    } else if (room) {
        merge_gradient(e, gradient, n);
    }
    pthread_mutex_unlock(&x->m);
    return room;
}

static int exchange_async(struct rt_client *c, uint32_t table, const float *gradient, float *w,
    size_t n, struct co_err *err) {
    struct rt_call *fresh = NULL;
    bool send = false;
    do {
        CO_TRY(await_room(c, table, err));
    } while (!try_merge(c->exchanges, table, gradient, n, &send, &fresh));
    for (uint32_t i = 0; fresh && i < fresh->n_parts; i++) {
        const struct psc_part *p = &fresh->parts[i];
        table_widen(fresh->table->wire, w + p->begin, p->frame->payload, p->n);
    }
    psc_call_free(fresh);
    return send ? begin_exchange(c->exchanges, table, gradient, true, err) : 0;
}

int rt_exchange_dense(
    struct rt_client *c, uint32_t table, const float *gradient, float *w, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_client_table(c, table, RT_DENSE, &t, err));
    CO_TRY(psc_client_refusal(c, err));
    switch (t->spec.mode) {
    case RT_GEO:
        return psc_geo_push_dense(c->geo, table, gradient, w, err);
    case RT_SYNC:
        pthread_mutex_lock(&c->exchanges->m);
        c->exchanges->at[table].w = w;
        pthread_mutex_unlock(&c->exchanges->m);
        return psc_send_values(c, table, gradient, err);
    default:
        return exchange_async(c, table, gradient, w, t->spec.size, err);
    }
}
