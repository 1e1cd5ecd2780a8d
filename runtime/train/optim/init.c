/* The kinds of initial values, one row each, and the parser of their text form. */
#include "runtime/train/optim/init.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/mix.h"
#include "common/pairs.h"
#include "common/parse.h"
#include "common/word_list.h"

#define LARGE 1e30

/* ---- what is drawn ---- */

/* Uniform in [0, 1), 53 bits. */
static double draw_unit(uint64_t state, uint64_t i) {
    return (double)(co_mix64(state + (i + 1) * 0x9e3779b97f4a7c15ULL) >> 11) * 0x1p-53;
}

static double draw_normal(uint64_t state, size_t k, double std) {
    double u = 1 - draw_unit(state, 2 * k), v = draw_unit(state, 2 * k + 1);
    return std * sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static double normal_below(double x) {
    return erfc(-x * M_SQRT1_2) / 2;
}

/* The quantile of the standard normal distribution at p, for p up to a half. Abramowitz and Stegun
 * 26.2.23 gives a start with an error of 4.5e-4; after two Newton steps only rounding is left. */
static double normal_quantile(double p) {
    double t = sqrt(-2 * log(p));
    double x = (2.515517 + t * (0.802853 + t * 0.010328)) /
                   (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) -
               t;
    for (int i = 0; i < 3; i++) {
        double off = normal_below(x) - p;
        double step = off * sqrt(2 * M_PI) * exp(x * x / 2);
        x -= step /
             (1 + x * step / 2); /* with Halley's term: the density changes fast in the tail */
    }
    return x;
}

/* ---- the kinds ---- */

static double zero(const struct optim_initializer *in, uint64_t s, size_t dim, size_t k) {
    (void)in;
    (void)s;
    (void)dim;
    (void)k;
    return 0;
}

static double constant(const struct optim_initializer *in, uint64_t s, size_t dim, size_t k) {
    (void)s;
    (void)dim;
    (void)k;
    return in->p[0];
}

static double uniform(const struct optim_initializer *in, uint64_t s, size_t dim, size_t k) {
    (void)dim;
    return in->p[0] + (in->p[1] - in->p[0]) * draw_unit(s, k);
}

static double normal(const struct optim_initializer *in, uint64_t s, size_t dim, size_t k) {
    (void)dim;
    return in->p[0] + draw_normal(s, k, in->p[1]);
}

/* Quantiles above the middle are mirrored from below it, where a double has more digits than
 * near 1. */
static double truncated_normal(
    const struct optim_initializer *in, uint64_t s, size_t dim, size_t k) {
    (void)dim;
    double a = in->p[2], b = in->p[3], u = draw_unit(s, k);
    bool mirrored = a > 0;
    double low = normal_below(mirrored ? -b : a), high = normal_below(mirrored ? -a : b);
    double p = low + (high - low) * (mirrored ? 1 - u : u);
    double x = mirrored ? b : a;
    if (p > 0 && p < 1) {
        x = p > 0.5 ? -normal_quantile(1 - p) : normal_quantile(p);
        x = mirrored ? -x : x;
    }
    return in->p[0] + in->p[1] * fmin(fmax(x, a), b);
}

static double xavier(const struct optim_initializer *in, uint64_t s, size_t dim, size_t k) {
    double fan_in = in->p[1] > 0 ? in->p[1] : (double)dim;
    double fan_out = in->p[2] > 0 ? in->p[2] : (double)dim;
    if (in->p[0] != 0) {
        return in->p[3] * sqrt(6 / (fan_in + fan_out)) * (2 * draw_unit(s, k) - 1);
    }
    return draw_normal(s, k, in->p[3] * sqrt(2 / (fan_in + fan_out)));
}

static const struct optim_init_kind kinds[] = {
    {"zero", zero, .formula = "0", .help = "0"},
    {"constant", constant, .params = {{"value", 0, -LARGE, LARGE, "it"}}, .formula = "value",
        .help = "the same everywhere"},
    {"uniform", uniform,
        .params = {{"min", -1, -LARGE, LARGE, "at least"}, {"max", 1, -LARGE, LARGE, "below"}},
        .formula = "min + (max - min) u(k)", .help = "uniform"},
    {"normal", normal,
        .params = {{"mean", 0, -LARGE, LARGE, "mean"}, {"std", 1, 0, LARGE, "standard deviation"}},
        .formula = "mean + std n", .help = "normal"},
    {"truncated_normal", truncated_normal,
        .params = {{"mean", 0, -LARGE, LARGE, "mean"},
            {"std", 1, 0, LARGE, "standard deviation, before its ends are cut"},
            {"a", -2, -LARGE, LARGE, "lower end, in standard deviations from the mean"},
            {"b", 2, -LARGE, LARGE, "upper end, the same"}},
        .formula = "mean + std x, F(x) = F(a) + (F(b) - F(a)) u(k), F the normal distribution",
        .help = "normal, but for its ends"},
    {"xavier", xavier,
        .params = {{"uniform", 1, 0, 1, "1: uniform; 0: normal"},
            {"fan_in", 0, 0, LARGE, "inputs; 0: the row's length"},
            {"fan_out", 0, 0, LARGE, "outputs; 0: the row's length"},
            {"gain", 1, 0, LARGE, "all values are multiplied by it"}},
        .formula = "gain sqrt(6 / (fan_in + fan_out)) (2 u(k) - 1); uniform=0: gain sqrt(2 / "
                   "(fan_in + fan_out)) n",
        .help = "of a size that keeps signals alive through layers (Glorot, Bengio 2010)"},
};

const struct optim_init_kind *optim_init_kinds(size_t *ret_n) {
    *ret_n = CO_ARRAY_LEN(kinds);
    return kinds;
}

void optim_initializer_row(
    const struct optim_initializer *in, uint64_t id, size_t dim, float *ret_row) {
    uint64_t state = co_mix64(in->seed ^ co_mix64(id + 0x632be59bd9b4e019ULL));
    for (size_t k = 0; k < dim; k++) {
        ret_row[k] = (float)in->kind->value(in, state, dim, k);
    }
}

/* ---- text ---- */

static int set_one(struct optim_initializer *in, const char *item, size_t len, struct co_err *err) {
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*s", (int)len, item);
    char *eq = strchr(text, '=');
    if (!eq || len >= sizeof(text)) {
        return co_err_set(
            err, CO_INVALID, "initializer \"%s\": \"%s\" is not key=value", in->kind->name, text);
    }
    *eq = '\0';
    for (size_t i = 0; i < OPTIM_INIT_PARAMS; i++) {
        const struct optim_init_param *p = &in->kind->params[i];
        if (co_streq(text, p->name)) {
            return co_parse_f64(text, eq + 1, p->min, p->max, &in->p[i], err);
        }
    }
    return co_err_set(
        err, CO_INVALID, "initializer \"%s\" has no parameter \"%s\"", in->kind->name, text);
}

static int set_all(struct optim_initializer *in, const char *list, struct co_err *err) {
    if (*list && co_pairs_once(list + 1, err) < 0) {
        return co_err_wrap(err, "initializer \"%s\"", in->kind->name);
    }
    for (const char *p = list; *p;) {
        p++; /* step over the colon or comma */
        size_t n = strcspn(p, ",");
        CO_TRY(set_one(in, p, n, err));
        p += n;
    }
    if (in->kind->value == truncated_normal && !(in->p[2] < in->p[3])) {
        return co_err_set(err, CO_INVALID, "initializer \"%s\": a %g is not below b %g",
            in->kind->name, in->p[2], in->p[3]);
    }
    if (in->kind->value == uniform && in->p[0] > in->p[1]) {
        return co_err_set(err, CO_INVALID, "initializer \"%s\": min %g is above max %g",
            in->kind->name, in->p[0], in->p[1]);
    }
    return 0;
}

int optim_initializer_parse(
    const char *text, uint64_t seed, struct optim_initializer *ret, struct co_err *err) {
    text = text && *text ? text : "zero";
    size_t len = strcspn(text, ":");
    char names[128] = "";
    for (size_t k = 0; k < CO_ARRAY_LEN(kinds); k++) {
        co_word_list_add(names, sizeof(names), "%s", kinds[k].name);
        if (strlen(kinds[k].name) != len || strncmp(kinds[k].name, text, len) != 0) {
            continue;
        }
        struct optim_initializer in = {.kind = &kinds[k], .seed = seed};
        for (size_t i = 0; i < OPTIM_INIT_PARAMS; i++) {
            in.p[i] = kinds[k].params[i].initial;
        }
        int rc = set_all(&in, text + len, err);
        if (rc == 0) {
            *ret = in;
        }
        return rc;
    }
    return co_err_set(
        err, CO_INVALID, "initializer \"%.40s\" is unknown, expected one of %s", text, names);
}
