/* Criteo-format lines with a planted structure, so that training can be shown to learn something
 * where no data set is at hand.  Line i of a seed is always the same, whatever was asked for
 * before, so that workers and files can take any share of one data set.
 *
 * The label is drawn with probability sigmoid(b + sum of weights): eight categorical columns with
 * few values have a weight for each value, four numeric columns one for their size; the other
 * columns are noise.  About three lines in ten are positive.  Knowing the weights would give an
 * area under the curve of about 0.89; guessing gives 0.5.
 * Pure: no I/O, threads or globals. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { WD_GEN_LINE_MAX = 512, WD_GEN_COLUMNS = 26, WD_GEN_WEIGHTS = 24 };

/* Test lines begin here, far from any training line of the same seed. */
#define WD_GEN_TEST_BEGIN ((uint64_t)1 << 40)

/* The structure of one seed; immutable after wd_gen_init. */
struct wd_gen {
    uint64_t seed;
    double weights[WD_GEN_COLUMNS][WD_GEN_WEIGHTS];
};

void wd_gen_init(struct wd_gen *g, uint64_t seed);

/* Writes line `index` of the data set, without newline; returns its length. */
size_t wd_gen_line(const struct wd_gen *g, uint64_t index, char ret_line[WD_GEN_LINE_MAX]);

/* The probability with which that line's label was drawn as 1: the best possible prediction. */
double wd_gen_truth(const struct wd_gen *g, uint64_t index);
