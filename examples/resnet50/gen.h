/* Generates pictures from which a network can learn, for use without the real flowers.  A class has
 * a colour and stripes of a certain direction and width; each image has its own brightness, phase,
 * noise and size.  The same seed gives the same files, in the layout of rn_flowers_open. */
#pragma once

#include <stdint.h>

#include "examples/resnet50/jpeg.h"

struct rn_gen {
    uint64_t seed;
    uint32_t classes, edge; /* edge: the short one; the long one is up to half as long again */
    uint32_t images;        /* in all: 3/4 for training, 1/8 each for test and validation */
};

/* Image `index`, from 0; its class is index % classes.  The caller frees it. */
struct rn_image rn_gen_image(const struct rn_gen *g, uint32_t index);

/* Images first to end - 1 are those of array trnid, valid or tstid. */
void rn_gen_part(const struct rn_gen *g, const char *array, uint32_t *ret_first, uint32_t *ret_end);

/* Writes jpg/, imagelabels.mat and setid.mat below dir; creates dir if it is missing. */
CO_MUST_CHECK int rn_gen_write(const struct rn_gen *g, const char *dir, struct co_err *err);
