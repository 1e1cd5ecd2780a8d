/* Optimizer rules as pure functions over plain pointers: no I/O, clock, threads, globals or
 * allocation. A rule is a row of one table: name, hyper-parameters with defaults, how many state
 * floats it needs, init and apply. It knows nothing of tables, servers or models.
 *
 * A "row" is n parameter values that are updated together: one embedding row, or a whole dense
 * vector. Its state is one array laid out plane by plane, scalars last:
 *
 *     plane 0 [n] | plane 1 [n] | ... | scalar 0 | scalar 1 ...
 *
 * so that a state of n values has rule->planes * n + rule->scalars floats.  Rows are independent.
 * A row may be split anywhere if its planes are split with it and its scalars copied, unless
 * optim_is_whole says that its values depend on each other.
 *
 * One mechanism (apply.c) makes the gradient g that a rule sees, and bounds what it leaves:
 *
 *     g = gradient, within -clip_value..clip_value, then scaled to a norm of at most clip_norm
 *     g = g + l2 p + l1 sign(p)
 *     p = what the rule makes of p and g, within min..max
 *
 * Formulas stand in rule_rows.c, from which docs/rules.md is printed, with t = number of updates of
 * the row, from 1, and [x] = mean of x over the row.
 *
 * Sources: Paddle's optimizers (adagrad_std, _ctr, adam_ctr, _shared: the rules of its
 * memory_sparse_table, where sgd with min and max is called naive); DLRM's rowwise_adagrad for
 * adagrad_row; McMahan et al. 2013 for ftrl.  adam, adamw and adam_ctr are lazy in tables: t is
 * the row's own, and rows without a gradient stay as they are.
 *
 * Every function may be called from any thread on rows that no other thread is using.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

/* Places in hyper[]: those that every rule has, then the rule's own. */
enum {
    OPTIM_LR,
    OPTIM_L2,
    OPTIM_L1,
    OPTIM_CLIP_VALUE,
    OPTIM_CLIP_NORM,
    OPTIM_MIN,
    OPTIM_MAX,
    OPTIM_COMMON,
    OPTIM_HYPER_MAX = OPTIM_COMMON + 4,
};

struct optim_hyper {
    const char *name;
    float initial; /* the default; the default of lr is the rule's */
    float min, max;
    const char *help;
};

struct optim;

/* Of a row's gradient, for rules that are whole. */
struct optim_sums {
    size_t n;
    double g, squares;
};

enum { OPTIM_RATES = 4 };

/* A part of a row. */
struct optim_part {
    const struct optim *o;
    float k[OPTIM_RATES]; /* as begin has made them; without begin k[0] is lr */
    size_t n, stride;     /* stride: floats from one plane to the next */
    float *w;             /* [n] */
    const float *g;       /* [n] */
    float *state;         /* [planes][stride]; NULL without state */
};

/* Runs once per update: advances the row's scalars and computes from them, and from the sums, the
 * rates k[] that apply needs. */
typedef void (*optim_begin_fn)(
    const struct optim *o, const struct optim_sums *sums, float *scalars, float k[OPTIM_RATES]);
/* Value by value.  w, g and state do not overlap. */
typedef void (*optim_apply_fn)(const struct optim_part *p);

struct optim_rule {
    const char *name;
    size_t planes;  /* state floats per parameter value */
    size_t scalars; /* state floats per row, behind the planes */
    float lr;       /* its initial value */
    optim_apply_fn apply;
    optim_begin_fn begin;             /* NULL: none */
    const struct optim_hyper *hypers; /* its own, at OPTIM_COMMON */
    size_t n_hypers;
    size_t init_hyper; /* plane 0, or scalar 0 without planes, starts at this; 0: at zero */
    bool whole;        /* begin needs the sums of the whole row */
    bool decays;       /* the rule applies l1 and l2 itself */
    bool adds;         /* gradients of several trainers are added up, not averaged */
    const char *formula;
    const char *help;
};

/* A rule with its hyper-parameters. A plain value: copy it freely. */
struct optim {
    const struct optim_rule *rule;
    float hyper[OPTIM_HYPER_MAX];
    unsigned set; /* bit i: the common hyper[i] is not at its neutral value; kept by optim_set */
};

/* The table of rules, and how many there are. Static storage. */
const struct optim_rule *optim_rules(size_t *ret_n);

/* The rule of that name, or NULL. Static storage. */
const struct optim_rule *optim_rule_find(const char *name);

/* Hyper-parameter i of the rule, as in hyper[]; NULL behind the last one.  Static storage. */
const struct optim_hyper *optim_hyper_at(const struct optim_rule *rule, size_t i);

/*
 * Reads "adagrad" or "adagrad:lr=0.05,epsilon=1e-6"; what is not named keeps its default.
 * Fails with CO_INVALID naming the rule or hyper-parameter, the value and what was expected.
 */
CO_MUST_CHECK int optim_parse(const char *text, struct optim *ret_o, struct co_err *err);

/*
 * Sets one hyper-parameter by name, within its bounds. CO_INVALID as above; o is then unchanged.
 */
CO_MUST_CHECK int optim_set(struct optim *o, const char *name, double value, struct co_err *err);

/*
 * Writes the form that optim_parse reads: lr, those common hyper-parameters that are not at
 * their defaults, and all of the rule's own, with enough digits to be read back exactly. CO_INVALID
 * when size is too small (256 is enough for every rule).
 */
CO_MUST_CHECK int optim_format(
    const struct optim *o, char *ret_text, size_t size, struct co_err *err);

/* State floats of a row of n values. */
size_t optim_state_floats(const struct optim *o, size_t n);

/* Sets the state of a row of n values to its initial value. */
void optim_state_init(const struct optim *o, size_t n, float *state);

/* True: the values of a row depend on each other, so a row must not be split. */
bool optim_is_whole(const struct optim *o);

/* One update. w, g and state as above do not overlap; state may be NULL
 * when the rule has none. */
void optim_apply(const struct optim *o, size_t n, float *w, const float *g, float *state);
