/* Optimizer rules as pure functions over plain pointers: no I/O, clock, threads, globals or
 * allocation. A rule is a row of one table: name, hyper-parameters with defaults, how many state
 * floats it needs, init and apply. It knows nothing of tables, servers or models.
 *
 * A "row" is n parameter values that are updated together: one embedding row, or a whole dense
 * vector. Its state is one array laid out plane by plane, scalars last:
 *
 *     plane 0 [n] | plane 1 [n] | ... | scalar 0 | scalar 1 ...
 *
 * so that a state of n values has rule->planes * n + rule->scalars floats. Rows are independent:
 * a dense vector may be split anywhere if its planes are split with it and its scalars copied.
 * With g = gradient + l2 * parameter and t = number of updates of the row, from 1:
 *
 *     sgd               p -= lr g
 *     momentum          v = mu v + g; p -= lr v
 *     nesterov          v = mu v + g; p -= lr (g + mu v)
 *     adagrad           m += g^2; p -= lr g / (sqrt(m) + epsilon); m starts at "initial"
 *     adam              m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; c = sqrt(1 - b2^t);
 *                       p -= lr c / (1 - b1^t) * m / (sqrt(v) + epsilon c)
 *     rmsprop           q = rho q + (1-rho) g^2; u = momentum u + lr g / sqrt(q + epsilon); p -= u
 *     rmsprop_centered  also a = rho a + (1-rho) g, and q - a^2 in place of q under the root
 *
 * Every function may be called from any thread on rows that no other thread is using.
 */
#pragma once

#include <stddef.h>

#include "common/err.h"

/* hyper[0] and hyper[1] of every rule; the rest are named by the rule's rows. */
enum { RT_OPTIM_LR = 0, RT_OPTIM_L2 = 1, RT_OPTIM_HYPER_MAX = 6 };

struct rt_optim_hyper {
    const char *name;
    float initial; /* the value when nothing is said */
    float min, max;
    const char *help;
};

struct rt_optim;

/* One update of a row: w, g (n) and state as above. w, g and state do not overlap. */
typedef void (*rt_optim_apply_fn)(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state);

struct rt_optim_rule {
    const char *name;
    const char *help;
    const struct rt_optim_hyper *hypers;
    size_t n_hypers;
    size_t planes;               /* state floats per parameter value */
    size_t scalars;              /* state floats per row, behind the planes */
    size_t init_hyper;           /* plane 0 starts at hyper[init_hyper]; 0 = at zero */
    rt_optim_apply_fn apply;     /* the fast form */
    rt_optim_apply_fn reference; /* the same in double, one value at a time: for tests */
};

/* A rule with its hyper-parameters. A plain value: copy it freely. */
struct rt_optim {
    const struct rt_optim_rule *rule;
    float hyper[RT_OPTIM_HYPER_MAX];
};

/* The table of rules, and how many there are. Static storage. */
const struct rt_optim_rule *rt_optim_rules(size_t *ret_n);

/* The rule of that name, or NULL. Static storage. */
const struct rt_optim_rule *rt_optim_rule_find(const char *name);

/*
 * Reads "adagrad" or "adagrad:lr=0.05,epsilon=1e-6"; what is not named keeps its default.
 * Fails with CO_INVALID naming the rule or hyper-parameter, the value and what was expected.
 */
CO_MUST_CHECK int rt_optim_parse(const char *text, struct rt_optim *ret_o, struct co_err *err);

/*
 * Sets one hyper-parameter by name, within its bounds. CO_INVALID as above; o is then unchanged.
 */
CO_MUST_CHECK int rt_optim_set(
    struct rt_optim *o, const char *name, double value, struct co_err *err);

/*
 * Writes the form that rt_optim_parse reads, every hyper-parameter named with enough digits to
 * come back exactly. CO_INVALID when size is too small (256 is enough for every rule).
 */
CO_MUST_CHECK int rt_optim_format(
    const struct rt_optim *o, char *ret_text, size_t size, struct co_err *err);

/* State floats of a row of n values. */
size_t rt_optim_state_floats(const struct rt_optim *o, size_t n);

/* Puts the state of a row of n values to its start. */
void rt_optim_state_init(const struct rt_optim *o, size_t n, float *state);

/* One update; reference is for tests. state may be NULL when the rule has none. */
void rt_optim_apply(const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
void rt_optim_apply_reference(
    const struct rt_optim *o, size_t n, float *w, const float *g, float *state);
