/* Prepares data like Paddle's demo/recommendation, from MovieLens' files or generated:
 *
 *     OUT/ml-1m/users.dat, movies.dat, ratings.dat     only if they are generated
 *     OUT/ratings.dat.train-00000 ...  OUT/ratings.dat.test
 *     OUT/train.list, OUT/test.list                    names of those files, one a line
 *
 * Generated data has 8 genres; which genres a user likes depends on gender and age. */
#pragma once

#include <stdint.h>

#include "common/err.h"

struct rc_prepare {
    const char *ml; /* directory with ratings.dat; "": OUT/ml-1m, generated unless a user's */
    const char *out;
    uint32_t split;                  /* files of training data */
    uint64_t users, movies, ratings; /* sizes of generated data */
    uint64_t seed;                   /* also decides which tenth of the ratings is for the test */
};

/* Replaces each file atomically. */
CO_MUST_CHECK int rc_prepare(const struct rc_prepare *p, struct co_err *err);
