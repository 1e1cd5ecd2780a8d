/* Asks a trained network what is on a picture. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "examples/resnet50/options.h"

/* Prints the o->top likeliest classes of each picture (JPEG files), by the newest checkpoint in
 * o->load:
 *
 *     rose.jpg: class 77 0.912, class 12 0.034
 *
 * A picture that cannot be read is the end, with its name: CO_INVALID. */
CO_MUST_CHECK int rn_classify(
    const struct rn_options *o, char *const *pictures, size_t n, struct co_err *err);
