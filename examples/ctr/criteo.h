/* Parses a line of the Criteo format: label, 13 integers, 26 categorical values, separated by tabs.
 * Features may be empty.  A line without its first column, as in Criteo's test.txt, has no label.
 *
 *     number i      0 if empty, else (x - min_i) / range_i with the fixed tables in criteo.c
 *     category c    FNV-1a (64 bits) over the decimal column number (14 to 39) and the value,
 *                   modulo the vocabulary; an empty value is hashed, too
 *
 * The hash must never change: a feature needs the same id in every process, on every machine, and
 * when a saved model is loaded.  Knows nothing of files. */
#pragma once

#include "examples/ctr/sample.h"

enum { CTR_CRITEO_COLUMNS = 1 + CTR_NUMBERS + CTR_SLOTS, CTR_CRITEO_CATEGORY = 1 + CTR_NUMBERS };

/* The id of a value (len bytes) in a column (1 to 9999). */
uint64_t ctr_criteo_id(unsigned column, const char *value, size_t len, uint64_t vocabulary);
/* What the network gets for x as number i. */
float ctr_criteo_scale(size_t i, double x);

/* Returns 0, or -1 with the reason; *s may then be half written. */
int ctr_criteo_parse(struct da_text line, struct ctr_sample *s, struct da_why *why);
