/* The update functions behind the table in optim.c; nobody else includes this. The numbers of
 * hyper-parameters and state planes used here are the ones of the rows there.
 */
#pragma once

#include "runtime/train/optim/optim.h"

/* Places in rt_optim.hyper, by rule. */
enum {
    RT_OPTIM_MU = RT_OPTIM_COMMON,
    RT_OPTIM_ADAGRAD_EPSILON = RT_OPTIM_COMMON,
    RT_OPTIM_ADAGRAD_INITIAL,
    RT_OPTIM_G2SUM = RT_OPTIM_COMMON,
    RT_OPTIM_ADAM_BETA1 = RT_OPTIM_COMMON,
    RT_OPTIM_ADAM_BETA2,
    RT_OPTIM_ADAM_EPSILON,
    RT_OPTIM_ADAM_DECAY,
    RT_OPTIM_RMSPROP_RHO = RT_OPTIM_COMMON,
    RT_OPTIM_RMSPROP_EPSILON,
    RT_OPTIM_RMSPROP_MOMENTUM,
    RT_OPTIM_FTRL_INITIAL = RT_OPTIM_COMMON,
};

/* Places in rt_optim_part.k, where a rule has a begin. */
enum { RT_OPTIM_RATE, RT_OPTIM_EPSILON, RT_OPTIM_MEAN, RT_OPTIM_SQUARE };

/* Counts of updates are kept in a float, which holds integers exactly up to here. */
#define RT_OPTIM_STEP_MAX 16777216.0F

/* rules.c: single precision, loops the compiler can vectorise. */
void rt_optim_sgd(const struct rt_optim_part *p);
void rt_optim_momentum(const struct rt_optim_part *p);
void rt_optim_nesterov(const struct rt_optim_part *p);
void rt_optim_adagrad(const struct rt_optim_part *p);
void rt_optim_adagrad_std(const struct rt_optim_part *p);
void rt_optim_adam(const struct rt_optim_part *p);
void rt_optim_adamw(const struct rt_optim_part *p);
void rt_optim_adam_shared(const struct rt_optim_part *p);
void rt_optim_rmsprop(const struct rt_optim_part *p);
void rt_optim_rmsprop_centered(const struct rt_optim_part *p);
void rt_optim_ftrl(const struct rt_optim_part *p);

void rt_optim_sum_begin(const struct rt_optim *o, const struct rt_optim_sums *sums, float *scalars,
    float k[RT_OPTIM_RATES]);
void rt_optim_adagrad_row_begin(const struct rt_optim *o, const struct rt_optim_sums *sums,
    float *scalars, float k[RT_OPTIM_RATES]);
void rt_optim_adagrad_ctr_begin(const struct rt_optim *o, const struct rt_optim_sums *sums,
    float *scalars, float k[RT_OPTIM_RATES]);
void rt_optim_adam_begin(const struct rt_optim *o, const struct rt_optim_sums *sums, float *scalars,
    float k[RT_OPTIM_RATES]);
void rt_optim_adam_ctr_begin(const struct rt_optim *o, const struct rt_optim_sums *sums,
    float *scalars, float k[RT_OPTIM_RATES]);
void rt_optim_adam_shared_begin(const struct rt_optim *o, const struct rt_optim_sums *sums,
    float *scalars, float k[RT_OPTIM_RATES]);

/* reference.c: the formulas as written, in double. */
void rt_optim_sgd_ref(const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_sum_ref(const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_momentum_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_nesterov_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_adagrad_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_adagrad_row_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_adagrad_std_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_adagrad_ctr_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_adam_ref(const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_adamw_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_adam_ctr_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_adam_shared_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_rmsprop_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_rmsprop_centered_ref(
    const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
void rt_optim_ftrl_ref(const struct rt_optim *o, size_t n, float *w, const double *g, float *state);
