/* The options of a training program; program.c fills them from the flags.
 * Strings are borrowed and never NULL; "" means not given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ctr_net;

struct ctr_options {
    const struct ctr_net *net; /* which network */
    const char *train, *test;  /* file or directory; "": generated */
    const char *format;        /* of the data (format.h); "": its default */
    const char *csv_label, *csv_numbers, *csv_categories; /* names of columns; "": csv.h's */
    const char *save, *load;                              /* checkpoint directories */
    const char *generate;            /* directory to write generated files to */
    const char *optimizer;           /* runtime/train/optim's text form; "": see tables.h */
    const char *embedding_optimizer; /* "": as optimizer */
    const char *mode;                /* async, sync or geo; "": by PADDLE_PS_STRATEGY, or async */
    int64_t k_steps, backup, staleness, merge; /* of rt_client_options; 0: not given */
    const char *wire;   /* type of values and gradients on the network; "": f32 */
    double lr;          /* 0: the optimizer's own */
    int64_t refresh_ms; /* predict: looks so often for a newer checkpoint; 0: never */
    int64_t batch_size, epochs;
    int64_t lines, test_lines, files,
        seed; /* of generated data; seed is also for initial weights */
    bool local, predict;
    bool more;  /* TRAIN lines have area under the curve and rate, too */
    bool slots; /* generated files in PaddleRec's format */
};
