#include <math.h>

#include "runtime/train/optim/rules.h"

/* Plain loops over restrict pointers, which the compiler vectorises, square roots included: the
 * folder is built with -fno-math-errno (Makefile), and no argument is negative. */

/* NOLINTNEXTLINE(readability-non-const-parameter): the type of every rule */
void rt_optim_sgd(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    float lr = o->hyper[RT_OPTIM_LR], l2 = o->hyper[RT_OPTIM_L2];
    float *restrict wr = w;
    const float *restrict gr = g;

    (void)state;
    for (size_t i = 0; i < n; i++) {
        wr[i] -= lr * (gr[i] + l2 * wr[i]);
    }
}

void rt_optim_momentum(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    float lr = o->hyper[RT_OPTIM_LR], l2 = o->hyper[RT_OPTIM_L2], mu = o->hyper[RT_OPTIM_MU];
    float *restrict wr = w, *restrict v = state;
    const float *restrict gr = g;

    for (size_t i = 0; i < n; i++) {
        v[i] = mu * v[i] + (gr[i] + l2 * wr[i]);
        wr[i] -= lr * v[i];
    }
}

void rt_optim_nesterov(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    float lr = o->hyper[RT_OPTIM_LR], l2 = o->hyper[RT_OPTIM_L2], mu = o->hyper[RT_OPTIM_MU];
    float *restrict wr = w, *restrict v = state;
    const float *restrict gr = g;

    for (size_t i = 0; i < n; i++) {
        float gi = gr[i] + l2 * wr[i];

        v[i] = mu * v[i] + gi;
        wr[i] -= lr * (gi + mu * v[i]);
    }
}

void rt_optim_adagrad(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    float lr = o->hyper[RT_OPTIM_LR], l2 = o->hyper[RT_OPTIM_L2];
    float epsilon = o->hyper[RT_OPTIM_ADAGRAD_EPSILON];
    float *restrict wr = w, *restrict m = state;
    const float *restrict gr = g;

    for (size_t i = 0; i < n; i++) {
        float gi = gr[i] + l2 * wr[i];

        m[i] += gi * gi;
        wr[i] -= lr * gi / (sqrtf(m[i]) + epsilon);
    }
}

void rt_optim_adam(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    float l2 = o->hyper[RT_OPTIM_L2];
    float b1 = o->hyper[RT_OPTIM_ADAM_BETA1], b2 = o->hyper[RT_OPTIM_ADAM_BETA2];
    float *restrict wr = w, *restrict m = state, *restrict v = state + n;
    float *step = state + 2 * n;
    const float *restrict gr = g;

    /* Beyond RT_OPTIM_STEP_MAX both corrections are 1 to the last digit. */
    if (*step < RT_OPTIM_STEP_MAX) {
        *step += 1.0F;
    }
    double c = sqrt(1.0 - pow((double)b2, (double)*step));
    float rate =
        (float)((double)o->hyper[RT_OPTIM_LR] * c / (1.0 - pow((double)b1, (double)*step)));
    float epsilon = (float)((double)o->hyper[RT_OPTIM_ADAM_EPSILON] * c);
    float a1 = 1.0F - b1, a2 = 1.0F - b2;
    for (size_t i = 0; i < n; i++) {
        float gi = gr[i] + l2 * wr[i];

        m[i] = b1 * m[i] + a1 * gi;
        v[i] = b2 * v[i] + a2 * (gi * gi);
        wr[i] -= rate * m[i] / (sqrtf(v[i]) + epsilon);
    }
}

void rt_optim_rmsprop(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    float lr = o->hyper[RT_OPTIM_LR], l2 = o->hyper[RT_OPTIM_L2];
    float rho = o->hyper[RT_OPTIM_RMSPROP_RHO], epsilon = o->hyper[RT_OPTIM_RMSPROP_EPSILON];
    float momentum = o->hyper[RT_OPTIM_RMSPROP_MOMENTUM], fresh = 1.0F - rho;
    float *restrict wr = w, *restrict q = state, *restrict u = state + n;
    const float *restrict gr = g;

    for (size_t i = 0; i < n; i++) {
        float gi = gr[i] + l2 * wr[i];

        q[i] = rho * q[i] + fresh * (gi * gi);
        u[i] = momentum * u[i] + lr * gi / sqrtf(q[i] + epsilon);
        wr[i] -= u[i];
    }
}

void rt_optim_rmsprop_centered(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    float lr = o->hyper[RT_OPTIM_LR], l2 = o->hyper[RT_OPTIM_L2];
    float rho = o->hyper[RT_OPTIM_RMSPROP_RHO], epsilon = o->hyper[RT_OPTIM_RMSPROP_EPSILON];
    float momentum = o->hyper[RT_OPTIM_RMSPROP_MOMENTUM], fresh = 1.0F - rho;
    float *restrict wr = w, *restrict q = state, *restrict u = state + n;
    float *restrict a = state + 2 * n;
    const float *restrict gr = g;

    for (size_t i = 0; i < n; i++) {
        float gi = gr[i] + l2 * wr[i];

        q[i] = rho * q[i] + fresh * (gi * gi);
        a[i] = rho * a[i] + fresh * gi;
        /* q - a^2 is a variance; rounding alone can push it below zero, further than epsilon. */
        float spread = q[i] - a[i] * a[i];
        spread = spread > 0.0F ? spread : 0.0F;
        u[i] = momentum * u[i] + lr * gi / sqrtf(spread + epsilon);
        wr[i] -= u[i];
    }
}
