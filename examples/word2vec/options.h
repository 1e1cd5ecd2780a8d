/* The options of the program; train.c fills them from the flags.  Strings are borrowed and never
 * NULL; "" means not given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct wv_options {
    const char *data;                            /* directory that wv_prepare has written */
    const char *model;                           /* ngram, skipgram */
    const char *save, *load;                     /* checkpoint directories */
    const char *mode;                            /* async, sync or geo; "": the model's */
    const char *optimizer, *embedding_optimizer; /* "": the model's */
    int64_t embed, hidden, batch_size, passes, period, negatives, k_steps, seed, nearest;
    int64_t top; /* words that nearest and analogy print */
    bool json;
    double dropout;
};
