/* The list of images of the Oxford flowers data set, with the directory layout of
 * paddle.dataset.flowers and paddle.vision.datasets.Flowers:
 *
 *     jpg/image_00001.jpg ...     numbers from 1
 *     imagelabels.mat             labels(n): class of image n, from 1
 *     setid.mat                   tstid, trnid, valid: image numbers
 *
 * Like Paddle, and unlike Oxford, "train" means tstid and "test" means trnid, as tstid has six
 * times as many images.  Without imagelabels.mat, the files train.txt, test.txt and valid.txt are
 * read: one line for each image with its path below the directory, blanks or tabs, and its class
 * from 0. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/resnet50/gen.h"

enum { RN_FLOWERS_MAX = 1 << 20 };

struct rn_flower {
    char *path;     /* of the file; NULL: the picture is generated */
    uint32_t index; /* of a generated picture */
    uint32_t label;
};

struct rn_flowers {
    struct rn_flower *images;
    size_t n;
    struct rn_gen gen; /* how to generate pictures */
};

/* part: train, test or valid.  CO_INVALID names file and line, or the image.  CO_NOTFOUND: the
 * directory has neither .mat nor .txt files. */
CO_MUST_CHECK int rn_flowers_open(const char *dir, const char *part, uint32_t classes,
    struct rn_flowers **ret_flowers, struct co_err *err);
/* The same for generated pictures, without files: those that rn_gen_write would write. */
CO_MUST_CHECK int rn_flowers_generated(const struct rn_gen *gen, const char *part,
    struct rn_flowers **ret_flowers, struct co_err *err);
void rn_flowers_close(struct rn_flowers *f);
CO_DEFINE_CLEANUP(struct rn_flowers *, rn_flowers_close)
