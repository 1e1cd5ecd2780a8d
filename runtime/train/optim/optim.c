/* Rules and their hyper-parameters by name: parsing, setting within bounds, printing. */
#include "runtime/train/optim/optim.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/pairs.h"
#include "common/parse.h"
#include "common/word_list.h"

#define LARGE 1e30

/* Lists for an error text. */
enum { NAMES = 512 };

static const char *rule_names(char ret[NAMES]) {
    size_t n;
    const struct optim_rule *rules = optim_rules(&n);

    ret[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        co_word_list_add(ret, NAMES, "%s", rules[i].name);
    }
    return ret;
}

static const char *hyper_names(const struct optim_rule *rule, char ret[NAMES]) {
    const struct optim_hyper *h;

    ret[0] = '\0';
    for (size_t i = 0; (h = optim_hyper_at(rule, i)); i++) {
        co_word_list_add(ret, NAMES, "%s", h->name);
    }
    return ret;
}

static bool at_default(const struct optim *o, size_t i) {
    return o->hyper[i] == optim_hyper_at(o->rule, i)->initial;
}

static unsigned bits_of(const struct optim *o) {
    unsigned bits = 0;

    for (size_t i = o->rule->decays ? OPTIM_CLIP_VALUE : OPTIM_L2; i < OPTIM_COMMON; i++) {
        bits |= (unsigned)!at_default(o, i) << i;
    }
    return bits;
}

static int check_value(
    const struct optim *o, const struct optim_hyper *h, double value, struct co_err *err) {
    float single = (float)value;

    if (value != 0 && single == 0) {
        return co_err_set(err, CO_INVALID,
            "%s: %s is %g, which is 0 as a float: expected 0 or from %g to %g", o->rule->name,
            h->name, value, (double)FLT_TRUE_MIN, (double)h->max);
    }
    if (!(single >= h->min && single <= h->max)) {
        char most[32];
        (void)snprintf(most, sizeof(most), "%g", (double)h->max);
        if (strtof(most, NULL) > h->max) { /* the float before it: 1 itself is out of the range */
            return co_err_set(err, CO_INVALID, "%s: %s is %g, expected at least %g and below %s",
                o->rule->name, h->name, value, (double)h->min, most);
        }
        return co_err_set(err, CO_INVALID, "%s: %s is %g, expected %g to %g", o->rule->name,
            h->name, value, (double)h->min, (double)h->max);
    }
    return 0;
}

int optim_set(struct optim *o, const char *name, double value, struct co_err *err) {
    const struct optim_hyper *h;
    struct optim with = *o;

    for (size_t i = 0; (h = optim_hyper_at(o->rule, i)); i++) {
        if (strcmp(h->name, name) != 0) {
            continue;
        }
        CO_TRY(check_value(o, h, value, err));
        with.hyper[i] = (float)value + 0.0F; /* -0 becomes 0, so that it prints and compares as 0 */
        if (with.hyper[OPTIM_MIN] > with.hyper[OPTIM_MAX]) {
            return co_err_set(err, CO_INVALID, "%s: min %g is above max %g", o->rule->name,
                (double)with.hyper[OPTIM_MIN], (double)with.hyper[OPTIM_MAX]);
        }
        with.set = bits_of(&with);
        *o = with;
        return 0;
    }
    char names[NAMES];
    return co_err_set(err, CO_INVALID, "%s has no hyper-parameter \"%s\": expected one of %s",
        o->rule->name, name, hyper_names(o->rule, names));
}

/* Reads one "name=value" of len bytes. */
static int pair_parse(const char *pair, size_t len, struct optim *o, struct co_err *err) {
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
    int rc = co_parse_f64(copy, equals + 1, -LARGE, LARGE, &value, err);
    if (rc < 0) {
        return co_err_wrap(err, "%s", o->rule->name);
    }
    return optim_set(o, copy, value, err);
}

int optim_parse(const char *text, struct optim *ret_o, struct co_err *err) {
    struct optim o = {0};
    const struct optim_hyper *h;
    char name[32];
    size_t len = strcspn(text, ":");

    if (len < sizeof(name)) {
        memcpy(name, text, len);
        name[len] = '\0';
        o.rule = optim_rule_find(name);
    }
    if (!o.rule) {
        char names[NAMES];
        return co_err_set(err, CO_INVALID, "optimizer \"%.*s\": expected one of %s",
            (int)(len < 64 ? len : 64), text, rule_names(names));
    }
    for (size_t i = 0; (h = optim_hyper_at(o.rule, i)); i++) {
        o.hyper[i] = i == OPTIM_LR ? o.rule->lr : h->initial;
    }
    const char *at = text + len;
    if (*at && co_pairs_once(at + 1, err) < 0) {
        return co_err_wrap(err, "%s", o.rule->name);
    }
    while (*at) {
        at++;
        len = strcspn(at, ",");
        CO_TRY(pair_parse(at, len, &o, err));
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

int optim_format(const struct optim *o, char *ret_text, size_t size, struct co_err *err) {
    const struct optim_hyper *h;
    char text[256], number[24];
    size_t used = strlen(o->rule->name);

    memcpy(text, o->rule->name, used);
    for (size_t i = 0; (h = optim_hyper_at(o->rule, i)); i++) {
        if (i > OPTIM_LR && i < OPTIM_COMMON && at_default(o, i)) {
            continue;
        }
        shortest_format(o->hyper[i], number);
        int more =
            snprintf(text + used, sizeof(text) - used, "%c%s=%s", i ? ',' : ':', h->name, number);
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

bool optim_is_whole(const struct optim *o) {
    return o->rule->whole || o->hyper[OPTIM_CLIP_NORM] > 0.0F;
}

size_t optim_state_floats(const struct optim *o, size_t n) {
    return o->rule->planes * n + o->rule->scalars;
}

void optim_state_init(const struct optim *o, size_t n, float *state) {
    size_t total = optim_state_floats(o, n);

    for (size_t i = 0; i < total; i++) {
        state[i] = 0.0F;
    }
    if (o->rule->init_hyper) {
        for (size_t i = 0; i < (o->rule->planes ? n : 1); i++) {
            state[i] = o->hyper[o->rule->init_hyper];
        }
    }
}
