/* The update functions behind the table in optim.c; nobody else includes this. The numbers of
 * hyper-parameters and state planes used here are the ones of the rows there.
 */
#pragma once

#include "runtime/train/optim/optim.h"

/* Places in optim.hyper, by rule. */
enum {
    OPTIM_MU = OPTIM_COMMON,
    OPTIM_ADAGRAD_EPSILON = OPTIM_COMMON,
    OPTIM_ADAGRAD_INITIAL,
    OPTIM_G2SUM = OPTIM_COMMON,
    OPTIM_ADAM_BETA1 = OPTIM_COMMON,
    OPTIM_ADAM_BETA2,
    OPTIM_ADAM_EPSILON,
    OPTIM_ADAM_DECAY,
    OPTIM_RMSPROP_RHO = OPTIM_COMMON,
    OPTIM_RMSPROP_EPSILON,
    OPTIM_RMSPROP_MOMENTUM,
    OPTIM_FTRL_INITIAL = OPTIM_COMMON,
};

/* Places in optim_part.k, where a rule has a begin. */
enum { OPTIM_RATE, OPTIM_EPSILON, OPTIM_MEAN, OPTIM_SQUARE };

/* Counts of updates are kept in a float, which holds integers exactly up to here. */
#define OPTIM_STEP_MAX 16777216.0F

/* rules.c: single precision, loops the compiler can vectorise. */
void optim_sgd(const struct optim_part *p);
void optim_momentum(const struct optim_part *p);
void optim_nesterov(const struct optim_part *p);
void optim_adagrad(const struct optim_part *p);
void optim_adagrad_std(const struct optim_part *p);
void optim_adam(const struct optim_part *p);
void optim_adamw(const struct optim_part *p);
void optim_adam_shared(const struct optim_part *p);
void optim_rmsprop(const struct optim_part *p);
void optim_rmsprop_centered(const struct optim_part *p);
void optim_ftrl(const struct optim_part *p);

void optim_sum_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]);
void optim_adagrad_row_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]);
void optim_adagrad_ctr_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]);
void optim_adam_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]);
void optim_adam_ctr_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]);
void optim_adam_shared_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]);
