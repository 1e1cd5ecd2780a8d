#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/client_internal.h"
#include "runtime/train/rpc/bytes.h"

/* ---- one part a chunk ---- */

static uint32_t count_chunks(const struct rt_client *c, struct rt_range whole) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < c->n_links; s++) {
        struct rt_range mine = rt_dense_part(whole, c->n_links, s);
        uint32_t shards = c->base[s + 1] - c->base[s];
        for (uint32_t t = 0; t < shards; t++) {
            n += rt_dense_chunks(rt_dense_part(mine, shards, t).n);
        }
    }
    return n;
}

struct chunk {
    uint32_t table, server, shard, chunk;
    struct rt_range range;
};

static void fill_chunk(
    const struct rt_call *call, const struct rt_part *p, unsigned char *payload) {
    rt_copy_f32(payload, call->in + p->begin, p->n);
}

static size_t answer_bytes(const struct rt_table *t, uint8_t kind, size_t n) {
    switch (kind) {
    case RT_FRAME_PULL_DENSE:
    case RT_FRAME_XCHG_DENSE:
        return n * sizeof(float);
    case RT_FRAME_GET_DENSE:
        return (n + rt_table_state(t, n)) * sizeof(float);
    default:
        return 0;
    }
}

static size_t request_floats(const struct rt_table *t, uint8_t kind, size_t n) {
    switch (kind) {
    case RT_FRAME_PUSH_DENSE:
    case RT_FRAME_XCHG_DENSE:
    case RT_FRAME_PUT_DENSE:
        return n;
    case RT_FRAME_RESTORE_DENSE:
        return n + rt_table_state(t, n);
    default:
        return 0;
    }
}

static void add_part(struct rt_call *call, uint32_t i, uint8_t kind, const struct chunk *k) {
    size_t n = k->range.n, floats = request_floats(call->table, kind, n);
    struct rt_frame_head head = {.kind = kind,
        .table = (uint16_t)k->table,
        .shard = k->shard,
        .aux = k->chunk,
        .count = (uint32_t)(floats > 0 ? floats : n),
        .bytes = (uint32_t)(floats * sizeof(float))};
    rt_call_part(call, i, k->server, &head, answer_bytes(call->table, kind, n));
    call->parts[i].begin = k->range.begin;
    call->parts[i].n = (uint32_t)n;
}

int rt_dense_call(struct rt_client *c, const char *what, uint32_t table, uint8_t kind,
    const float *values, struct rt_call **ret, struct co_err *err) {
    const struct rt_table *t = NULL;
    int rc = rt_client_table(c, table, RT_DENSE, &t, err);
    if (rc < 0) {
        return rc;
    }
    struct rt_range whole = {0, t->spec.size};
    struct rt_call *call = rt_call_new(c, what, t, count_chunks(c, whole));
    call->fill = fill_chunk;
    call->in = values;
    struct chunk k = {.table = table};
    uint32_t n = 0;
    for (k.server = 0; k.server < c->n_links; k.server++) {
        struct rt_range mine = rt_dense_part(whole, c->n_links, k.server);
        uint32_t shards = c->base[k.server + 1] - c->base[k.server];
        for (k.shard = 0; k.shard < shards; k.shard++) {
            struct rt_range shard = rt_dense_part(mine, shards, k.shard);
            for (k.chunk = 0; k.chunk < rt_dense_chunks(shard.n); k.chunk++) {
                k.range = rt_dense_chunk(shard, k.chunk);
                add_part(call, n++, kind, &k);
            }
        }
    }
    *ret = call;
    return 0;
}

int rt_dense_take(
    struct rt_call *call, struct rt_part *p, const struct rt_frame *a, struct co_err *err) {
    if (a->head.bytes != (uint64_t)p->n * sizeof(float)) {
        return co_err_set(err, CO_INVALID, "%u bytes for %u values", a->head.bytes, p->n);
    }
    rt_copy_f32(call->out + p->begin, a->payload, p->n);
    return 0;
}

/* ---- pull, push, put ---- */

int rt_pull_dense(struct rt_client *c, uint32_t table, float *ret_w, struct co_err *err) {
    struct rt_call *call = NULL;
    int rc = rt_dense_call(c, "pull", table, RT_FRAME_PULL_DENSE, NULL, &call, err);
    if (rc < 0) {
        return rc;
    }
    call->take = rt_dense_take;
    call->out = ret_w;
    rt_call_start(call);
    return rt_call_wait(call, c->options.call_timeout_ms, err);
}

int rt_push_dense(struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err) {
    struct rt_call *call = NULL;
    int rc = rt_dense_call(c, "push", table, RT_FRAME_PUSH_DENSE, gradient, &call, err);
    if (rc < 0) {
        return rc;
    }
    call->done = rt_call_free;
    return rt_call_detach(call, true, err);
}

int rt_init_dense(struct rt_client *c, uint32_t table, float *values, struct co_err *err) {
    if (c->trainer == 0 && !rt_client_behind(c)) {
        struct rt_call *call = NULL;
        int rc = rt_dense_call(c, "init", table, RT_FRAME_PUT_DENSE, values, &call, err);
        if (rc < 0) {
            return rc;
        }
        rt_call_start(call);
        rc = rt_call_wait(call, c->options.call_timeout_ms, err);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = rt_barrier(c, err);
    return rc < 0 ? rc : rt_pull_dense(c, table, values, err);
}

/* ---- exchange ---- */

static int begin_exchange(
    struct rt_client *c, uint32_t table, const float *gradient, bool sent, struct co_err *err);

void rt_exchange_free(struct rt_exchange *x) {
    free(x->sum);
    free(x->sending);
    rt_call_free(x->ready);
    *x = (struct rt_exchange){0};
}

/* The lock is held and busy is the caller's: takes what has gathered. */
static void take_sum(struct rt_client *c, struct rt_exchange *x) {
    float *t = x->sum;
    x->sum = x->sending;
    x->sending = t;
    x->merged = 0;
    pthread_cond_broadcast(&c->changed);
}

/* The answer of an exchange is there: gradients that gathered meanwhile go next. */
static void on_exchanged(struct rt_call *call) {
    struct rt_client *c = call->c;
    uint32_t table = (uint32_t)(call->table - c->tables);
    struct rt_exchange *x = &c->exchanges[table];
    pthread_mutex_lock(&c->m);
    bool failed = call->err.code != 0 || c->failed.code != 0;
    struct rt_call *old = failed ? call : x->ready;
    if (!failed) {
        x->ready = call;
    }
    x->busy = !failed && x->merged > 0;
    bool again = x->busy;
    if (again) {
        take_sum(c, x);
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->m);
    rt_call_free(old);
    if (again) {
        /* Failures are kept by the client. */
        (void)!begin_exchange(c, table, x->sending, false, NULL);
    }
}

static int check_size(
    struct rt_call *call, struct rt_part *p, const struct rt_frame *a, struct co_err *err) {
    (void)call;
    return a->head.bytes == (uint64_t)p->n * sizeof(float)
               ? 0
               : co_err_set(err, CO_INVALID, "%u bytes for %u values", a->head.bytes, p->n);
}

/* busy is set: nobody else is here for this table.  sent: the gradient is not needed afterwards;
 * else it stays until the exchange is over. */
static int begin_exchange(
    struct rt_client *c, uint32_t table, const float *gradient, bool sent, struct co_err *err) {
    struct rt_call *call = NULL;
    int rc = rt_dense_call(c, "exchange", table, RT_FRAME_XCHG_DENSE, gradient, &call, err);
    if (rc < 0) {
        pthread_mutex_lock(&c->m);
        c->exchanges[table].busy = false;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->m);
        return rc;
    }
    call->take = check_size;
    call->keep = true;
    call->done = on_exchanged;
    return rt_call_detach(call, sent, err);
}

static void merge_gradient(struct rt_exchange *x, const float *g, size_t n) {
    if (x->merged++ == 0) {
        memcpy(x->sum, g, n * sizeof(float));
        return;
    }
    float *sum = x->sum;
    for (size_t i = 0; i < n; i++) {
        sum[i] += g[i];
    }
}

/* Waits while too many gradients wait already; the lock is held. */
static int await_room(struct rt_client *c, uint32_t table, struct co_err *err) {
    const struct rt_exchange *x = &c->exchanges[table];
    int64_t begin = net_now();
    bool in_time = true;
    while (x->busy && x->merged >= c->options.dense_merge_max && !c->failed.code && in_time) {
        in_time = rt_client_wait_moved(c, begin, &c->moved_ms, c->options.call_timeout_ms);
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
    struct rt_exchange *x = &c->exchanges[table];
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
    } else {
        merge_gradient(x, gradient, n);
    }
    pthread_mutex_unlock(&c->m);
    for (uint32_t i = 0; fresh && i < fresh->n_parts; i++) {
        rt_copy_f32(w + fresh->parts[i].begin, fresh->parts[i].frame->payload, fresh->parts[i].n);
    }
    rt_call_free(fresh);
    return send ? begin_exchange(c, table, gradient, true, err) : 0;
}

int rt_exchange_dense(
    struct rt_client *c, uint32_t table, const float *gradient, float *w, struct co_err *err) {
    const struct rt_table *t = NULL;
    int rc = rt_client_table(c, table, RT_DENSE, &t, err);
    if (rc < 0) {
        return rc;
    }
    if (c->options.mode == RT_ASYNC) {
        return exchange_async(c, table, gradient, w, t->spec.size, err);
    }
    c->exchanges[table].w = w;
    return rt_push_dense(c, table, gradient, err);
}
