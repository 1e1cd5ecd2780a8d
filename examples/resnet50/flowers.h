/* The Oxford flowers, as paddle.dataset.flowers and paddle.vision.datasets.Flowers find them
 * below a directory:
 *
 *     jpg/image_00001.jpg ...     numbers from 1
 *     imagelabels.mat             labels(n): class of image n, from 1
 *     setid.mat                   tstid, trnid, valid: image numbers
 *
 * "train" is tstid and "test" is trnid, the other way round than Oxford has it: tstid has six
 * times as many.  Without imagelabels.mat: train.txt, test.txt, valid.txt, a line an image, its
 * path below the directory, a blank, its class from 0. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/resnet50/gen.h"

enum { RN_FLOWERS_MAX = 1 << 20, RN_FLOWERS_TEXT_MAX = 64 << 20 };

struct rn_flower {
    char *path;     /* of the file; NULL: generated */
    uint32_t index; /* of the generated picture */
    uint32_t label;
};

struct rn_flowers {
    struct rn_flower *images;
    size_t n;
    struct rn_gen gen; /* of generated ones */
};

/* part: train, test or valid.  CO_INVALID names file and line, or the image; CO_NOTFOUND: neither
 * form is there. */
CO_MUST_CHECK int rn_flowers_open(const char *dir, const char *part, uint32_t classes,
    struct rn_flowers **ret_flowers, struct co_err *err);
/* The part of generated pictures, which are in no files: those of rn_gen_write. */
CO_MUST_CHECK int rn_flowers_generated(const struct rn_gen *gen, const char *part,
    struct rn_flowers **ret_flowers, struct co_err *err);
void rn_flowers_close(struct rn_flowers *f);
CO_DEFINE_CLEANUP(struct rn_flowers *, rn_flowers_close)
