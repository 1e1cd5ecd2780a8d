/* The rules as their formulas are written, in double, and slowly: what tests compare with. */
#include "runtime/train/optim/reference_testing.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/train/optim/rules.h"

/* NOLINTNEXTLINE(readability-non-const-parameter): one type for all rules. */
static void sgd_rule(const struct optim *o, size_t n, float *w, const double *g, float *state) {
    (void)state;
    for (size_t i = 0; i < n; i++) {
        w[i] = (float)(w[i] - (double)o->hyper[OPTIM_LR] * g[i]);
    }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): one type for all rules. */
static void sum_rule(const struct optim *o, size_t n, float *w, const double *g, float *state) {
    (void)state;
    for (size_t i = 0; i < n; i++) {
        w[i] = (float)(w[i] + (double)o->hyper[OPTIM_LR] * g[i]);
    }
}

static void momentum_ref(
    const struct optim *o, size_t n, float *w, const double *g, float *v, int nesterov) {
    double lr = o->hyper[OPTIM_LR], mu = o->hyper[OPTIM_MU];

    for (size_t i = 0; i < n; i++) {
        double vi = mu * v[i] + g[i];

        v[i] = (float)vi;
        w[i] = (float)(w[i] - lr * (nesterov ? g[i] + mu * vi : vi));
    }
}

static void momentum_rule(
    const struct optim *o, size_t n, float *w, const double *g, float *state) {
    momentum_ref(o, n, w, g, state, 0);
}

static void nesterov_rule(
    const struct optim *o, size_t n, float *w, const double *g, float *state) {
    momentum_ref(o, n, w, g, state, 1);
}

static void adagrad_rule(const struct optim *o, size_t n, float *w, const double *g, float *state) {
    double lr = o->hyper[OPTIM_LR], epsilon = o->hyper[OPTIM_ADAGRAD_EPSILON];

    for (size_t i = 0; i < n; i++) {
        double m = state[i] + g[i] * g[i];

        state[i] = (float)m;
        w[i] = (float)(w[i] - lr * g[i] / (sqrt(m) + epsilon));
    }
}

static double mean_square(size_t n, const double *g) {
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += g[i] * g[i];
    }
    return sum / (double)n;
}

static void adagrad_row_rule(
    const struct optim *o, size_t n, float *w, const double *g, float *state) {
    double lr = o->hyper[OPTIM_LR], epsilon = o->hyper[OPTIM_ADAGRAD_EPSILON];
    double m = *state + mean_square(n, g);

    *state = (float)m;
    for (size_t i = 0; i < n; i++) {
        w[i] = (float)(w[i] - (g[i] != 0 ? lr * g[i] / (sqrt(m) + epsilon) : 0));
    }
}

static void adagrad_std_rule(
    const struct optim *o, size_t n, float *w, const double *g, float *state) {
    double lr = o->hyper[OPTIM_LR], initial = o->hyper[OPTIM_G2SUM];

    for (size_t i = 0; i < n; i++) {
        w[i] = (float)(w[i] - lr * g[i] * sqrt(initial / (initial + state[i])));
        state[i] = (float)(state[i] + g[i] * g[i]);
    }
}

static void adagrad_ctr_rule(
    const struct optim *o, size_t n, float *w, const double *g, float *state) {
    double lr = o->hyper[OPTIM_LR], initial = o->hyper[OPTIM_G2SUM];

    for (size_t i = 0; i < n; i++) {
        w[i] = (float)(w[i] - lr * g[i] * sqrt(initial / (initial + *state)));
    }
    *state = (float)(*state + mean_square(n, g));
}

/* epsilon c, or epsilon as it is. */
static void adam_ref(
    const struct optim *o, size_t n, float *w, const double *g, float *state, int corrected) {
    double lr = o->hyper[OPTIM_LR], b1 = o->hyper[OPTIM_ADAM_BETA1];
    double b2 = o->hyper[OPTIM_ADAM_BETA2], epsilon = o->hyper[OPTIM_ADAM_EPSILON];
    float *m = state, *v = state + n, *step = state + 2 * n;

    if (*step < OPTIM_STEP_MAX) {
        *step += 1.0F;
    }
    double c = sqrt(1.0 - pow(b2, (double)*step));
    double rate = lr * c / (1.0 - pow(b1, (double)*step));
    for (size_t i = 0; i < n; i++) {
        double mi = b1 * m[i] + (1.0 - b1) * g[i];
        double vi = b2 * v[i] + (1.0 - b2) * g[i] * g[i];

        m[i] = (float)mi;
        v[i] = (float)vi;
        w[i] = (float)(w[i] - rate * mi / (sqrt(vi) + epsilon * (corrected ? c : 1.0)));
    }
}

static void adam_rule(const struct optim *o, size_t n, float *w, const double *g, float *state) {
    adam_ref(o, n, w, g, state, 1);
}

static void adamw_rule(const struct optim *o, size_t n, float *w, const double *g, float *state) {
    double lr = o->hyper[OPTIM_LR], decay = o->hyper[OPTIM_ADAM_DECAY];

    for (size_t i = 0; i < n; i++) {
        w[i] = (float)(w[i] - lr * decay * w[i]);
    }
    adam_ref(o, n, w, g, state, 1);
}

static void adam_ctr_rule(
    const struct optim *o, size_t n, float *w, const double *g, float *state) {
    adam_ref(o, n, w, g, state, 0);
}

static void adam_shared_rule(
    const struct optim *o, size_t n, float *w, const double *g, float *state) {
    double lr = o->hyper[OPTIM_LR], b1 = o->hyper[OPTIM_ADAM_BETA1];
    double b2 = o->hyper[OPTIM_ADAM_BETA2], epsilon = o->hyper[OPTIM_ADAM_EPSILON];
    double sum_m = 0, sum_v = 0, t = state[2] < OPTIM_STEP_MAX ? state[2] + 1.0 : state[2];

    for (size_t i = 0; i < n; i++) {
        double m = b1 * state[0] + (1.0 - b1) * g[i];
        double v = b2 * state[1] + (1.0 - b2) * g[i] * g[i];

        w[i] = (float)(w[i] -
                       lr * sqrt(1.0 - pow(b2, t)) / (1.0 - pow(b1, t)) * m / (sqrt(v) + epsilon));
        sum_m += m;
        sum_v += v;
    }
    state[0] = (float)(sum_m / (double)n);
    state[1] = (float)(sum_v / (double)n);
    state[2] = (float)t;
}

static void rmsprop_ref(
    const struct optim *o, size_t n, float *w, const double *g, float *state, int centered) {
    double lr = o->hyper[OPTIM_LR], rho = o->hyper[OPTIM_RMSPROP_RHO];
    double epsilon = o->hyper[OPTIM_RMSPROP_EPSILON];
    double momentum = o->hyper[OPTIM_RMSPROP_MOMENTUM];
    float *q = state, *u = state + n, *a = centered ? state + 2 * n : NULL;

    for (size_t i = 0; i < n; i++) {
        double qi = rho * q[i] + (1.0 - rho) * g[i] * g[i];
        double spread = qi;

        q[i] = (float)qi;
        if (a) {
            double ai = rho * a[i] + (1.0 - rho) * g[i];

            a[i] = (float)ai;
            spread = fmax(qi - ai * ai, 0.0);
        }
        double ui = momentum * u[i] + lr * g[i] / sqrt(spread + epsilon);

        u[i] = (float)ui;
        w[i] = (float)(w[i] - ui);
    }
}

static void rmsprop_rule(const struct optim *o, size_t n, float *w, const double *g, float *state) {
    rmsprop_ref(o, n, w, g, state, 0);
}

static void rmsprop_centered_rule(
    const struct optim *o, size_t n, float *w, const double *g, float *state) {
    rmsprop_ref(o, n, w, g, state, 1);
}

static void ftrl_rule(const struct optim *o, size_t n, float *w, const double *g, float *state) {
    double lr = o->hyper[OPTIM_LR], l1 = o->hyper[OPTIM_L1], l2 = o->hyper[OPTIM_L2];
    float *q = state, *z = state + n;

    for (size_t i = 0; i < n && lr > 0; i++) {
        double after = q[i] + g[i] * g[i];
        double zi = z[i] + g[i] - (sqrt(after) - sqrt((double)q[i])) / lr * w[i];
        double divisor = sqrt(after) / lr + 2 * l2;

        q[i] = (float)after;
        z[i] = (float)zi;
        w[i] = fabs(zi) > l1 && divisor > 0 ? (float)((copysign(l1, zi) - zi) / divisor) : 0;
    }
}

/* ---- what all have in common ---- */

/* Updates a whole row; g is the gradient after clipping and decay. */
static const struct {
    const char *rule;
    void (*apply)(const struct optim *o, size_t n, float *w, const double *g, float *state);
} rows[] = {
    {"sgd", sgd_rule},
    {"sum", sum_rule},
    {"momentum", momentum_rule},
    {"nesterov", nesterov_rule},
    {"adagrad", adagrad_rule},
    {"adagrad_row", adagrad_row_rule},
    {"adagrad_std", adagrad_std_rule},
    {"adagrad_ctr", adagrad_ctr_rule},
    {"adam", adam_rule},
    {"adamw", adamw_rule},
    {"adam_ctr", adam_ctr_rule},
    {"adam_shared", adam_shared_rule},
    {"rmsprop", rmsprop_rule},
    {"rmsprop_centered", rmsprop_centered_rule},
    {"ftrl", ftrl_rule},
};

void optim_apply_reference(
    const struct optim *o, size_t n, float *w, const float *g, float *state) {
    const float *h = o->hyper;
    CO_AUTOFREE double *made = co_xcalloc(n, sizeof(*made));
    double squares = 0, limit = h[OPTIM_CLIP_VALUE], most = h[OPTIM_CLIP_NORM];

    for (size_t i = 0; i < n; i++) {
        made[i] = limit > 0 ? fmin(fmax(g[i], -limit), limit) : g[i];
        squares += made[i] * made[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (most > 0 && sqrt(squares) > most) {
            made[i] *= most / sqrt(squares);
        }
        if (!o->rule->decays) {
            made[i] += (double)h[OPTIM_L2] * w[i];
            made[i] += w[i] != 0 ? copysign((double)h[OPTIM_L1], w[i]) : 0;
        }
    }
    size_t row = 0;
    while (strcmp(rows[row].rule, o->rule->name) != 0) {
        row++;
        assert(row < CO_ARRAY_LEN(rows)); /* a new rule needs its formula here */
    }
    rows[row].apply(o, n, w, made, state);
    for (size_t i = 0; i < n; i++) {
        w[i] = fminf(fmaxf(w[i], h[OPTIM_MIN]), h[OPTIM_MAX]);
    }
}
