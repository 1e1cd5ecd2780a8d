/* From a picture to a network's input, as paddle.dataset.flowers does it with OpenCV: the short
 * edge to 256 pixels (bicubic), a piece of 224 x 224 out of it (a random one, and half the time
 * mirrored, for training; the middle for tests), BGR planes, the mean colour subtracted, no
 * scaling.  Other sizes: the same by proportion.  Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "examples/resnet50/jpeg.h"

/* random: what decides about place and mirroring, a well-mixed number. */
struct rn_view {
    uint32_t size; /* height and width of what comes out */
    bool augment;  /* for training */
    uint64_t random;
};

/* ret (3, size, size). */
void rn_image_prepare(const struct rn_image *image, const struct rn_view *view, float *ret);
