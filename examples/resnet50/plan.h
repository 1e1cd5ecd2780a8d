/* A network that is ready to run: its operators' primitives, and one block of memory in which each
 * value has a place while it is needed.  After rn_plan_new nothing is allocated or created.
 *
 * Parameters, gradients and the optimizer's state are flat arrays of rn_plan_storage floats, in one
 * of the orders of rn_order.  Gaps are 0.  Code that works value by value (an optimizer's step, a
 * sum over ranks) needs to know no order.  rn_plan_export and rn_plan_import convert a parameter to
 * and from the order of rn_param.  A plan belongs to one thread. */
#pragma once

#include "common/mem.h"
#include "examples/resnet50/lanes.h"
#include "examples/resnet50/net.h"
#include "examples/resnet50/norm.h"

struct rn_plan;

enum rn_order {
    RN_ORDER_FAST,  /* what oneDNN prefers for weight gradients on this processor */
    RN_ORDER_PLAIN, /* that of rn_param, on all processors; each step copies weights and gradients
                     */
};

/* Call rn_team_set before.  CO_UNSUPPORTED: the processor cannot compute with the type.
 * CO_NOMEMORY. */
CO_MUST_CHECK int rn_plan_new(const struct rn_net_config *config, enum rn_type type,
    enum rn_order order, struct rn_plan **ret_plan, struct co_err *err);
/* CO_UNSUPPORTED: oneDNN lacks convolutions of that type for this processor.  The message says what
 * to do.  Takes some 10 ms. */
CO_MUST_CHECK int rn_plan_supported(enum rn_type type, struct co_err *err);
void rn_plan_free(struct rn_plan *p);
CO_DEFINE_CLEANUP(struct rn_plan *, rn_plan_free)

const struct rn_net *rn_plan_net(const struct rn_plan *p);
float *rn_plan_images(struct rn_plan *p);       /* (batch, 3, image, image); the caller fills it */
const float *rn_plan_logits(struct rn_plan *p); /* (batch, classes) */
float *rn_plan_d_logits(struct rn_plan *p);     /* the same; the caller fills it before backward */
float *rn_plan_running_mean(struct rn_plan *p); /* (net->running) */
float *rn_plan_running_variance(struct rn_plan *p);

size_t rn_plan_storage(const struct rn_plan *p);
float *rn_plan_params(struct rn_plan *p);
float *rn_plan_grads(struct rn_plan *p);
/* From now on the gradient of parameter i goes to `memory` (as many floats as rn_plan_place says,
 * aligned to 64 bytes) instead of rn_plan_grads. */
CO_MUST_CHECK int rn_plan_move_grad(struct rn_plan *p, int i, float *memory, struct co_err *err);
/* The offset of parameter i in parameters and gradients; ret_count: its floats, with padding. */
size_t rn_plan_place(const struct rn_plan *p, int i, size_t *ret_count);
/* A hash of the layout.  Ranks may sum their arrays only if their hashes are equal; those of two
 * plain plans are if the networks are. */
uint64_t rn_plan_layout(const struct rn_plan *p);

CO_MUST_CHECK int rn_plan_export(
    const struct rn_plan *p, int i, const float *storage, float *ret_values, struct co_err *err);
CO_MUST_CHECK int rn_plan_import(
    const struct rn_plan *p, int i, const float *values, float *storage, struct co_err *err);

/* From now on all norms sum over all ranks. */
void rn_plan_share(struct rn_plan *p, const struct rn_share *share);

CO_MUST_CHECK int rn_plan_forward(struct rn_plan *p, bool training, struct co_err *err);
/* Call it after a training forward pass.  `ready`, which may be NULL, is called for each parameter,
 * from the last to the first, as soon as its gradient is complete. */
typedef int (*rn_ready_fn)(void *arg, int param, struct co_err *err);
CO_MUST_CHECK int rn_plan_backward(
    struct rn_plan *p, rn_ready_fn ready, void *arg, struct co_err *err);

/* The size of the block of memory; *ret_apart: what the values would need without sharing it. */
size_t rn_plan_arena(const struct rn_plan *p, size_t *ret_apart);
