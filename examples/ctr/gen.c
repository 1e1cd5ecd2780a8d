/* Draws the structure of a seed and its lines. */
#include "examples/ctr/gen.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "examples/ctr/parser.h"
#include "examples/nn/rng.h"

#define BIAS (-1.3)
#define WEIGHT 0.75
#define EMPTY_NUMBER 0.1
#define EMPTY_CATEGORY 0.03

/* For each number: the largest that is drawn, and what that one adds to the logit (0: noise). */
static const struct {
    unsigned top;
    double weight;
} numbers[CTR_NUMBERS] = {
    {20, 1.5},
    {600, 0.0},
    {100, -1.5},
    {50, 0.0},
    {64000, 0.0},
    {500, 1.5},
    {100, 0.0},
    {50, 0.0},
    {500, -1.5},
    {10, 0.0},
    {10, 0.0},
    {10, 0.0},
    {50, 0.0},
};

/* For each column: how many values it has (the first are the most frequent), and whether they
 * affect the label. */
static const struct {
    unsigned values;
    bool matters;
} categories[CTR_SLOTS] = {
    {12, true},
    {500, false},
    {20000, false},
    {16, true},
    {300, false},
    {8, true},
    {10000, false},
    {20, true},
    {3, false},
    {5000, false},
    {24, true},
    {20000, false},
    {3000, false},
    {10, true},
    {4000, false},
    {20000, false},
    {6, true},
    {1000, false},
    {2000, false},
    {4, true},
    {20000, false},
    {18, false},
    {15, false},
    {8000, false},
    {80, false},
    {6000, false},
};

enum { WEIGHTS_STREAM = 1 }; /* of nn_mix64; another stream than the one for names of values */

_Static_assert((int)CTR_GEN_COLUMNS == (int)CTR_SLOTS, "a row for each column");

/* Value k is drawn about as often as 1 / (k + 1). */
static double value_share(size_t column, size_t value) {
    return log(((double)value + 2.0) / ((double)value + 1.0)) /
           log((double)categories[column].values + 1.0);
}

/* Draws the weights of a column's values from a normal distribution, then shifts and scales them so
 * that, weighted by frequency, their mean is 0 and their deviation WEIGHT for every seed. */
static void column_init(struct ctr_gen *g, size_t column) {
    double *w = g->weights[column], mean = 0.0, square = 0.0;
    size_t n = categories[column].values;
    struct nn_rng r;

    nn_rng_init(&r, nn_mix64(g->seed, WEIGHTS_STREAM), column);
    for (size_t i = 0; i < n; i++) {
        w[i] = nn_rng_normal(&r);
        mean += value_share(column, i) * w[i];
    }
    for (size_t i = 0; i < n; i++) {
        square += value_share(column, i) * (w[i] - mean) * (w[i] - mean);
    }
    for (size_t i = 0; i < n; i++) {
        w[i] = WEIGHT * (w[i] - mean) / sqrt(square);
    }
}

void ctr_gen_init(struct ctr_gen *g, uint64_t seed) {
    memset(g, 0, sizeof(*g));
    g->seed = seed;
    for (size_t i = 0; i < CTR_GEN_COLUMNS; i++) {
        if (categories[i].matters) {
            column_init(g, i);
        }
    }
}

struct writer {
    char *text;
    size_t len;
};

static void put_char(struct writer *w, char c) {
    w->text[w->len++] = c;
}

static void put_number(struct writer *w, unsigned x) {
    char digits[10];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + (char)(x % 10U));
        x /= 10U;
    } while (x);
    while (n) {
        put_char(w, digits[--n]);
    }
}

/* Eight hexadecimal digits, as in the published data. */
static void put_name(struct writer *w, uint64_t name) {
    for (unsigned shift = 32; shift;) {
        shift -= 4;
        put_char(w, "0123456789abcdef"[(name >> shift) & 15U]);
    }
}

static double number_draw(struct nn_rng *r, size_t i, struct writer *w) {
    double u = nn_rng_double(r), empty = nn_rng_double(r);

    /* Small numbers are more frequent than large ones. */
    unsigned x = (unsigned)((double)(numbers[i].top + 1) * u * u);
    put_char(w, '\t');
    if (empty < EMPTY_NUMBER) {
        return 0.0;
    }
    put_number(w, x);
    return numbers[i].weight * (double)x / (double)numbers[i].top;
}

static double category_draw(struct nn_rng *r, const struct ctr_gen *g, size_t i, struct writer *w) {
    double u = nn_rng_double(r), empty = nn_rng_double(r);

    /* See value_share. */
    uint64_t value = (uint64_t)pow((double)categories[i].values + 1.0, u) - 1U;
    put_char(w, '\t');
    if (empty < EMPTY_CATEGORY) {
        return 0.0;
    }
    put_name(w, nn_mix64(nn_mix64(g->seed, i), value));
    return categories[i].matters ? g->weights[i][value] : 0.0;
}

static size_t line_draw(const struct ctr_gen *g, uint64_t index, char *text, double *ret_truth) {
    struct writer w = {.text = text};
    double logit = BIAS;
    struct nn_rng r;

    nn_rng_init(&r, g->seed, index);
    double chance = nn_rng_double(&r);
    put_char(&w, '0');
    for (size_t i = 0; i < CTR_NUMBERS; i++) {
        logit += number_draw(&r, i, &w);
    }
    for (size_t i = 0; i < CTR_SLOTS; i++) {
        logit += category_draw(&r, g, i, &w);
    }
    *ret_truth = 1.0 / (1.0 + exp(-logit));
    text[0] = chance < *ret_truth ? '1' : '0';
    text[w.len] = '\0';
    return w.len;
}

size_t ctr_gen_line(const struct ctr_gen *g, uint64_t index, char ret_line[CTR_GEN_LINE_MAX]) {
    double truth;

    return line_draw(g, index, ret_line, &truth);
}

double ctr_gen_truth(const struct ctr_gen *g, uint64_t index) {
    char line[CTR_GEN_LINE_MAX];
    double truth;

    (void)line_draw(g, index, line, &truth);
    return truth;
}

size_t ctr_gen_slots(const struct ctr_gen *g, struct ctr_parser *parser, uint64_t index,
    uint64_t vocabulary, char ret_line[CTR_GEN_LINE_MAX]) {
    char line[CTR_GEN_LINE_MAX];
    uint64_t ids[CTR_SLOTS] = {0};
    float dense[CTR_NUMBERS] = {0};
    struct ctr_sample s = {.vocabulary = vocabulary, .ids = ids, .dense = dense};
    struct da_why why;
    size_t len = ctr_gen_line(g, index, line), at = 0;

    if (ctr_parser_parse(parser, (struct da_text){line, len}, &s, &why) < 0) {
        return 0; /* impossible: we generated the line */
    }
    at += (size_t)snprintf(ret_line, CTR_GEN_LINE_MAX, "click:%d", s.label > 0.5F);
    for (size_t i = 0; i < CTR_NUMBERS; i++) {
        at += (size_t)snprintf(
            ret_line + at, CTR_GEN_LINE_MAX - at, " dense_feature:%.9g", (double)dense[i]);
    }
    for (size_t i = 0; i < CTR_SLOTS; i++) {
        at +=
            (size_t)snprintf(ret_line + at, CTR_GEN_LINE_MAX - at, " %zu:%" PRIu64, i + 1, ids[i]);
    }
    return at;
}
