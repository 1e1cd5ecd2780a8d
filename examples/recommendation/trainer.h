/* Trains as one worker of a job, on its share of the ratings.  Worker 0 saves after each pass and
 * tests at the end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "runtime/rt.h"

/* train.c fills them from its flags.  Strings are borrowed and never NULL; "" means not given. */
struct rc_options {
    const char *data;     /* directory with train.list and test.list */
    const char *ml;       /* directory with users.dat and movies.dat; "": data/ml-1m */
    const char *save_dir; /* model of pass p: save_dir/pass-0000p; "": not saved */
    const char *load;
    const char *mode, *optimizer;
    int64_t batch_size, passes, period, features, seed;
    bool own_list; /* train.list has only this worker's files */
    bool json;     /* predict, evaluate: a JSON object a line */
};

/* Blocks until this worker has finished.  Prints on stdout
 *     Pass 0 Batch 100 Cost 3.19      v2's line, every o->period batches
 *     TEST ---> loss: 1.25            worker 0, at the end: mean squared error */
CO_MUST_CHECK int rc_train(
    const struct rt_job *job, const struct rc_options *o, struct co_err *err);
