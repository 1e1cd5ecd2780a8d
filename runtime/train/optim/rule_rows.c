/* The rules and their hyper-parameters, row by row. */
#include <string.h>

#include "common/mem.h"
#include "runtime/train/optim/rules.h"

#define LARGE 1e30F
#define BELOW_ONE 0.99999994F /* the largest float < 1 */

/* Hyper-parameters that every rule has. */
static const struct optim_hyper common[] = {
    [OPTIM_LR] = {"lr", 0.0F, 0.0F, LARGE, "learning rate"},
    [OPTIM_L2] = {"l2", 0.0F, 0.0F, LARGE, "l2 * parameter is added to the gradient"},
    [OPTIM_L1] = {"l1", 0.0F, 0.0F, LARGE, "l1 * sign(parameter) is added to the gradient"},
    [OPTIM_CLIP_VALUE] = {"clip_value", 0.0F, 0.0F, LARGE,
        "gradients are put within -clip_value .. clip_value; 0: not"},
    [OPTIM_CLIP_NORM] = {"clip_norm", 0.0F, 0.0F, LARGE,
        "a row's gradient is scaled to a norm of at most this; 0: not"},
    [OPTIM_MIN] = {"min", -LARGE, -LARGE, LARGE,
        "parameters are kept from falling below; -1e+30: not"},
    [OPTIM_MAX] = {"max", LARGE, -LARGE, LARGE,
        "parameters are kept from rising above; 1e+30: not"},
};

#define OWN(place) [(place)-OPTIM_COMMON]

static const struct optim_hyper momentum_hypers[] = {
    OWN(OPTIM_MU) = {"mu", 0.9F, 0.0F, 1.0F, "share of the velocity kept per step"},
};

static const struct optim_hyper adagrad_hypers[] = {
    OWN(OPTIM_ADAGRAD_EPSILON) = {"epsilon", 1e-6F, 0.0F, LARGE, "added to the root"},
    OWN(OPTIM_ADAGRAD_INITIAL) = {"initial", 0.0F, 0.0F, LARGE, "start of the sum of squares"},
};

static const struct optim_hyper adagrad_ctr_hypers[] = {
    OWN(OPTIM_G2SUM) = {"initial_g2sum", 3.0F, 1e-30F, LARGE,
        "a sum of squares of this size takes the rate down by sqrt(2)"},
};

#define ADAM                                                                                       \
    OWN(OPTIM_ADAM_BETA1) = {"beta1", 0.9F, 0.0F, BELOW_ONE, "decay of the mean gradient"},        \
    OWN(OPTIM_ADAM_BETA2) = {"beta2", 0.999F, 0.0F, BELOW_ONE, "decay of the mean square"},        \
    OWN(OPTIM_ADAM_EPSILON) = {"epsilon", 1e-8F, 0.0F, LARGE, "added to the root"}

static const struct optim_hyper adam_hypers[] = {ADAM};

static const struct optim_hyper adamw_hypers[] = {
    ADAM,
    OWN(OPTIM_ADAM_DECAY) = {"decay", 0.01F, 0.0F, LARGE, "lr * decay of the parameter goes"},
};

static const struct optim_hyper rmsprop_hypers[] = {
    OWN(OPTIM_RMSPROP_RHO) = {"rho", 0.95F, 0.0F, BELOW_ONE, "decay of the mean square"},
    OWN(OPTIM_RMSPROP_EPSILON) = {"epsilon", 1e-6F, 0.0F, LARGE, "added under the root"},
    OWN(OPTIM_RMSPROP_MOMENTUM) = {"momentum", 0.0F, 0.0F, 1.0F, "share of the last update kept"},
};

static const struct optim_hyper ftrl_hypers[] = {
    OWN(OPTIM_FTRL_INITIAL) = {"initial", 0.0F, 0.0F, LARGE, "start of the sum of squares"},
};

#define HYPERS(rows) .hypers = rows, .n_hypers = CO_ARRAY_LEN(rows)

/* Name, planes and scalars of state, initial learning rate, function. */
static const struct optim_rule rules[] = {
    {"sgd", 0, 0, 0.01F, optim_sgd, .formula = "p -= lr g", .help = "gradient descent"},
    {"sum", 0, 0, 1.0F, optim_sgd, .adds = true, .begin = optim_sum_begin, .formula = "p += lr g",
        .help = "adds up what is pushed, also over the trainers of a synchronous step: counters"},
    {"momentum", 1, 0, 0.01F, optim_momentum, HYPERS(momentum_hypers),
        .formula = "v = mu v + g; p -= lr v", .help = "gradient descent with a velocity"},
    {"nesterov", 1, 0, 0.01F, optim_nesterov, HYPERS(momentum_hypers),
        .formula = "v = mu v + g; p -= lr (g + mu v)",
        .help = "momentum that looks one step ahead"},
    {"adagrad", 1, 0, 0.01F, optim_adagrad, HYPERS(adagrad_hypers),
        .init_hyper = OPTIM_ADAGRAD_INITIAL,
        .formula = "m += g^2, from initial; p -= lr g / (sqrt(m) + epsilon)",
        .help = "steps shrink with the sum of squared gradients"},
    {"adagrad_row", 0, 1, 0.01F, optim_sgd, HYPERS(adagrad_hypers),
        .init_hyper = OPTIM_ADAGRAD_INITIAL, .whole = true, .begin = optim_adagrad_row_begin,
        .formula = "m += [g^2], from initial; p -= lr g / (sqrt(m) + epsilon)",
        .help = "adagrad with one sum a row, of mean squares"},
    {"adagrad_std", 1, 0, 0.05F, optim_adagrad_std, HYPERS(adagrad_ctr_hypers),
        .formula = "p -= lr g sqrt(initial_g2sum / (initial_g2sum + m)); m += g^2",
        .help = "adagrad by the squares of the updates before: Paddle's StdAdaGradSGDRule"},
    {"adagrad_ctr", 0, 1, 0.05F, optim_sgd, HYPERS(adagrad_ctr_hypers), .whole = true,
        .begin = optim_adagrad_ctr_begin,
        .formula = "p -= lr g sqrt(initial_g2sum / (initial_g2sum + m)); m += [g^2]",
        .help = "adagrad_std with one sum a row, of mean squares: Paddle's SparseAdaGradSGDRule"},
    {"adam", 2, 1, 0.001F, optim_adam, HYPERS(adam_hypers), .begin = optim_adam_begin,
        .formula = "m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; c = sqrt(1 - "
                   "beta2^t); p -= lr c / (1 - beta1^t) m / (sqrt(v) + epsilon c)",
        .help = "mean gradient over mean square, both corrected for their start"},
    {"adamw", 2, 1, 0.001F, optim_adamw, HYPERS(adamw_hypers), .begin = optim_adam_begin,
        .formula = "p -= lr decay p; then as adam",
        .help = "adam with a decay of parameters that is not part of the gradient"},
    {"adam_ctr", 2, 1, 0.001F, optim_adam, HYPERS(adam_hypers), .begin = optim_adam_ctr_begin,
        .formula = "as adam, with epsilon in place of epsilon c",
        .help =
            "adam, epsilon added to the root that is not corrected: Paddle's SparseAdamSGDRule"},
    {"adam_shared", 0, 3, 0.001F, optim_adam_shared, HYPERS(adam_hypers), .whole = true,
        .begin = optim_adam_shared_begin,
        .formula = "as adam_ctr of the m and v of the row; then m, v = [m], [v] of what came out "
                   "for its values",
        .help = "adam_ctr with one pair of means a row: Paddle's SparseSharedAdamSGDRule"},
    {"rmsprop", 2, 0, 0.01F, optim_rmsprop, HYPERS(rmsprop_hypers),
        .formula = "q = rho q + (1 - rho) g^2; u = momentum u + lr g / sqrt(q + epsilon); p -= u",
        .help = "steps shrink with the mean squared gradient"},
    {"rmsprop_centered", 3, 0, 0.01F, optim_rmsprop_centered, HYPERS(rmsprop_hypers),
        .formula =
            "also a = rho a + (1 - rho) g; as rmsprop, with q - a^2 in place of q under the root",
        .help = "rmsprop with the variance in place of the mean square"},
    {"ftrl", 2, 0, 0.01F, optim_ftrl, HYPERS(ftrl_hypers), .init_hyper = OPTIM_FTRL_INITIAL,
        .decays = true,
        .formula = "z += g - (sqrt(q + g^2) - sqrt(q)) / lr p; q += g^2, from initial; p = abs(z) "
                   "> l1 ? (l1 sign(z) - z) / (sqrt(q) / lr + 2 l2) : 0",
        .help = "follow the regularised leader: with l1, parameters that matter little are 0"},
};

_Static_assert(CO_ARRAY_LEN(common) == OPTIM_COMMON, "a row for each");
_Static_assert(
    CO_ARRAY_LEN(adamw_hypers) + OPTIM_COMMON <= OPTIM_HYPER_MAX, "hyper[] holds every row");

const struct optim_rule *optim_rules(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(rules);
    return rules;
}

const struct optim_rule *optim_rule_find(const char *name) {
    for (size_t i = 0; i < CO_ARRAY_LEN(rules); i++) {
        if (strcmp(rules[i].name, name) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}

const struct optim_hyper *optim_hyper_at(const struct optim_rule *rule, size_t i) {
    if (i < OPTIM_COMMON) {
        return &common[i];
    }
    return i - OPTIM_COMMON < rule->n_hypers ? &rule->hypers[i - OPTIM_COMMON] : NULL;
}
