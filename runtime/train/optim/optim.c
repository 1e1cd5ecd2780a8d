#include "runtime/train/optim/optim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/parse.h"
#include "runtime/train/optim/rules.h"

#define LARGE 1e30F
#define BELOW_ONE 0.99999994F /* the largest float < 1 */

#define LEARNING_RATE(value)                                                                       \
    [RT_OPTIM_LR] = {"lr", value, 0.0F, LARGE, "learning rate"},                                   \
    [RT_OPTIM_L2] = {"l2", 0.0F, 0.0F, LARGE, "l2 * parameter is added to the gradient"}

static const struct rt_optim_hyper sgd_hypers[] = {LEARNING_RATE(0.01F)};

static const struct rt_optim_hyper momentum_hypers[] = {
    LEARNING_RATE(0.01F),
    [RT_OPTIM_MU] = {"mu", 0.9F, 0.0F, 1.0F, "share of the velocity kept per step"},
};

static const struct rt_optim_hyper adagrad_hypers[] = {
    LEARNING_RATE(0.01F),
    [RT_OPTIM_ADAGRAD_EPSILON] = {"epsilon", 1e-6F, 0.0F, LARGE, "added to the root"},
    [RT_OPTIM_ADAGRAD_INITIAL] = {"initial", 0.0F, 0.0F, LARGE, "start of the sum of squares"},
};

static const struct rt_optim_hyper adam_hypers[] = {
    LEARNING_RATE(0.001F),
    [RT_OPTIM_ADAM_BETA1] = {"beta1", 0.9F, 0.0F, BELOW_ONE, "decay of the mean gradient"},
    [RT_OPTIM_ADAM_BETA2] = {"beta2", 0.999F, 0.0F, BELOW_ONE, "decay of the mean square"},
    [RT_OPTIM_ADAM_EPSILON] = {"epsilon", 1e-8F, 0.0F, LARGE, "added to the corrected root"},
};

static const struct rt_optim_hyper rmsprop_hypers[] = {
    LEARNING_RATE(0.01F),
    [RT_OPTIM_RMSPROP_RHO] = {"rho", 0.95F, 0.0F, BELOW_ONE, "decay of the mean square"},
    [RT_OPTIM_RMSPROP_EPSILON] = {"epsilon", 1e-6F, 0.0F, LARGE, "added under the root"},
    [RT_OPTIM_RMSPROP_MOMENTUM] = {"momentum", 0.0F, 0.0F, 1.0F, "share of the last update kept"},
};

#define HYPERS(rows) .hypers = rows, .n_hypers = CO_ARRAY_LEN(rows)

static const struct rt_optim_rule rules[] = {
    {
        .name = "sgd",
        .help = "gradient descent",
        HYPERS(sgd_hypers),
        .apply = rt_optim_sgd,
        .reference = rt_optim_sgd_ref,
    },
    {
        .name = "momentum",
        .help = "gradient descent with a velocity",
        HYPERS(momentum_hypers),
        .planes = 1,
        .apply = rt_optim_momentum,
        .reference = rt_optim_momentum_ref,
    },
    {
        .name = "nesterov",
        .help = "momentum that looks one step ahead",
        HYPERS(momentum_hypers),
        .planes = 1,
        .apply = rt_optim_nesterov,
        .reference = rt_optim_nesterov_ref,
    },
    {
        .name = "adagrad",
        .help = "steps shrink with the sum of squared gradients",
        HYPERS(adagrad_hypers),
        .planes = 1,
        .init_hyper = RT_OPTIM_ADAGRAD_INITIAL,
        .apply = rt_optim_adagrad,
        .reference = rt_optim_adagrad_ref,
    },
    {
        .name = "adam",
        .help = "mean gradient over mean square, both corrected for their start",
        HYPERS(adam_hypers),
        .planes = 2,
        .scalars = 1,
        .apply = rt_optim_adam,
        .reference = rt_optim_adam_ref,
    },
    {
        .name = "rmsprop",
        .help = "steps shrink with the mean squared gradient",
        HYPERS(rmsprop_hypers),
        .planes = 2,
        .apply = rt_optim_rmsprop,
        .reference = rt_optim_rmsprop_ref,
    },
    {
        .name = "rmsprop_centered",
        .help = "rmsprop with the variance in place of the mean square",
        HYPERS(rmsprop_hypers),
        .planes = 3,
        .apply = rt_optim_rmsprop_centered,
        .reference = rt_optim_rmsprop_centered_ref,
    },
};

_Static_assert(CO_ARRAY_LEN(adam_hypers) <= RT_OPTIM_HYPER_MAX, "hyper[] holds every row");
_Static_assert(CO_ARRAY_LEN(rmsprop_hypers) <= RT_OPTIM_HYPER_MAX, "hyper[] holds every row");

const struct rt_optim_rule *rt_optim_rules(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(rules);
    return rules;
}

const struct rt_optim_rule *rt_optim_rule_find(const char *name) {
    for (size_t i = 0; i < CO_ARRAY_LEN(rules); i++) {
        if (strcmp(rules[i].name, name) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}

static void names_join(char *text, size_t size) {
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < CO_ARRAY_LEN(rules); i++) {
        int more = snprintf(text + used, size - used, "%s%s", i ? ", " : "", rules[i].name);
        if (more < 0 || (size_t)more >= size - used) {
            return;
        }
        used += (size_t)more;
    }
}

int rt_optim_set(struct rt_optim *o, const char *name, double value, struct co_err *err) {
    const struct rt_optim_rule *rule = o->rule;

    for (size_t i = 0; i < rule->n_hypers; i++) {
        const struct rt_optim_hyper *h = &rule->hypers[i];

        if (strcmp(h->name, name) != 0) {
            continue;
        }
        float single = (float)value;
        if (!(single >= h->min && single <= h->max)) {
            return co_err_set(err, CO_INVALID, "%s: %s is %g, expected %g to %g", rule->name, name,
                value, (double)h->min, (double)h->max);
        }
        o->hyper[i] = single;
        return 0;
    }
    return co_err_set(err, CO_INVALID, "%s has no hyper-parameter \"%s\"", rule->name, name);
}

/* Reads one "name=value" of len bytes. */
static int pair_parse(const char *pair, size_t len, struct rt_optim *o, struct co_err *err) {
    char copy[64];
    double value;

    if (len >= sizeof(copy)) {
        return co_err_set(
            err, CO_INVALID, "%s: \"%.*s...\" is too long for name=value", o->rule->name, 32, pair);
    }
    memcpy(copy, pair, len);
    copy[len] = '\0';
    char *equals = strchr(copy, '=');
    if (!equals) {
        return co_err_set(err, CO_INVALID, "%s: \"%s\" is not name=value", o->rule->name, copy);
    }
    *equals = '\0';
    int rc = co_parse_f64(copy, equals + 1, -(double)LARGE, (double)LARGE, &value, err);
    if (rc < 0) {
        return co_err_wrap(err, "%s", o->rule->name);
    }
    return rt_optim_set(o, copy, value, err);
}

int rt_optim_parse(const char *text, struct rt_optim *ret_o, struct co_err *err) {
    struct rt_optim o = {0};
    char name[32], names[128];
    size_t len = strcspn(text, ":");

    if (len < sizeof(name)) {
        memcpy(name, text, len);
        name[len] = '\0';
        o.rule = rt_optim_rule_find(name);
    }
    if (!o.rule) {
        names_join(names, sizeof(names));
        return co_err_set(err, CO_INVALID, "optimizer \"%.*s\": expected one of %s",
            (int)(len < 64 ? len : 64), text, names);
    }
    for (size_t i = 0; i < o.rule->n_hypers; i++) {
        o.hyper[i] = o.rule->hypers[i].initial;
    }
    const char *at = text + len;
    while (*at) {
        at++;
        len = strcspn(at, ",");
        int rc = pair_parse(at, len, &o, err);
        if (rc < 0) {
            return rc;
        }
        at += len;
    }
    *ret_o = o;
    return 0;
}

/* The shortest decimal number that reads back as x. */
static void shortest_format(float x, char ret_text[24]) {
    for (int digits = 1; digits <= 9; digits++) {
        (void)snprintf(ret_text, 24, "%.*g", digits, (double)x);
        if (strtof(ret_text, NULL) == x) {
            return;
        }
    }
}

int rt_optim_format(const struct rt_optim *o, char *ret_text, size_t size, struct co_err *err) {
    char text[256], number[24];
    size_t used = strlen(o->rule->name);

    memcpy(text, o->rule->name, used);
    for (size_t i = 0; i < o->rule->n_hypers; i++) {
        shortest_format(o->hyper[i], number);
        int more = snprintf(text + used, sizeof(text) - used, "%c%s=%s", i ? ',' : ':',
            o->rule->hypers[i].name, number);
        if (more < 0 || (size_t)more >= sizeof(text) - used) {
            return co_err_set(err, CO_INTERNAL, "%s: text too long", o->rule->name);
        }
        used += (size_t)more;
    }
    if (used >= size) {
        return co_err_set(
            err, CO_INVALID, "%s: %zu bytes do not fit into %zu", o->rule->name, used + 1, size);
    }
    memcpy(ret_text, text, used + 1);
    return 0;
}

size_t rt_optim_state_floats(const struct rt_optim *o, size_t n) {
    return o->rule->planes * n + o->rule->scalars;
}

void rt_optim_state_init(const struct rt_optim *o, size_t n, float *state) {
    size_t total = rt_optim_state_floats(o, n);

    for (size_t i = 0; i < total; i++) {
        state[i] = 0.0F;
    }
    if (o->rule->init_hyper) {
        for (size_t i = 0; i < n; i++) {
            state[i] = o->hyper[o->rule->init_hyper];
        }
    }
}

void rt_optim_apply(const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    o->rule->apply(o, n, w, g, state);
}

void rt_optim_apply_reference(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state) {
    o->rule->reference(o, n, w, g, state);
}
