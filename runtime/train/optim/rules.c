/* The rules' update loops in single precision, as training runs them. reference_testing.c has the
 * formulas that tests compare them with. */
#include "runtime/train/optim/rules.h"

#include <math.h>

/* Plain loops over restrict pointers, which the compiler vectorises, square roots included: the
 * folder is built with -fno-math-errno (Makefile), and no argument is negative. */

/* ---- sgd, and what is sgd by another rate: sum, adagrad_row, adagrad_ctr ---- */

void optim_sgd(const struct optim_part *p) {
    float rate = p->k[OPTIM_RATE];
    float *restrict w = p->w;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        w[i] -= rate * g[i];
    }
}

/* One type for all rules. NOLINTBEGIN(readability-non-const-parameter) */
void optim_sum_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]) {
    (void)sums;
    (void)scalars;
    k[OPTIM_RATE] = -o->hyper[OPTIM_LR];
}
/* NOLINTEND(readability-non-const-parameter) */

void optim_adagrad_row_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]) {
    double m = (double)scalars[0] + sums->squares / (double)sums->n;
    double divisor = sqrt(m) + (double)o->hyper[OPTIM_ADAGRAD_EPSILON];

    scalars[0] = (float)m;
    /* No gradient ever, and epsilon 0. */
    k[OPTIM_RATE] = divisor > 0.0 ? (float)((double)o->hyper[OPTIM_LR] / divisor) : 0.0F;
}

void optim_adagrad_ctr_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]) {
    double m = (double)scalars[0], initial = (double)o->hyper[OPTIM_G2SUM];

    k[OPTIM_RATE] = (float)((double)o->hyper[OPTIM_LR] * sqrt(initial / (initial + m)));
    scalars[0] = (float)(m + sums->squares / (double)sums->n);
}

/* ---- momentum ---- */

void optim_momentum(const struct optim_part *p) {
    float lr = p->k[OPTIM_RATE], mu = p->o->hyper[OPTIM_MU];
    float *restrict w = p->w, *restrict v = p->state;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        v[i] = mu * v[i] + g[i];
        w[i] -= lr * v[i];
    }
}

void optim_nesterov(const struct optim_part *p) {
    float lr = p->k[OPTIM_RATE], mu = p->o->hyper[OPTIM_MU];
    float *restrict w = p->w, *restrict v = p->state;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        v[i] = mu * v[i] + g[i];
        w[i] -= lr * (g[i] + mu * v[i]);
    }
}

/* ---- adagrad, a sum for each value ---- */

void optim_adagrad(const struct optim_part *p) {
    float lr = p->k[OPTIM_RATE], epsilon = p->o->hyper[OPTIM_ADAGRAD_EPSILON];
    float *restrict w = p->w, *restrict m = p->state;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        m[i] += g[i] * g[i];
        w[i] -= lr * g[i] / (sqrtf(m[i]) + epsilon);
    }
}

void optim_adagrad_std(const struct optim_part *p) {
    float lr = p->k[OPTIM_RATE], initial = p->o->hyper[OPTIM_G2SUM];
    float *restrict w = p->w, *restrict m = p->state;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        w[i] -= lr * g[i] * sqrtf(initial / (initial + m[i]));
        m[i] += g[i] * g[i];
    }
}

/* ---- adam ---- */

/* Counts the update. Returns sqrt(1 - b2^t); *ret_rate is lr with both bias corrections. */
static double adam_count(const struct optim *o, float *step, float *ret_rate) {
    double b1 = (double)o->hyper[OPTIM_ADAM_BETA1], b2 = (double)o->hyper[OPTIM_ADAM_BETA2];

    /* At OPTIM_STEP_MAX both corrections round to 1, so counting can stop. */
    if (*step < OPTIM_STEP_MAX) {
        *step += 1.0F;
    }
    double c = sqrt(1.0 - pow(b2, (double)*step));
    *ret_rate = (float)((double)o->hyper[OPTIM_LR] * c / (1.0 - pow(b1, (double)*step)));
    return c;
}

void optim_adam_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]) {
    (void)sums;
    double c = adam_count(o, &scalars[0], &k[OPTIM_RATE]);
    k[OPTIM_EPSILON] = (float)((double)o->hyper[OPTIM_ADAM_EPSILON] * c);
}

void optim_adam_ctr_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]) {
    (void)sums;
    (void)adam_count(o, &scalars[0], &k[OPTIM_RATE]);
    k[OPTIM_EPSILON] = o->hyper[OPTIM_ADAM_EPSILON];
}

/* scalars: m, v, t, shared by the row. The means of all values' m and v follow from the sums of g.
 */
void optim_adam_shared_begin(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]) {
    double b1 = (double)o->hyper[OPTIM_ADAM_BETA1], b2 = (double)o->hyper[OPTIM_ADAM_BETA2];
    double n = (double)sums->n, m = b1 * (double)scalars[0], v = b2 * (double)scalars[1];

    (void)adam_count(o, &scalars[2], &k[OPTIM_RATE]);
    k[OPTIM_EPSILON] = o->hyper[OPTIM_ADAM_EPSILON];
    k[OPTIM_MEAN] = (float)m;
    k[OPTIM_SQUARE] = (float)v;
    scalars[0] = (float)(m + (1.0 - b1) * sums->g / n);
    scalars[1] = (float)(v + (1.0 - b2) * sums->squares / n);
}

void optim_adam_shared(const struct optim_part *p) {
    float a1 = 1.0F - p->o->hyper[OPTIM_ADAM_BETA1];
    float a2 = 1.0F - p->o->hyper[OPTIM_ADAM_BETA2];
    float rate = p->k[OPTIM_RATE], epsilon = p->k[OPTIM_EPSILON];
    float m = p->k[OPTIM_MEAN], v = p->k[OPTIM_SQUARE];
    float *restrict w = p->w;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        w[i] -= rate * (m + a1 * g[i]) / (sqrtf(v + a2 * (g[i] * g[i])) + epsilon);
    }
}

void optim_adam(const struct optim_part *p) {
    float b1 = p->o->hyper[OPTIM_ADAM_BETA1], b2 = p->o->hyper[OPTIM_ADAM_BETA2];
    float rate = p->k[OPTIM_RATE], epsilon = p->k[OPTIM_EPSILON];
    float a1 = 1.0F - b1, a2 = 1.0F - b2;
    float *restrict w = p->w, *restrict m = p->state, *restrict v = p->state + p->stride;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        m[i] = b1 * m[i] + a1 * g[i];
        v[i] = b2 * v[i] + a2 * (g[i] * g[i]);
        w[i] -= rate * m[i] / (sqrtf(v[i]) + epsilon);
    }
}

void optim_adamw(const struct optim_part *p) {
    float keep = 1.0F - p->o->hyper[OPTIM_LR] * p->o->hyper[OPTIM_ADAM_DECAY];
    float *restrict w = p->w;

    for (size_t i = 0; i < p->n; i++) {
        w[i] *= keep;
    }
    optim_adam(p);
}

/* ---- rmsprop ---- */

void optim_rmsprop(const struct optim_part *p) {
    const float *h = p->o->hyper;
    float lr = p->k[OPTIM_RATE], rho = h[OPTIM_RMSPROP_RHO], fresh = 1.0F - rho;
    float epsilon = h[OPTIM_RMSPROP_EPSILON], momentum = h[OPTIM_RMSPROP_MOMENTUM];
    float *restrict w = p->w, *restrict q = p->state, *restrict u = p->state + p->stride;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        q[i] = rho * q[i] + fresh * (g[i] * g[i]);
        u[i] = momentum * u[i] + lr * g[i] / sqrtf(q[i] + epsilon);
        w[i] -= u[i];
    }
}

void optim_rmsprop_centered(const struct optim_part *p) {
    const float *h = p->o->hyper;
    float lr = p->k[OPTIM_RATE], rho = h[OPTIM_RMSPROP_RHO], fresh = 1.0F - rho;
    float epsilon = h[OPTIM_RMSPROP_EPSILON], momentum = h[OPTIM_RMSPROP_MOMENTUM];
    float *restrict w = p->w, *restrict q = p->state, *restrict u = p->state + p->stride;
    float *restrict a = p->state + 2 * p->stride;
    const float *restrict g = p->g;

    for (size_t i = 0; i < p->n; i++) {
        q[i] = rho * q[i] + fresh * (g[i] * g[i]);
        a[i] = rho * a[i] + fresh * g[i];
        /* q - a^2 is a variance; rounding alone can push it below zero, further than epsilon. */
        float spread = q[i] - a[i] * a[i];
        spread = spread > 0.0F ? spread : 0.0F;
        u[i] = momentum * u[i] + lr * g[i] / sqrtf(spread + epsilon);
        w[i] -= u[i];
    }
}

/* ---- ftrl ---- */

void optim_ftrl(const struct optim_part *p) {
    float lr = p->k[OPTIM_RATE], l1 = p->o->hyper[OPTIM_L1], l2 = p->o->hyper[OPTIM_L2];
    float *restrict w = p->w, *restrict q = p->state, *restrict z = p->state + p->stride;
    const float *restrict g = p->g;

    if (lr <= 0.0F) {
        return; /* the loop below divides by it */
    }
    for (size_t i = 0; i < p->n; i++) {
        float before = sqrtf(q[i]);

        q[i] += g[i] * g[i];
        float root = sqrtf(q[i]), divisor = root / lr + 2.0F * l2;
        z[i] += g[i] - (root - before) / lr * w[i];
        float beyond = fabsf(z[i]) - l1;
        /* The divisor is 0 where squares of all gradients were too small for a float. */
        float size = beyond > 0.0F && divisor > 0.0F ? beyond / divisor : 0.0F;
        w[i] = z[i] > 0.0F ? -size : size;
    }
}
