/* The kinds of learning-rate schedules, one row each, and the parser of their text form. */
#include "runtime/train/optim/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/pairs.h"
#include "common/parse.h"
#include "common/word_list.h"

#define LARGE 1e30

/* ---- formulas; p is in the order of the rows below ---- */

static double constant(const struct rt_schedule *s, double lr, double t) {
    (void)s;
    (void)t;
    return lr;
}

/* p: gamma, steps, staircase */
static double decays(const struct rt_schedule *s, double t) {
    return s->p[2] != 0 ? floor(t / s->p[1]) : t / s->p[1];
}

static double exponential(const struct rt_schedule *s, double lr, double t) {
    return lr * pow(s->p[0], decays(s, t));
}

static double natural_exp(const struct rt_schedule *s, double lr, double t) {
    return lr * exp(-s->p[0] * decays(s, t));
}

static double inverse_time(const struct rt_schedule *s, double lr, double t) {
    return lr / (1 + s->p[0] * decays(s, t));
}

static double polynomial(const struct rt_schedule *s, double lr, double t) {
    double steps = s->p[0], end = s->p[1], power = s->p[2];
    bool cycle = s->p[3] != 0;
    double cycles = cycle && t > 0 ? ceil(t / steps) : 1;
    double at = cycle ? t : fmin(t, steps);
    return (lr - end) * pow(1 - at / (steps * cycles), power) + end;
}

static double cosine(const struct rt_schedule *s, double lr, double t) {
    return s->p[1] + (lr - s->p[1]) * (1 + cos(M_PI * t / s->p[0])) / 2;
}

static double noam(const struct rt_schedule *s, double lr, double t) {
    double falling = t > 0 ? pow(t, -0.5) : 1, rising = pow(s->p[1], -1.5) * t;
    return lr * pow(s->p[0], -0.5) * fmin(falling, rising);
}

static double step(const struct rt_schedule *s, double lr, double t) {
    return lr * pow(s->p[1], floor(t / s->p[0]));
}

/* How many boundaries of the list lie behind t: those at most t, or with `below` those less than t.
 */
static size_t passed(const struct optim_schedule_list *at, double t, bool below) {
    size_t i = 0;
    while (i < at->n && (below ? at->v[i] < t : at->v[i] <= t)) {
        i++;
    }
    return i;
}

static double multi_step(const struct rt_schedule *s, double lr, double t) {
    return lr * pow(s->p[0], (double)passed(&s->at, t, false));
}

static double piecewise(const struct rt_schedule *s, double lr, double t) {
    return lr * s->values.v[passed(&s->at, t, false)];
}

static double poly(const struct rt_schedule *s, double lr, double t) {
    return lr * pow(1 + s->p[0] * t, -s->p[1]);
}

static double caffe_poly(const struct rt_schedule *s, double lr, double t) {
    return t > s->p[0] ? 0 : lr * pow(1 - t / s->p[0], s->p[1]);
}

static double exp_smooth(const struct rt_schedule *s, double lr, double t) {
    return lr * pow(s->p[0], t / s->p[1]);
}

static double discexp(const struct rt_schedule *s, double lr, double t) {
    return lr * pow(s->p[0], floor(t / s->p[1]));
}

static double linear(const struct rt_schedule *s, double lr, double t) {
    return fmax(lr - s->p[0] * t, s->p[1]);
}

static double manual(const struct rt_schedule *s, double lr, double t) {
    size_t i = passed(&s->at, t, true);
    return lr * s->values.v[i < s->values.n ? i : s->values.n - 1];
}

static double pass_manual(const struct rt_schedule *s, double lr, double t) {
    return manual(s, lr, floor(t / s->p[0]));
}

/* ---- the kinds ---- */

#define STEPS(value, help)                                                                         \
    { "steps", value, 1, LARGE, help }
#define GAMMA(value, help)                                                                         \
    { "gamma", value, 0, LARGE, help }
#define STAIRCASE                                                                                  \
    STEPS(1, "of one decay"), {                                                                    \
        "staircase", 0, 0, 1, "1: only full decays count"                                          \
    }
#define POSITIVE 1e-30

static const struct optim_schedule_kind kinds[] = {
    {"constant", constant, .formula = "lr", .help = "the same all the time"},
    {"exponential", exponential, .params = {GAMMA(0.9, "what a decay multiplies by"), STAIRCASE},
        .formula = "lr gamma^n", .help = "ExponentialDecay"},
    {"natural_exp", natural_exp,
        .params = {GAMMA(0.1, "a decay multiplies by e^-gamma"), STAIRCASE},
        .formula = "lr e^(-gamma n)", .help = "NaturalExpDecay"},
    {"inverse_time", inverse_time,
        .params = {GAMMA(0.1, "added to the divisor by a decay"), STAIRCASE},
        .formula = "lr / (1 + gamma n)", .help = "InverseTimeDecay"},
    {"polynomial", polynomial,
        .params = {STEPS(1000, "from lr to end"), {"end", 0.0001, 0, LARGE, "last rate"},
            {"power", 1, 0, LARGE, "of the polynomial"},
            {"cycle", 0, 0, 1, "1: begins again, from less, instead of ending"}},
        .formula = "(lr - end) (1 - t / steps)^power + end, t at most steps; cycle: steps ceil(t / "
                   "steps) in place of steps",
        .help = "PolynomialDecay"},
    {"cosine", cosine,
        .params = {STEPS(1000, "from lr to end: T_max"), {"end", 0, 0, LARGE, "lowest: eta_min"}},
        .formula = "end + (lr - end) (1 + cos(pi t / steps)) / 2", .help = "CosineAnnealingDecay"},
    {"noam", noam,
        .params = {{"d_model", 512, POSITIVE, LARGE, "width of the model"},
            {"warmup_steps", 4000, 1, LARGE, "the rate rises before, and falls after"}},
        .formula = "lr d_model^-0.5 min(t^-0.5, t warmup_steps^-1.5)", .help = "NoamDecay"},
    {"step", step,
        .params = {STEPS(1000, "of one decay"), GAMMA(0.1, "what a decay multiplies by")},
        .formula = "lr gamma^floor(t / steps)", .help = "StepDecay"},
    {"multi_step", multi_step, .params = {GAMMA(0.1, "what a decay multiplies by")}, .at = 1,
        .formula = "lr gamma^i, i: how many of at are t or below", .help = "MultiStepDecay"},
    {"piecewise", piecewise, .at = 1, .values = 2,
        .formula = "lr values[i], i: how many of at are t or below; Paddle's values with lr 1",
        .help = "PiecewiseDecay"},
    {"poly", poly,
        .params = {{"a", 0, 0, LARGE, "learning_rate_decay_a"},
            {"b", 0, 0, LARGE, "learning_rate_decay_b"}},
        .formula = "lr (1 + a t)^-b", .help = "poly of 0.x"},
    {"caffe_poly", caffe_poly,
        .params = {{"a", 1000, POSITIVE, LARGE, "learning_rate_decay_a: its end"},
            {"b", 1, 0, LARGE, "learning_rate_decay_b"}},
        .formula = "lr (1 - t / a)^b, 0 beyond a", .help = "caffe_poly of 0.x"},
    {"exp", exp_smooth,
        .params = {{"a", 1, 0, LARGE, "learning_rate_decay_a"},
            {"b", 1, POSITIVE, LARGE, "learning_rate_decay_b: steps of one decay"}},
        .formula = "lr a^(t / b)", .help = "exp of 0.x"},
    {"discexp", discexp,
        .params = {{"a", 1, 0, LARGE, "learning_rate_decay_a"},
            {"b", 1, POSITIVE, LARGE, "learning_rate_decay_b: steps of one decay"}},
        .formula = "lr a^floor(t / b)", .help = "discexp of 0.x"},
    {"linear", linear,
        .params = {{"a", 0, 0, LARGE, "learning_rate_decay_a: less by this each step"},
            {"b", 0, 0, LARGE, "learning_rate_decay_b: lowest"}},
        .formula = "max(lr - a t, b)", .help = "linear of 0.x"},
    {"manual", manual, .at = 1, .values = 1,
        .formula = "lr values[i], i: how many of at are below t, at most the last",
        .help = "manual of 0.x: at=S1:S2,values=R1:R2 is learning_rate_args 'S1:R1,S2:R2'"},
    {"pass_manual", pass_manual, .params = {STEPS(1000, "of one pass")}, .at = 1, .values = 1,
        .formula = "as manual, with floor(t / steps), the pass, in place of t",
        .help = "pass_manual of 0.x, the same by passes, from 0"},
};

/* Of every kind. */
enum { WARMUP, WARMUP_START, WARMUP_END, COMMON };
static const struct optim_schedule_param common[] = {
    [WARMUP] = {"warmup", 0, 0, LARGE, "steps before the schedule begins; 0: none"},
    [WARMUP_START] = {"warmup_start", 0, 0, LARGE, "first rate of them"},
    [WARMUP_END] = {"warmup_end", -1, -1, LARGE, "where they lead to; -1: lr"},
};

const struct optim_schedule_kind *optim_schedule_kinds(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(kinds);
    return kinds;
}

const struct optim_schedule_param *optim_schedule_common(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(common);
    return common;
}

bool optim_schedule_is_constant(const struct rt_schedule *s) {
    return s->kind->rate == constant && s->warmup == 0;
}

double optim_schedule_rate(const struct rt_schedule *s, double lr, uint64_t t) {
    double now = (double)t, rate;
    if (now < s->warmup) {
        double end = s->warmup_end < 0 ? lr : s->warmup_end;
        rate = s->warmup_start + (end - s->warmup_start) * now / s->warmup;
    } else {
        rate = s->kind->rate(s, lr, now - s->warmup);
    }
    return rate > 0 ? fmin(rate, LARGE) : 0; /* NaN gives 0, too */
}

/* ---- text ---- */

static int parse_list(
    const char *key, char *text, struct optim_schedule_list *ret, struct co_err *err) {
    struct optim_schedule_list list = {0};
    for (char *word; (word = strsep(&text, ":"));) {
        if (list.n == OPTIM_SCHEDULE_LIST) {
            return co_err_set(
                err, CO_INVALID, "%s has more than %d entries", key, OPTIM_SCHEDULE_LIST);
        }
        CO_TRY(co_parse_f64(key, word, 0, LARGE, &list.v[list.n++], err));
    }
    *ret = list;
    return 0;
}

static int set_number(
    double *to, const struct optim_schedule_param *p, const char *value, struct co_err *err) {
    return co_parse_f64(p->name, value, p->min, p->max, to, err);
}

/* Sets one "key=value". Writes a NUL into the text. */
static int set_one(struct rt_schedule *s, char *key, struct co_err *err) {
    double *const to[COMMON] = {&s->warmup, &s->warmup_start, &s->warmup_end};
    char *value = strchr(key, '=');
    if (!value) {
        return co_err_set(err, CO_INVALID, "\"%s\" is not key=value", key);
    }
    *value++ = '\0';
    for (size_t i = 0; i < OPTIM_SCHEDULE_PARAMS; i++) {
        if (co_streq(key, s->kind->params[i].name)) {
            return set_number(&s->p[i], &s->kind->params[i], value, err);
        }
    }
    for (size_t i = 0; i < COMMON; i++) {
        if (co_streq(key, common[i].name)) {
            return set_number(to[i], &common[i], value, err);
        }
    }
    if (s->kind->at && strcmp(key, "at") == 0) {
        return parse_list(key, value, &s->at, err);
    }
    if (s->kind->values && strcmp(key, "values") == 0) {
        return parse_list(key, value, &s->values, err);
    }
    return co_err_set(err, CO_INVALID, "there is no parameter \"%s\"", key);
}

static int check_lists(const struct rt_schedule *s, struct co_err *err) {
    size_t want = s->at.n + (s->kind->values == 2);
    if (s->kind->at && s->at.n == 0) {
        return co_err_set(err, CO_INVALID, "at is missing: the steps where the rate changes");
    }
    for (size_t i = 1; i < s->at.n; i++) {
        if (!(s->at.v[i] > s->at.v[i - 1])) {
            return co_err_set(err, CO_INVALID, "at: %g is not above %g, which is before it",
                s->at.v[i], s->at.v[i - 1]);
        }
    }
    if (s->kind->values && s->values.n != want) {
        return co_err_set(err, CO_INVALID, "%zu values for %zu steps of at, expected %zu",
            s->values.n, s->at.n, want);
    }
    return 0;
}

static int set_all(struct rt_schedule *s, const char *list, struct co_err *err) {
    CO_AUTOFREE char *copy = co_xstrdup(list);
    char *rest = *copy ? copy + 1 : NULL; /* behind the colon */
    if (rest) {
        CO_TRY(co_pairs_once(rest, err));
    }
    for (char *item; (item = strsep(&rest, ","));) {
        CO_TRY(set_one(s, item, err));
    }
    return check_lists(s, err);
}

static int unknown_kind(const char *text, struct co_err *err) {
    char names[256] = "";
    for (size_t k = 0; k < CO_ARRAY_LEN(kinds); k++) {
        co_word_list_add(names, sizeof(names), "%s", kinds[k].name);
    }
    return co_err_set(
        err, CO_INVALID, "schedule \"%.40s\" is unknown, expected one of %s", text, names);
}

int optim_schedule_parse(const char *text, struct rt_schedule *ret, struct co_err *err) {
    text = text && *text ? text : "constant";
    size_t len = strcspn(text, ":"), k = 0;
    while (k < CO_ARRAY_LEN(kinds) &&
           (strlen(kinds[k].name) != len || strncmp(kinds[k].name, text, len) != 0)) {
        k++;
    }
    if (k == CO_ARRAY_LEN(kinds)) {
        return unknown_kind(text, err);
    }
    struct rt_schedule s = {.kind = &kinds[k],
        .warmup = common[WARMUP].initial,
        .warmup_start = common[WARMUP_START].initial,
        .warmup_end = common[WARMUP_END].initial};
    for (size_t i = 0; i < OPTIM_SCHEDULE_PARAMS; i++) {
        s.p[i] = kinds[k].params[i].initial;
    }
    if (set_all(&s, text + len, err) < 0) {
        return co_err_wrap(err, "schedule \"%s\"", s.kind->name);
    }
    *ret = s;
    return 0;
}
