/* The only user of libjpeg: converts JPEG files from and to RGB in memory.  Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { RN_JPEG_BYTES_MAX = 64 << 20, RN_JPEG_EDGE_MAX = 16384, RN_JPEG_PIXELS_MAX = 1 << 26 };

struct rn_image {
    uint32_t width, height;
    unsigned char *rgb; /* (height, width, 3); owned */
};

void rn_image_done(struct rn_image *image);

/* Grey, RGB and CMYK, turned upright by the orientation of EXIF data.  CO_INVALID says what is
 * wrong.  Damage is an error, too, where libjpeg itself would only warn and fill the rest with
 * grey; but not in the last rows, as in files that lack their end marker. */
CO_MUST_CHECK int rn_jpeg_decode(
    const void *data, size_t size, struct rn_image *ret_image, struct co_err *err);
/* The caller frees *ret_data.  quality: 1 to 100. */
CO_MUST_CHECK int rn_jpeg_encode(const struct rn_image *image, int quality,
    unsigned char **ret_data, size_t *ret_size, struct co_err *err);
