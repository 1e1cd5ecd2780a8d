/* What the user of the training program asked for; filled by train.c from its flags.
 * Strings are borrowed and never NULL; "" means not given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct wd_options {
    const char *train, *test;        /* file or directory; "": generated */
    const char *save, *load;         /* checkpoint directories */
    const char *generate;            /* directory to write generated files to */
    const char *optimizer;           /* runtime/train/optim's text form; "": see tables.h */
    const char *embedding_optimizer; /* "": as optimizer */
    const char *mode;                /* async or sync */
    double lr;                       /* 0: the optimizer's own */
    int64_t batch_size, epochs;
    int64_t lines, test_lines, files, seed; /* of generated data; seed also of initial weights */
    bool local, predict;
};
