/* Generates lines of the Criteo format from which a network can learn, for use without a data set.
 * Line i of a seed is always the same, whatever was generated before, so that workers and files can
 * take any share of one data set.
 *
 * The label is drawn with probability sigmoid(b + sum of weights): eight categorical columns with
 * few values have a weight for each value, four numeric columns one for their size; the other
 * columns are noise.  About three lines in ten are positive.  A model that knows the weights has an
 * area under the curve of about 0.89, a guess has 0.5.  No I/O, threads or globals. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ctr_parser;

enum { CTR_GEN_LINE_MAX = 1024, CTR_GEN_COLUMNS = 26, CTR_GEN_WEIGHTS = 24 };

/* The index of the first test line, far from any training line of the same seed. */
#define CTR_GEN_TEST_BEGIN ((uint64_t)1 << 40)

/* The weights for one seed; immutable after ctr_gen_init. */
struct ctr_gen {
    uint64_t seed;
    double weights[CTR_GEN_COLUMNS][CTR_GEN_WEIGHTS];
};

void ctr_gen_init(struct ctr_gen *g, uint64_t seed);

/* Writes line `index` of the data set without a newline; returns its length. */
size_t ctr_gen_line(const struct ctr_gen *g, uint64_t index, char ret_line[CTR_GEN_LINE_MAX]);

/* The same sample in PaddleRec's slot format (slots.h), with ids below the vocabulary.  parser: of
 * Criteo's lines. */
size_t ctr_gen_slots(const struct ctr_gen *g, struct ctr_parser *parser, uint64_t index,
    uint64_t vocabulary, char ret_line[CTR_GEN_LINE_MAX]);

/* The probability of label 1 for that line: the best possible prediction. */
double ctr_gen_truth(const struct ctr_gen *g, uint64_t index);
