/* The options of the training program; train.c fills them from the flags.
 * Strings are borrowed and never NULL; "" means not given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rn_options {
    const char *data;       /* directory, see flowers.h; "": generate pictures */
    const char *generate;   /* directory to write generated pictures to */
    const char *checkpoint; /* directory of checkpoints */
    const char *load;       /* directory of checkpoints to test or to classify with */
    const char *precision;  /* f32, bf16 */
    const char *schedule;   /* constant, piecewise, cosine */
    const char *boundaries; /* epochs, "30,60,80" */
    const char *bad_images; /* skip, fail */
    double lr, momentum, l2_decay, label_smoothing;
    int64_t depth, width, image_size, class_dim;
    int64_t batch_size, epochs, warmup_epochs, max_steps, seed;
    int64_t threads, loader_threads, prefetch;
    int64_t checkpoint_every, log_every;
    int64_t images; /* generated */
    int64_t top;    /* classes that classify prints */
    bool json, sync_bn, figures, test, local;
};
