/* Decodes any bytes as a picture: no crash, no leak, and the result has the size that it claims. */
#include "examples/resnet50/jpeg.h"

#include <stdlib.h>

#include "examples/resnet50/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct rn_view view = {.size = 8, .augment = true, .random = size};
    static float pixels[3 * 8 * 8];
    struct rn_image image = {0};
    struct co_err err = {0};

    if (rn_jpeg_decode(data, size, &image, &err) < 0) {
        if (image.rgb || err.msg[0] == '\0') {
            abort();
        }
        return 0;
    }
    if ((uint64_t)image.width * image.height > RN_JPEG_PIXELS_MAX) {
        abort();
    }
    rn_image_prepare(&image, &view, pixels);
    rn_image_done(&image);
    return 0;
}
