/* Dense tables on a trainer: pull, push, init and exchange.  A call has one part for each chunk of
 * the table; spec.h says which server and shard has it.
 *
 * Calls run on the program's threads.  take and done functions run on the thread that read the
 * answer. */
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/finite.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/table/narrow.h"

/* ---- one part for each chunk ---- */

static uint32_t shards_of(const struct rt_client *c, uint32_t server) {
    return c->base[server + 1] - c->base[server];
}

static struct ps_range share_of(
    const struct rt_client *c, const struct ps_table *t, uint32_t server, uint32_t shard) {
    const struct ps_shard_position place = {server, c->n_links, shard, shards_of(c, server)};
    return ps_dense_share(t, &place);
}

static uint32_t count_chunks(const struct rt_client *c, const struct ps_table *t) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < c->n_links; s++) {
        for (uint32_t k = 0; k < shards_of(c, s); k++) {
            n += ps_dense_chunks(share_of(c, t, s, k).n);
        }
    }
    return n;
}

struct chunk {
    uint32_t table, server, shard, chunk;
    struct ps_range range;
};

/* The type in which values travel.  Gradients and values for training may have fewer bits; what is
 * initialised, saved or restored is f32. */
static enum rt_dtype wire_of(const struct ps_table *t, uint8_t kind) {
    return rpc_frame_narrows(kind) ? t->wire : RT_F32;
}

static void fill_chunk(
    const struct rt_call *call, const struct psc_part *p, unsigned char *payload) {
    table_narrow(wire_of(call->table, p->head.kind), payload, call->in + p->begin, p->n);
}

static size_t answer_bytes(const struct ps_table *t, uint8_t kind, size_t n) {
    switch (kind) {
    case RPC_FRAME_PULL_DENSE:
    case RPC_FRAME_XCHG_DENSE:
        return n * table_storage_size(t->wire);
    case RPC_FRAME_GET_DENSE:
        return (n + ps_table_state(t, n)) * sizeof(float);
    default:
        return 0;
    }
}

static size_t request_floats(const struct ps_table *t, uint8_t kind, size_t n) {
    switch (kind) {
    case RPC_FRAME_PUSH_DENSE:
    case RPC_FRAME_XCHG_DENSE:
    case RPC_FRAME_PUT_DENSE:
        return n;
    case RPC_FRAME_RESTORE_DENSE:
        return n + ps_table_state(t, n);
    default:
        return 0;
    }
}

/* Checks this range of the values and, in a restore, of each plane of optimizer state. */
static bool is_finite(
    const struct ps_table *t, uint8_t kind, const float *values, struct ps_range range) {
    size_t planes = kind == RPC_FRAME_RESTORE_DENSE ? t->optim.rule->planes : 0;
    bool finite = true;
    for (size_t p = 0; p <= planes && finite; p++) {
        finite = ps_all_finite_f32(values + p * t->spec.size + range.begin, range.n);
    }
    return finite;
}

static void add_part(struct rt_call *call, uint32_t i, uint8_t kind, const struct chunk *k) {
    size_t n = k->range.n, floats = request_floats(call->table, kind, n);
    struct rpc_frame_head head = {.kind = kind,
        .table = (uint16_t)k->table,
        .shard = k->shard,
        .aux = k->chunk,
        .count = (uint32_t)(floats > 0 ? floats : n),
        .bytes = (uint32_t)(floats * table_storage_size(wire_of(call->table, kind)))};
    psc_call_part(call, i, k->server, &head, answer_bytes(call->table, kind, n));
    call->parts[i].begin = k->range.begin;
    call->parts[i].n = (uint32_t)n;
}

int psc_dense_call(struct rt_client *c, const char *what, uint32_t table, uint8_t kind,
    const float *values, struct rt_call **ret, struct co_err *err) {
    const struct ps_table *t = NULL;
    int rc = psc_client_table(c, table, RT_DENSE, &t, err);
    if (rc < 0) {
        return rc;
    }
    struct ps_range whole = {0, t->spec.size};
    bool bad = request_floats(t, kind, 1) > 0 && !is_finite(t, kind, values, whole) &&
               psc_client_nonfinite(c) <= RT_NONFINITE_REFUSE;
    struct rt_call *call = psc_call_new(c, what, t, count_chunks(c, t));
    call->fill = fill_chunk;
    call->in = values;
    struct chunk k = {.table = table};
    uint32_t n = 0;
    for (k.server = 0; k.server < c->n_links; k.server++) {
        for (k.shard = 0; k.shard < shards_of(c, k.server); k.shard++) {
            struct ps_range shard = share_of(c, t, k.server, k.shard);
            for (k.chunk = 0; k.chunk < ps_dense_chunks(shard.n); k.chunk++) {
                k.range = ps_dense_chunk(shard, k.chunk);
                if (!bad || !is_finite(t, kind, values, k.range)) {
                    add_part(call, n++, kind, &k);
                }
            }
        }
    }
    call->n_parts = n;
    *ret = call;
    return 0;
}

static int check_size(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    return a->head.bytes == (uint64_t)p->n * table_storage_size(call->table->wire)
               ? 0
               : co_err_set(err, CO_INVALID, "%u bytes for %u values", a->head.bytes, p->n);
}

int psc_dense_take(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    int rc = check_size(call, p, a, err);
    if (rc == 0) {
        table_widen(call->table->wire, call->out + p->begin, a->payload, p->n);
    }
    return rc;
}

/* ---- pull, push, put ---- */

int psc_values_call(struct rt_client *c, uint32_t table, float *ret_w, uint64_t after,
    struct rt_call **ret, struct co_err *err) {
    int rc = psc_dense_call(c, "pull", table, RPC_FRAME_PULL_DENSE, NULL, ret, err);
    if (rc < 0) {
        return rc;
    }
    (*ret)->take = psc_dense_take;
    (*ret)->out = ret_w;
    for (uint32_t i = 0; i < (*ret)->n_parts; i++) {
        (*ret)->parts[i].head.number = after;
    }
    return 0;
}

int psc_pull_values(struct rt_client *c, uint32_t table, float *ret_w, struct co_err *err) {
    struct rt_call *call = NULL;
    int rc = psc_values_call(c, table, ret_w, 0, &call, err);
    if (rc < 0) {
        return rc;
    }
    psc_call_start(call);
    return psc_call_wait(call, c->options.call_timeout_ms, err);
}

int rt_pull_dense(struct rt_client *c, uint32_t table, float *ret_w, struct co_err *err) {
    const struct ps_table *t = NULL;
    int rc = psc_client_table(c, table, RT_DENSE, &t, err);
    if (rc < 0) {
        return rc;
    }
    return t->spec.mode == RT_GEO ? psc_geo_pull_dense(c->geo, table, ret_w, err)
                                  : psc_pull_values(c, table, ret_w, err);
}

int psc_send_values(
    struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err) {
    struct rt_call *call = NULL;
    int rc = psc_dense_call(c, "push", table, RPC_FRAME_PUSH_DENSE, gradient, &call, err);
    if (rc < 0) {
        return rc;
    }
    call->done = psc_call_free;
    return psc_call_detach(call, true, err);
}

int rt_push_dense(struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err) {
    const struct ps_table *t = NULL;
    int rc = psc_client_table(c, table, RT_DENSE, &t, err);
    rc = rc < 0 ? rc : psc_client_refusal(c, err);
    if (rc < 0) {
        return rc;
    }
    return t->spec.mode == RT_GEO ? psc_geo_push_dense(c->geo, table, gradient, NULL, err)
                                  : psc_send_values(c, table, gradient, err);
}

int rt_init_dense(struct rt_client *c, uint32_t table, float *values, struct co_err *err) {
    int here = psc_client_whole(c, err);
    if (here < 0) {
        return here;
    }
    if (c->trainer == 0 && !psc_client_behind(c) && !psc_client_restored(c)) {
        struct rt_call *call = NULL;
        int rc = psc_dense_call(c, "init", table, RPC_FRAME_PUT_DENSE, values, &call, err);
        if (rc < 0) {
            return rc;
        }
        psc_call_start(call);
        rc = psc_call_wait(call, c->options.call_timeout_ms, err);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = rt_barrier(c, err);
    if (rc < 0) {
        return rc;
    }
    rc = rt_pull_dense(c, table, values, err);
    if (rc == CO_GONE) { /* the program calls it again, and it passes the same barrier */
        c->progress.barriers--;
    }
    return rc;
}

/* ---- exchange ---- */

static int begin_exchange(
    struct rt_client *c, uint32_t table, const float *gradient, bool sent, struct co_err *err);

void psc_exchange_free(struct psc_exchange *x) {
    free(x->sum);
    free(x->sending);
    psc_call_free(x->ready);
    *x = (struct psc_exchange){0};
}

/* Takes the sum of waiting gradients, to send it.  c->m is held, and the caller has set busy. */
static void take_sum(struct rt_client *c, struct psc_exchange *x) {
    float *t = x->sum;
    x->sum = x->sending;
    x->sending = t;
    x->unread += x->merged;
    x->merged = 0;
    psc_client_changed(c);
}

/* Runs when an exchange is over: keeps its values for the trainer, and sends the gradients that
 * have come meanwhile. */
static void on_exchanged(struct rt_call *call) {
    struct rt_client *c = call->c;
    uint32_t table = (uint32_t)(call->table - c->tables);
    struct psc_exchange *x = &c->exchanges[table];
    pthread_mutex_lock(&c->m);
    bool failed = c->failed.code != 0;
    struct rt_call *old = call;
    if (!failed && !call->err.code && call->keep) {
        old = x->ready;
        x->ready = call;
    }
    x->busy = !failed && x->merged > 0;
    bool again = x->busy;
    uint32_t merged = x->merged;
    if (again) {
        take_sum(c, x);
    }
    psc_client_changed(c);
    pthread_mutex_unlock(&c->m);
    psc_call_free(old);
    if (again) {
        if (c->options.merge_mean) {
            ps_mean(x->sending, c->tables[table].spec.size, merged);
        }
        /* The client keeps the failure. */
        (void)!begin_exchange(c, table, x->sending, false, NULL);
    }
}

/* Sends a gradient.  The caller has set busy, so no other thread is here for this table.  sent:
 * the gradient is not read after the return; otherwise it must stay until the exchange is over. */
static int begin_exchange(
    struct rt_client *c, uint32_t table, const float *gradient, bool sent, struct co_err *err) {
    struct rt_call *call = NULL;
    bool read = c->exchanges[table].unread >= c->options.recv_after;
    int rc = psc_dense_call(c, "exchange", table,
        read ? RPC_FRAME_XCHG_DENSE : RPC_FRAME_PUSH_DENSE, gradient, &call, err);
    if (rc < 0) {
        pthread_mutex_lock(&c->m);
        c->exchanges[table].busy = false;
        psc_client_changed(c);
        pthread_mutex_unlock(&c->m);
        return rc;
    }
    call->take = read ? check_size : NULL;
    call->keep = read;
    c->exchanges[table].unread = read ? 0 : c->exchanges[table].unread;
    call->done = on_exchanged;
    return psc_call_detach(call, sent, err);
}

static void merge_gradient(struct psc_exchange *x, const float *g, size_t n) {
    if (x->merged++ == 0) {
        memcpy(x->sum, g, n * sizeof(float));
        return;
    }
    float *sum = x->sum;
    for (size_t i = 0; i < n; i++) {
        sum[i] += g[i];
    }
}

/* Blocks while too many gradients wait already.  c->m is held. */
static int await_room(struct rt_client *c, uint32_t table, struct co_err *err) {
    const struct psc_exchange *x = &c->exchanges[table];
    int64_t begin = psc_client_time(c);
    bool in_time = true;
    while (x->busy && x->merged >= c->options.dense_merge_max && !c->failed.code && in_time) {
        in_time = psc_client_wait_moved(c, begin, &c->moved_ms, c->options.call_timeout_ms);
    }
    if (c->failed.code) {
        return co_err_set(err, c->failed.code, "%s", c->failed.msg);
    }
    return in_time ? 0
                   : co_err_set(err, CO_TIMEOUT, "exchange of table '%s': no answer within %lld ms",
                         c->tables[table].name, (long long)c->options.call_timeout_ms);
}

static int exchange_async(struct rt_client *c, uint32_t table, const float *gradient, float *w,
    size_t n, struct co_err *err) {
    struct psc_exchange *x = &c->exchanges[table];
    pthread_mutex_lock(&c->m);
    if (!x->sum) {
        x->sum = co_xmalloc(n * sizeof(float));
        x->sending = co_xmalloc(n * sizeof(float));
    }
    int rc = await_room(c, table, err);
    if (rc < 0) {
        pthread_mutex_unlock(&c->m);
        return rc;
    }
    bool send = !x->busy;
    struct rt_call *fresh = co_steal_ptr(x->ready);
    if (send) {
        x->busy = true;
        x->unread++;
    } else {
        merge_gradient(x, gradient, n);
    }
    pthread_mutex_unlock(&c->m);
    for (uint32_t i = 0; fresh && i < fresh->n_parts; i++) {
        const struct psc_part *p = &fresh->parts[i];
        table_widen(fresh->table->wire, w + p->begin, p->frame->payload, p->n);
    }
    psc_call_free(fresh);
    return send ? begin_exchange(c, table, gradient, true, err) : 0;
}

int rt_exchange_dense(
    struct rt_client *c, uint32_t table, const float *gradient, float *w, struct co_err *err) {
    const struct ps_table *t = NULL;
    int rc = psc_client_table(c, table, RT_DENSE, &t, err);
    rc = rc < 0 ? rc : psc_client_refusal(c, err);
    if (rc < 0) {
        return rc;
    }
    switch (t->spec.mode) {
    case RT_GEO:
        return psc_geo_push_dense(c->geo, table, gradient, w, err);
    case RT_SYNC:
        c->exchanges[table].w = w;
        return psc_send_values(c, table, gradient, err);
    default:
        return exchange_async(c, table, gradient, w, t->spec.size, err);
    }
}
