/* Dense tables on a trainer: pull, push and init; exchange.c exchanges.  A call has one part for
 * each chunk of the table; spec.h says which server and shard has it.
 *
 * Calls run on the program's threads.  take and done functions run on the thread that read the
 * answer. */
#include <string.h>

#include "common/bytes.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/finite.h"
#include "runtime/train/table/int8.h"
#include "runtime/train/table/narrow.h"

/* ---- one part for each chunk ---- */

static uint32_t shards_of(const struct rt_client *c, uint32_t server) {
    return c->base[server + 1] - c->base[server];
}

static struct ps_range share_of(
    const struct rt_client *c, const struct ps_table *t, uint32_t server, uint32_t shard) {
    const struct ps_shard_position place = {server, c->n_servers, shard, shards_of(c, server)};
    return ps_dense_share(t, &place);
}

static uint32_t count_chunks(const struct rt_client *c, const struct ps_table *t) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < c->n_servers; s++) {
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

static bool is_int8(const struct ps_table *t, uint8_t kind) {
    return t->int8 && kind == RPC_FRAME_PUSH_DENSE;
}

static void fill_chunk(
    const struct rt_call *call, const struct psc_part *p, unsigned char *payload) {
    if (is_int8(call->table, p->head.kind)) {
        float *rest = psc_exchanges_rest(call->c->exchanges, p->head.table);
        table_int8_send(payload, call->in + p->begin, rest + p->begin, p->n);
        return;
    }
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
        .bytes = (uint32_t)(is_int8(call->table, kind)
                                ? table_int8_bytes(n)
                                : floats * table_storage_size(wire_of(call->table, kind)))};
    psc_call_part(call, i, k->server, &head, answer_bytes(call->table, kind, n));
    call->parts[i].begin = k->range.begin;
    call->parts[i].n = (uint32_t)n;
}

int psc_dense_call(struct rt_client *c, const char *what, uint32_t table, uint8_t kind,
    const float *values, struct rt_call **ret, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_client_table(c, table, RT_DENSE, &t, err));
    struct ps_range whole = {0, t->spec.size};
    bool bad = request_floats(t, kind, 1) > 0 && !is_finite(t, kind, values, whole) &&
               psc_client_nonfinite(c) <= RT_NONFINITE_REFUSE;
    struct rt_call *call = psc_call_new(c, what, t, count_chunks(c, t));
    call->fill = fill_chunk;
    call->in = values;
    struct chunk k = {.table = table};
    uint32_t n = 0;
    for (k.server = 0; k.server < c->n_servers; k.server++) {
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

int psc_dense_check(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    return a->head.bytes == (uint64_t)p->n * table_storage_size(call->table->wire)
               ? 0
               : co_err_set(err, CO_INVALID, "%u bytes for %u values", a->head.bytes, p->n);
}

int psc_dense_take(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    CO_TRY(psc_dense_check(call, p, a, err));
    table_widen(call->table->wire, call->out + p->begin, a->payload, p->n);
    return 0;
}

/* int8: all values of the chunk, or what has changed since the version that the trainer has. */
static int take_change(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    struct psc_known *k = call->arg;
    uint32_t *version = &k->versions[p - call->parts];
    float *known = k->w + p->begin;
    if (a->head.bytes == (uint64_t)p->n * sizeof(float)) {
        co_copy_f32(known, a->payload, p->n);
    } else if (*version != 0 && a->head.aux == (uint64_t)*version + 1 &&
               a->head.bytes == table_int8_bytes(p->n)) {
        table_int8_add(known, a->payload, p->n);
    } else {
        return co_err_set(err, CO_INVALID, "%u bytes for %u values, version %llu after %u",
            a->head.bytes, p->n, (unsigned long long)a->head.aux, *version);
    }
    *version = (uint32_t)a->head.aux;
    memcpy(call->out + p->begin, known, p->n * sizeof(float));
    return 0;
}

/* Asks for what has changed since the versions that the trainer has. */
static void ask_change(struct rt_call *call, uint32_t table) {
    struct psc_known *k = psc_exchanges_known(call->c->exchanges, table, call->n_parts);
    call->take = take_change;
    call->arg = k;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        call->parts[i].head.aux |= (uint64_t)k->versions[i] << 32;
    }
}

/* ---- pull, push, put ---- */

int psc_values_call(struct rt_client *c, uint32_t table, float *ret_w, uint64_t after,
    struct rt_call **ret, struct co_err *err) {
    CO_TRY(psc_dense_call(c, "pull", table, RPC_FRAME_PULL_DENSE, NULL, ret, err));
    (*ret)->take = psc_dense_take;
    (*ret)->out = ret_w;
    for (uint32_t i = 0; i < (*ret)->n_parts; i++) {
        (*ret)->parts[i].head.number = after;
    }
    if (after > 0 && (*ret)->table->int8) {
        ask_change(*ret, table);
    }
    return 0;
}

int psc_pull_values(struct rt_client *c, uint32_t table, float *ret_w, struct co_err *err) {
    struct rt_call *call = NULL;
    CO_TRY(psc_values_call(c, table, ret_w, 0, &call, err));
    call->reads = true;
    psc_call_start(call);
    return psc_call_wait(call, c->options.call_timeout_ms, err);
}

int rt_pull_dense(struct rt_client *c, uint32_t table, float *ret_w, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_client_table(c, table, RT_DENSE, &t, err));
    return t->spec.mode == RT_GEO ? psc_geo_pull_dense(c->geo, table, ret_w, err)
                                  : psc_pull_values(c, table, ret_w, err);
}

int psc_send_values(
    struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err) {
    struct rt_call *call = NULL;
    CO_TRY(psc_dense_call(c, "push", table, RPC_FRAME_PUSH_DENSE, gradient, &call, err));
    call->done = psc_call_free;
    return psc_call_detach(call, true, err);
}

int rt_push_dense(struct rt_client *c, uint32_t table, const float *gradient, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_client_table(c, table, RT_DENSE, &t, err));
    CO_TRY(psc_client_refusal(c, err));
    return t->spec.mode == RT_GEO ? psc_geo_push_dense(c->geo, table, gradient, NULL, err)
                                  : psc_send_values(c, table, gradient, err);
}

int rt_init_dense(struct rt_client *c, uint32_t table, float *values, struct co_err *err) {
    CO_TRY(psc_client_whole(c, err));
    if (c->trainer == 0 && !psc_client_behind(c) && !psc_client_restored(c)) {
        struct rt_call *call = NULL;
        CO_TRY(psc_dense_call(c, "init", table, RPC_FRAME_PUT_DENSE, values, &call, err));
        psc_call_start(call);
        CO_TRY(psc_call_wait(call, c->options.call_timeout_ms, err));
    }
    CO_TRY(rt_barrier(c, err));
    int rc = rt_pull_dense(c, table, values, err);
    if (rc == CO_GONE ||
        rc == CO_CANCELED) { /* the program calls it again, and it passes the same barrier */
        c->progress.barriers--;
    }
    return rc;
}
