#include <math.h>

#include "runtime/train/optim/rules.h"

static double regularised_gradient(const struct rt_optim *o, double w, double g) {
    return g + (double)o->hyper[RT_OPTIM_L2] * w;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type of every rule */
void rt_optim_sgd_ref(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    double lr = o->hyper[RT_OPTIM_LR];

    (void)state;
    for (size_t i = 0; i < n; i++) {
        w[i] = (float)(w[i] - lr * regularised_gradient(o, w[i], g[i]));
    }
}

static void momentum_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *v, int nesterov) {
    double lr = o->hyper[RT_OPTIM_LR], mu = o->hyper[RT_OPTIM_MU];

    for (size_t i = 0; i < n; i++) {
        double gi = regularised_gradient(o, w[i], g[i]);
        double vi = mu * v[i] + gi;

        v[i] = (float)vi;
        w[i] = (float)(w[i] - lr * (nesterov ? gi + mu * vi : vi));
    }
}

void rt_optim_momentum_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    momentum_ref(o, n, w, g, state, 0);
}

void rt_optim_nesterov_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    momentum_ref(o, n, w, g, state, 1);
}

void rt_optim_adagrad_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    double lr = o->hyper[RT_OPTIM_LR], epsilon = o->hyper[RT_OPTIM_ADAGRAD_EPSILON];

    for (size_t i = 0; i < n; i++) {
        double gi = regularised_gradient(o, w[i], g[i]);
        double m = state[i] + gi * gi;

        state[i] = (float)m;
        w[i] = (float)(w[i] - lr * gi / (sqrt(m) + epsilon));
    }
}

void rt_optim_adam_ref(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    double lr = o->hyper[RT_OPTIM_LR], b1 = o->hyper[RT_OPTIM_ADAM_BETA1];
    double b2 = o->hyper[RT_OPTIM_ADAM_BETA2], epsilon = o->hyper[RT_OPTIM_ADAM_EPSILON];
    float *m = state, *v = state + n, *step = state + 2 * n;

    if (*step < RT_OPTIM_STEP_MAX) {
        *step += 1.0F;
    }
    double c = sqrt(1.0 - pow(b2, (double)*step));
    double rate = lr * c / (1.0 - pow(b1, (double)*step));
    for (size_t i = 0; i < n; i++) {
        double gi = regularised_gradient(o, w[i], g[i]);
        double mi = b1 * m[i] + (1.0 - b1) * gi;
        double vi = b2 * v[i] + (1.0 - b2) * gi * gi;

        m[i] = (float)mi;
        v[i] = (float)vi;
        w[i] = (float)(w[i] - rate * mi / (sqrt(vi) + epsilon * c));
    }
}

static void rmsprop_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state, int centered) {
    double lr = o->hyper[RT_OPTIM_LR], rho = o->hyper[RT_OPTIM_RMSPROP_RHO];
    double epsilon = o->hyper[RT_OPTIM_RMSPROP_EPSILON];
    double momentum = o->hyper[RT_OPTIM_RMSPROP_MOMENTUM];
    float *q = state, *u = state + n, *a = centered ? state + 2 * n : NULL;

    for (size_t i = 0; i < n; i++) {
        double gi = regularised_gradient(o, w[i], g[i]);
        double qi = rho * q[i] + (1.0 - rho) * gi * gi;
        double spread = qi;

        q[i] = (float)qi;
        if (a) {
            double ai = rho * a[i] + (1.0 - rho) * gi;

            a[i] = (float)ai;
            spread = fmax(qi - ai * ai, 0.0);
        }
        double ui = momentum * u[i] + lr * gi / sqrt(spread + epsilon);

        u[i] = (float)ui;
        w[i] = (float)(w[i] - ui);
    }
}

void rt_optim_rmsprop_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    rmsprop_ref(o, n, w, g, state, 0);
}

void rt_optim_rmsprop_centered_ref(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    rmsprop_ref(o, n, w, g, state, 1);
}
