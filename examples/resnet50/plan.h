/* A network made to run: its operators' primitives, and one piece of memory in which every value
 * has its place for as long as it is needed.  Nothing is allocated or made after rn_plan_new.
 *
 * Parameters, their gradients and what an optimizer keeps beside them are flat arrays of
 * rn_plan_storage floats, in the layout that oneDNN prefers on this processor, with gaps that are
 * 0: what is done value by value (an optimizer's step, a sum over ranks) needs to know no layout;
 * rn_plan_export and rn_plan_import turn one parameter into the order of rn_param.  One thread. */
#pragma once

#include "common/mem.h"
#include "examples/resnet50/lanes.h"
#include "examples/resnet50/net.h"
#include "examples/resnet50/norm.h"

struct rn_plan;

/* After rn_team_set.  CO_UNSUPPORTED: the processor has no such arithmetic.  CO_NOMEMORY. */
CO_MUST_CHECK int rn_plan_new(const struct rn_net_config *config, enum rn_type type,
    struct rn_plan **ret_plan, struct co_err *err);
void rn_plan_free(struct rn_plan *p);
CO_DEFINE_CLEANUP(struct rn_plan *, rn_plan_free)

const struct rn_net *rn_plan_net(const struct rn_plan *p);
float *rn_plan_images(struct rn_plan *p);       /* (batch, 3, image, image), to be filled */
const float *rn_plan_logits(struct rn_plan *p); /* (batch, classes) */
float *rn_plan_d_logits(struct rn_plan *p);     /* the same, to be filled before backward */
float *rn_plan_running_mean(struct rn_plan *p); /* (net->running) */
float *rn_plan_running_variance(struct rn_plan *p);

size_t rn_plan_storage(const struct rn_plan *p);
float *rn_plan_params(struct rn_plan *p);
float *rn_plan_grads(struct rn_plan *p);
/* From now on parameter i's gradient is written to memory (rn_plan_place's count, 64-byte aligned),
 * not into rn_plan_grads. */
CO_MUST_CHECK int rn_plan_move_grad(struct rn_plan *p, int i, float *memory, struct co_err *err);
/* Where parameter i lies in both; ret_count: how many floats, padding included. */
size_t rn_plan_place(const struct rn_plan *p, int i, size_t *ret_count);
/* A number that differs where layouts do: ranks may add up each other's arrays only if theirs is
 * the same. */
uint64_t rn_plan_layout(const struct rn_plan *p);

CO_MUST_CHECK int rn_plan_export(
    const struct rn_plan *p, int i, const float *storage, float *ret_values, struct co_err *err);
CO_MUST_CHECK int rn_plan_import(
    const struct rn_plan *p, int i, const float *values, float *storage, struct co_err *err);

/* Sums of all norms over all ranks, from now on. */
void rn_plan_share(struct rn_plan *p, const struct rn_share *share);

CO_MUST_CHECK int rn_plan_forward(struct rn_plan *p, bool training, struct co_err *err);
/* After a training forward pass.  ready (NULL: nobody is told) is called for each parameter, from
 * the last to the first, as soon as its gradient is there. */
typedef int (*rn_ready_fn)(void *arg, int param, struct co_err *err);
CO_MUST_CHECK int rn_plan_backward(
    struct rn_plan *p, rn_ready_fn ready, void *arg, struct co_err *err);

/* Bytes of the one piece of memory, and what all values would need side by side. */
size_t rn_plan_arena(const struct rn_plan *p, size_t *ret_apart);
