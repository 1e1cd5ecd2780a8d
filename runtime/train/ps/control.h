/* Control messages as frames: packing and unpacking with limits.  Pure. */
#pragma once

#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/control.pb-c.h"
#include "runtime/train/rpc/frame.h"

/* A request, or with `request` an answer to it. */
CO_MUST_CHECK int rt_control_pack(const Rt__Control *c, const struct rt_frame_head *request,
    struct rt_frame **ret, struct co_err *err);
/* Free with rt_control_free. */
CO_MUST_CHECK int rt_control_unpack(
    const struct rt_frame *f, Rt__Control **ret, struct co_err *err);
static inline void rt_control_free(Rt__Control *c) {
    rt__control__free_unpacked(c, NULL);
}
CO_DEFINE_CLEANUP(Rt__Control *, rt_control_free)

/* Checks the tables of a hello; *ret_tables is allocated, the caller frees. */
CO_MUST_CHECK int rt_control_tables(
    const Rt__Hello *h, struct rt_table **ret_tables, struct co_err *err);
