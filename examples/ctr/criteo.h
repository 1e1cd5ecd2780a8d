/* Parses a line of the Criteo format: label, 13 integers, 26 categorical values, separated by tabs.
 * Features may be empty.  A line without its first column, as in Criteo's test.txt, has no label.
 *
 *     number i      0 if empty, else scaled (runtime/train/data/feature.h)
 *     category c    an id by the hash there, of its column (14 to 39); an empty value is hashed,
 * too
 *
 * Knows nothing of files. */
#pragma once

#include "examples/ctr/sample.h"

enum { CTR_CRITEO_COLUMNS = 1 + CTR_NUMBERS + CTR_SLOTS, CTR_CRITEO_CATEGORY = 1 + CTR_NUMBERS };

/* Returns 0, or -1 with the reason; *s may then be half written. */
int ctr_criteo_parse(struct da_text line, struct ctr_sample *s, struct da_why *why);
