/* Resizes with bicubic weights, crops, mirrors and normalises one picture. */
#include "examples/resnet50/image.h"

#include <math.h>
#include <string.h>

#include "common/mem.h"

enum { TAPS = 4 };

static const float mean_bgr[3] = {103.94F, 116.78F, 123.68F};

/* One edge of the resized picture: the four source pixels for each wanted pixel. */
struct axis {
    int32_t *from;          /* [size][TAPS] */
    float (*weights)[TAPS]; /* [size] */
};

/* OpenCV's bicubic weights (a = -0.75) of four pixels, for a point at distance x (0 to 1) behind
 * the second one. */
static void cubic(float x, float w[TAPS]) {
    const float a = -0.75F;

    w[0] = ((a * (x + 1.0F) - 5.0F * a) * (x + 1.0F) + 8.0F * a) * (x + 1.0F) - 4.0F * a;
    w[1] = ((a + 2.0F) * x - (a + 3.0F)) * x * x + 1.0F;
    w[2] = ((a + 2.0F) * (1.0F - x) - (a + 3.0F)) * (1.0F - x) * (1.0F - x) + 1.0F;
    w[3] = 1.0F - w[0] - w[1] - w[2];
}

static int32_t within(int64_t at, uint32_t edge) {
    return (int32_t)(at < 0 ? 0 : at >= (int64_t)edge ? (int64_t)edge - 1 : at);
}

/* Prepares pixels begin to begin + size - 1 of an edge that is resized from `from` to `to` pixels.
 * Beyond its ends the last pixel repeats. */
static struct axis axis_make(
    uint32_t from, uint32_t to, uint32_t begin, uint32_t size, bool mirrored) {
    struct axis a = {.from = co_xcalloc(size, TAPS * sizeof(int32_t)),
        .weights = co_xcalloc(size, sizeof(*a.weights))};
    double scale = (double)from / (double)to;

    for (uint32_t i = 0; i < size; i++) {
        uint32_t pixel = begin + (mirrored ? size - 1 - i : i);
        double at = ((double)pixel + 0.5) * scale - 0.5, whole = floor(at);

        cubic((float)(at - whole), a.weights[i]);
        for (int k = 0; k < TAPS; k++) {
            a.from[i * TAPS + (uint32_t)k] = within((int64_t)whole - 1 + k, from);
        }
    }
    return a;
}

static void axis_done(struct axis *a) {
    free(a->from);
    free(a->weights);
}

/* Resizes one source row: out (size, 3). */
static void row_resize(const unsigned char *rgb, const struct axis *x, uint32_t size, float *out) {
    for (uint32_t i = 0; i < size; i++) {
        const int32_t *from = x->from + i * TAPS;
        const float *w = x->weights[i];

        for (int c = 0; c < 3; c++) {
            float sum = 0.0F;

            for (int k = 0; k < TAPS; k++) {
                sum += w[k] * (float)rgb[3 * from[k] + c];
            }
            out[i * 3 + (uint32_t)c] = sum;
        }
    }
}

/* Makes row y of the result out of four resized rows, each (size, 3) in RGB. */
static void row_finish(
    const float *const rows[TAPS], const float w[TAPS], uint32_t size, uint32_t y, float *ret) {
    for (uint32_t i = 0; i < 3 * size; i++) {
        uint32_t plane = 2 - i % 3;
        float value = w[0] * rows[0][i] + w[1] * rows[1][i] + w[2] * rows[2][i] + w[3] * rows[3][i];

        value = rintf(value < 0.0F ? 0.0F : value > 255.0F ? 255.0F : value);
        ret[((size_t)plane * size + y) * size + i / 3] = value - mean_bgr[plane];
    }
}

static void resize(const struct rn_image *image, const struct axis *x, const struct axis *y,
    uint32_t size, float *ret) {
    int32_t first = y->from[0], last = y->from[size * TAPS - 1];
    size_t row = (size_t)3 * size;
    CO_AUTOFREE float *resized = co_xcalloc((size_t)(last - first + 1) * row, sizeof(*resized));

    for (int32_t i = first; i <= last; i++) {
        row_resize(image->rgb + (size_t)3 * image->width * (size_t)i, x, size,
            resized + (size_t)(i - first) * row);
    }
    for (uint32_t i = 0; i < size; i++) {
        const float *rows[TAPS];

        for (int k = 0; k < TAPS; k++) {
            rows[k] = resized + (size_t)(y->from[i * TAPS + (uint32_t)k] - first) * row;
        }
        row_finish(rows, y->weights[i], size, i, ret);
    }
}

void rn_image_prepare(const struct rn_image *image, const struct rn_view *view, float *ret) {
    uint32_t edge = image->width < image->height ? image->width : image->height;
    double target = round((double)view->size * 256.0 / 224.0), scale = target / (double)edge;
    uint32_t width = (uint32_t)rint((double)image->width * scale);
    uint32_t height = (uint32_t)rint((double)image->height * scale);
    uint32_t left = (width - view->size) / 2, top = (height - view->size) / 2;
    bool mirrored = false;

    if (view->augment) {
        left = (uint32_t)((view->random & 0xffffffU) * (width - view->size + 1) >> 24);
        top = (uint32_t)((view->random >> 24 & 0xffffffU) * (height - view->size + 1) >> 24);
        mirrored = view->random >> 48 & 1;
    }
    struct axis x = axis_make(image->width, width, left, view->size, mirrored);
    struct axis y = axis_make(image->height, height, top, view->size, false);
    resize(image, &x, &y, view->size, ret);
    axis_done(&x);
    axis_done(&y);
}
