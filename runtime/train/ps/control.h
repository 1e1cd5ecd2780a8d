/* Control messages (control.proto) as frames: packs and unpacks them, and checks limits.  Pure
 * functions, for servers and trainers. */
#pragma once

#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/control.pb-c.h"
#include "runtime/train/rpc/frame.h"

/* request: the one that the frame answers; NULL: the frame is a request. */
CO_MUST_CHECK int rt_control_pack(const Rt__Control *c, const struct rt_frame_head *request,
    struct rt_frame **ret, struct co_err *err);
/* Free with rt_control_free. */
CO_MUST_CHECK int rt_control_unpack(
    const struct rt_frame *f, Rt__Control **ret, struct co_err *err);
static inline void rt_control_free(Rt__Control *c) {
    rt__control__free_unpacked(c, NULL);
}
CO_DEFINE_CLEANUP(Rt__Control *, rt_control_free)

/* The job's mode in a hello; async if it has none.  CO_INVALID: an unknown mode. */
CO_MUST_CHECK int rt_control_mode(const Rt__Hello *h, enum rt_mode *ret, struct co_err *err);
/* Checks the tables of a hello.  The caller frees *ret_tables. */
CO_MUST_CHECK int rt_control_tables(
    const Rt__Hello *h, struct rt_table **ret_tables, struct co_err *err);
