/* Turns a picture into a network's input, as paddle.dataset.flowers does with OpenCV: resize the
 * short edge to 256 pixels (bicubic), crop 224 x 224 (for training at random, and mirrored half of
 * the time; for tests the middle), split into BGR planes, subtract the mean colour, do not scale.
 * Other sizes are in proportion. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "examples/resnet50/jpeg.h"

/* random: a well-mixed number that decides the crop's place and the mirroring. */
struct rn_view {
    uint32_t size; /* height and width of the result */
    bool augment;  /* for training */
    uint64_t random;
};

/* Writes ret (3, size, size). */
void rn_image_prepare(const struct rn_image *image, const struct rn_view *view, float *ret);
