#include "runtime/train/ps/init.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/parse.h"

static const struct {
    const char *name;
    const char *keys[2]; /* NULL: no such parameter */
    double initial[2];
} kinds[] = {
    [RT_INIT_ZERO] = {"zero", {NULL, NULL}, {0, 0}},
    [RT_INIT_CONSTANT] = {"constant", {"value", NULL}, {0, 0}},
    [RT_INIT_UNIFORM] = {"uniform", {"min", "max"}, {-1, 1}},
    [RT_INIT_NORMAL] = {"normal", {"mean", "std"}, {0, 1}},
};

/* The finaliser of splitmix64, a public-domain generator. */
uint64_t rt_mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* Uniform in [0, 1), 53 bits. */
static double draw_unit(uint64_t state, uint64_t k) {
    return (double)(rt_mix64(state + (k + 1) * 0x9e3779b97f4a7c15ULL) >> 11) * 0x1p-53;
}

static float draw_normal(const struct rt_initializer *in, uint64_t state, size_t k) {
    double u = 1 - draw_unit(state, 2 * k), v = draw_unit(state, 2 * k + 1);
    return (float)(in->a + in->b * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

void rt_initializer_row(const struct rt_initializer *in, uint64_t id, size_t dim, float *ret_row) {
    uint64_t state = rt_mix64(in->seed ^ rt_mix64(id + 0x632be59bd9b4e019ULL));
    for (size_t k = 0; k < dim; k++) {
        switch (in->kind) {
        case RT_INIT_ZERO:
            ret_row[k] = 0;
            break;
        case RT_INIT_CONSTANT:
            ret_row[k] = (float)in->a;
            break;
        case RT_INIT_UNIFORM:
            ret_row[k] = (float)(in->a + (in->b - in->a) * draw_unit(state, k));
            break;
        case RT_INIT_NORMAL:
            ret_row[k] = draw_normal(in, state, k);
            break;
        }
    }
}

static int set_one(struct rt_initializer *in, const char *item, size_t len, struct co_err *err) {
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*s", (int)len, item);
    char *eq = strchr(text, '=');
    if (!eq || len >= sizeof(text)) {
        return co_err_set(
            err, CO_INVALID, "initializer '%s': '%s' is not key=value", kinds[in->kind].name, text);
    }
    *eq = '\0';
    for (int i = 0; i < 2; i++) {
        if (co_streq(text, kinds[in->kind].keys[i])) {
            return co_parse_f64(text, eq + 1, -1e30, 1e30, i ? &in->b : &in->a, err);
        }
    }
    return co_err_set(
        err, CO_INVALID, "initializer '%s' has no parameter '%s'", kinds[in->kind].name, text);
}

int rt_initializer_parse(
    const char *text, uint64_t seed, struct rt_initializer *ret, struct co_err *err) {
    text = text && *text ? text : "zero";
    size_t len = strcspn(text, ":");
    for (size_t k = 0; k < CO_ARRAY_LEN(kinds); k++) {
        if (strlen(kinds[k].name) != len || strncmp(kinds[k].name, text, len) != 0) {
            continue;
        }
        struct rt_initializer in = {.kind = (enum rt_init_kind)k,
            .a = kinds[k].initial[0],
            .b = kinds[k].initial[1],
            .seed = seed};
        for (const char *p = text + len; *p;) {
            p++; /* the colon or comma */
            size_t n = strcspn(p, ",");
            int rc = set_one(&in, p, n, err);
            if (rc < 0) {
                return rc;
            }
            p += n;
        }
        *ret = in;
        return 0;
    }
    return co_err_set(err, CO_INVALID,
        "initializer '%.40s' is unknown, expected zero, constant, uniform or normal", text);
}
