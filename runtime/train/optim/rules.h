/* The update functions behind the table in optim.c; nobody else includes this. The numbers of
 * hyper-parameters and state planes used here are the ones of the rows there.
 */
#pragma once

#include "runtime/train/optim/optim.h"

/* Places in rt_optim.hyper, by rule. */
enum {
    RT_OPTIM_MU = 2,
    RT_OPTIM_ADAGRAD_EPSILON = 2,
    RT_OPTIM_ADAGRAD_INITIAL = 3,
    RT_OPTIM_ADAM_BETA1 = 2,
    RT_OPTIM_ADAM_BETA2 = 3,
    RT_OPTIM_ADAM_EPSILON = 4,
    RT_OPTIM_RMSPROP_RHO = 2,
    RT_OPTIM_RMSPROP_EPSILON = 3,
    RT_OPTIM_RMSPROP_MOMENTUM = 4,
};

/* Counts of updates are kept in a float, which holds integers exactly up to here. */
#define RT_OPTIM_STEP_MAX 16777216.0F

/* rules.c: single precision, loops the compiler can vectorise. */
void rt_optim_sgd(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_momentum(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_nesterov(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_adagrad(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_adam(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_rmsprop(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_rmsprop_centered(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state);

/* reference.c: the formulas as written, in double. */
void rt_optim_sgd_ref(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_momentum_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_nesterov_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_adagrad_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_adam_ref(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_rmsprop_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_rmsprop_centered_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
