/* A sample, as a line of a data set describes it; what all formats parse to (format.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/train/data/tally.h"
#include "runtime/train/data/text.h"

enum { CTR_NUMBERS = 13, CTR_SLOTS = 26 };

/* A value of a slot that has several, beyond the first. */
struct ctr_value {
    uint32_t cell; /* sample * CTR_SLOTS + slot */
    uint64_t id;
};

struct ctr_values {
    struct ctr_value *at; /* owned */
    size_t n, room;
};

/* A parser fills it.  Arrays are the caller's; what a line does not have is 0. */
struct ctr_sample {
    uint64_t vocabulary;     /* ids are below it */
    uint64_t *ids;           /* [CTR_SLOTS] */
    float *dense;            /* [CTR_NUMBERS] */
    float label;             /* 0, 1, or -1, which the reader makes 0; NaN: the line has none */
    struct ctr_values *more; /* NULL: one value a slot */
    uint32_t cell;           /* of the first slot */
    struct da_text left;     /* a slot of the line that the model does not have; at NULL: none */
};

void ctr_values_add(struct ctr_values *v, uint32_t cell, uint64_t id);
