/* Pictures with a planted class, so that a network visibly learns without the real flowers: a
 * class has a colour and stripes of a direction and a width, an image of it its own brightness,
 * phase, noise and size.  Written as rn_flowers_open reads them.  The same seed, the same files. */
#pragma once

#include <stdint.h>

#include "examples/resnet50/jpeg.h"

struct rn_gen {
    uint64_t seed;
    uint32_t classes, edge; /* shortest edge of a picture; they are up to half as long again */
    uint32_t images;        /* in all: three quarters to train, an eighth to test and valid each */
};

/* Image `index`, from 0; its class is index % classes.  The caller frees it. */
struct rn_image rn_gen_image(const struct rn_gen *g, uint32_t index);

/* Images first .. end - 1 are those of trnid, valid or tstid. */
void rn_gen_part(const struct rn_gen *g, const char *array, uint32_t *ret_first, uint32_t *ret_end);

/* jpg/, imagelabels.mat and setid.mat below dir, which is made when absent. */
CO_MUST_CHECK int rn_gen_write(const struct rn_gen *g, const char *dir, struct co_err *err);
