/* Packs control messages (control.proto) into frames and unpacks them.  Limits are checked before
 * anything is unpacked.  Any thread. */
#include "runtime/train/ps/control.h"

int rt_control_pack(const Rt__Control *c, const struct rt_frame_head *request,
    struct rt_frame **ret, struct co_err *err) {
    size_t size = rt__control__get_packed_size(c);
    if (size > RT_FRAME_CONTROL_MAX) {
        return co_err_set(err, CO_NORESOURCE, "control message of %zu bytes exceeds %d", size,
            RT_FRAME_CONTROL_MAX);
    }
    uint8_t kind = RT_FRAME_CONTROL;
    if (request) {
        kind |= RT_FRAME_ANSWER;
    }
    int rc = rt_frame_new(kind, size, ret, err);
    if (rc == 0) {
        (*ret)->head.seq = request ? request->seq : 0;
        (void)rt__control__pack(c, (*ret)->payload);
    }
    return rc;
}

int rt_control_unpack(const struct rt_frame *f, Rt__Control **ret, struct co_err *err) {
    Rt__Control *c = f->head.bytes <= RT_FRAME_CONTROL_MAX
                         ? rt__control__unpack(NULL, f->head.bytes, f->payload)
                         : NULL;
    if (!c) {
        return co_err_set(
            err, CO_INVALID, "control message of %u bytes cannot be read", f->head.bytes);
    }
    *ret = c;
    return 0;
}

int rt_control_mode(const Rt__Hello *h, enum rt_mode *ret, struct co_err *err) {
    if (h->mode > RT_GEO) {
        return co_err_set(err, CO_INVALID, "mode %u is unknown", h->mode);
    }
    *ret = h->mode == RT_MODE_UNSET ? RT_ASYNC : (enum rt_mode)h->mode;
    return 0;
}

int rt_control_tables(const Rt__Hello *h, struct rt_table **ret_tables, struct co_err *err) {
    if (h->n_tables > RT_TABLES_MAX) {
        return co_err_set(err, CO_INVALID, "%zu tables, at most %d", h->n_tables, RT_TABLES_MAX);
    }
    enum rt_mode mode = RT_MODE_UNSET;
    int rc = rt_control_mode(h, &mode, err);
    if (rc < 0) {
        return rc;
    }
    CO_AUTOFREE struct rt_table *tables = co_xcalloc(h->n_tables, sizeof(*tables));
    for (size_t i = 0; i < h->n_tables; i++) {
        const Rt__Table *t = h->tables[i];
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
        rc = rt_table_make(&spec, &tables[i], err);
        rc = rc < 0 ? rc : rt_table_fits(&tables[i], mode, err);
        if (rc < 0) {
            return rc;
        }
    }
    rt_tables_take_turns(tables, (uint32_t)h->n_tables);
    *ret_tables = co_steal_ptr(tables);
    return 0;
}
