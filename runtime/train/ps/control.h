/* Control messages (control.proto) as frames: packs and unpacks them, and checks limits.  Pure
 * functions, for servers and trainers. */
#pragma once

#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/control.pb-c.h"
#include "runtime/train/rpc/frame.h"

/* request: the one that the frame answers; NULL: the frame is a request. */
CO_MUST_CHECK int ps_control_pack(const Rpc__Control *c, const struct rpc_frame_head *request,
    struct rpc_frame **ret, struct co_err *err);
/* Free with ps_control_free. */
CO_MUST_CHECK int ps_control_unpack(
    const struct rpc_frame *f, Rpc__Control **ret, struct co_err *err);
static inline void ps_control_free(Rpc__Control *c) {
    rpc__control__free_unpacked(c, NULL);
}
CO_DEFINE_CLEANUP(Rpc__Control *, ps_control_free)

/* The job's mode in a hello; async if it has none.  CO_INVALID: an unknown mode. */
CO_MUST_CHECK int ps_control_mode(const Rpc__Hello *h, enum rt_mode *ret, struct co_err *err);
/* Checks the tables of a hello.  The caller frees *ret_tables. */
CO_MUST_CHECK int ps_control_tables(
    const Rpc__Hello *h, struct ps_table **ret_tables, struct co_err *err);
