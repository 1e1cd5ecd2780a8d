/* Packs control messages (control.proto) into frames and unpacks them.  Limits are checked before
 * anything is unpacked.  Any thread. */
#include "runtime/train/ps/control.h"

int ps_control_pack(const Rpc__Control *c, const struct rpc_frame_head *request,
    struct rpc_frame **ret, struct co_err *err) {
    size_t size = rpc__control__get_packed_size(c);
    if (size > RPC_FRAME_CONTROL_MAX) {
        return co_err_set(err, CO_NORESOURCE, "control message of %zu bytes exceeds %d", size,
            RPC_FRAME_CONTROL_MAX);
    }
    uint8_t kind = RPC_FRAME_CONTROL;
    if (request) {
        kind |= RPC_FRAME_ANSWER;
    }
    CO_TRY(rpc_frame_new(kind, size, ret, err));
    (*ret)->head.seq = request ? request->seq : 0;
    (void)rpc__control__pack(c, (*ret)->payload);
    return 0;
}

int ps_control_unpack(const struct rpc_frame *f, Rpc__Control **ret, struct co_err *err) {
    Rpc__Control *c = f->head.bytes <= RPC_FRAME_CONTROL_MAX
                          ? rpc__control__unpack(NULL, f->head.bytes, f->payload)
                          : NULL;
    if (!c) {
        return co_err_set(
            err, CO_INVALID, "control message of %u bytes cannot be read", f->head.bytes);
    }
    *ret = c;
    return 0;
}

int ps_control_mode(const Rpc__Hello *h, enum rt_mode *ret, struct co_err *err) {
    if (h->mode > RT_GEO) {
        return co_err_set(err, CO_INVALID, "mode %u is unknown", h->mode);
    }
    *ret = h->mode == RT_MODE_UNSET ? RT_ASYNC : (enum rt_mode)h->mode;
    return 0;
}

int ps_control_tables(const Rpc__Hello *h, struct ps_table **ret_tables, struct co_err *err) {
    if (h->n_tables > PS_TABLES_MAX) {
        return co_err_set(err, CO_INVALID, "%zu tables, at most %d", h->n_tables, PS_TABLES_MAX);
    }
    enum rt_mode mode = RT_MODE_UNSET;
    CO_TRY(ps_control_mode(h, &mode, err));
    CO_AUTOFREE struct ps_table *tables = co_xcalloc(h->n_tables, sizeof(*tables));
    for (size_t i = 0; i < h->n_tables; i++) {
        const Rpc__Table *t = h->tables[i];
        struct rt_table_spec spec = {
            .name = t->name,
            .kind = t->kind <= RT_SPARSE ? (enum rt_table_kind)t->kind : RT_SPARSE,
            .size = t->size,
            .dim = t->dim,
            .optimizer = t->optimizer,
            .init = t->init,
            .seed = t->seed,
            .mode = t->mode == RT_MODE_UNSET ? mode
                    : t->mode <= RT_GEO      ? (enum rt_mode)t->mode
                                             : RT_GEO + 1,
            .schedule = t->schedule,
            .storage = t->storage,
            .wire = t->wire,
            .admit = t->admit,
            .evict = t->evict,
        };
        CO_TRY(ps_table_make(&spec, &tables[i], err));
        CO_TRY(ps_table_fits(&tables[i], mode, err));
    }
    ps_tables_take_turns(tables, (uint32_t)h->n_tables);
    *ret_tables = co_steal_ptr(tables);
    return 0;
}
