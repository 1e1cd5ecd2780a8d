/* Draws pictures with a planted class and writes them as JPEG and MATLAB files. */
#include "examples/resnet50/gen.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/mem.h"
#include "examples/nn/rng.h"
#include "examples/resnet50/mat.h"

enum { QUALITY = 90 };

#define TURN 6.283185307179586

/* What a picture looks like: what its class has in common, and what is its own. */
struct look {
    double colour[3], across, down; /* across, down: waves of the stripes for each pixel */
    double phase, light;
};

static struct look look_make(const struct rn_gen *g, uint32_t index, struct nn_rng *r) {
    struct nn_rng of_class;
    struct look l;

    nn_rng_init(&of_class, nn_mix64(g->seed, 1), index % g->classes);
    for (int c = 0; c < 3; c++) {
        l.colour[c] = 60.0 + 130.0 * nn_rng_double(&of_class);
    }
    double angle = TURN / 2.0 * nn_rng_double(&of_class);
    double waves = (2.0 + 8.0 * nn_rng_double(&of_class)) / (double)g->edge;
    l.across = waves * cos(angle);
    l.down = waves * sin(angle);
    l.phase = nn_rng_double(r);
    l.light = 0.8 + 0.4 * nn_rng_double(r);
    return l;
}

static unsigned char clamp(double value) {
    return (unsigned char)(value < 0.0 ? 0.0 : value > 255.0 ? 255.0 : value);
}

struct rn_image rn_gen_image(const struct rn_gen *g, uint32_t index) {
    struct rn_image image;
    struct nn_rng r;

    nn_rng_init(&r, g->seed, index);
    struct look look = look_make(g, index, &r);
    uint32_t longer = g->edge + (uint32_t)nn_rng_below(&r, g->edge / 2 + 1);
    bool upright = nn_rng_below(&r, 2) == 1;
    image.width = upright ? g->edge : longer;
    image.height = upright ? longer : g->edge;
    image.rgb = co_xmalloc((size_t)3 * image.width * image.height);
    for (uint32_t y = 0; y < image.height; y++) {
        for (uint32_t x = 0; x < image.width; x++) {
            double wave = sin(TURN * (look.across * x + look.down * y + look.phase));
            double noise = 24.0 * (nn_rng_double(&r) - 0.5);

            for (uint32_t c = 0; c < 3; c++) {
                image.rgb[3 * ((size_t)y * image.width + x) + c] =
                    clamp(look.light * (look.colour[c] + 50.0 * wave) + noise);
            }
        }
    }
    return image;
}

static int image_write(
    const struct rn_gen *g, const char *dir, uint32_t index, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/jpg/image_%05u.jpg", dir, index + 1);
    CO_AUTOFREE unsigned char *data = NULL;
    struct rn_image image = rn_gen_image(g, index);
    size_t size = 0;
    int rc = rn_jpeg_encode(&image, QUALITY, &data, &size, err);

    rn_image_done(&image);
    return rc == 0 ? co_file_write(path, data, size, 0644, err) : rc;
}

static int directory_make(const char *path, struct co_err *err) {
    return mkdir(path, 0777) < 0 && errno != EEXIST ? co_err_errno(err, errno, "%s", path) : 0;
}

static const char *const sets[] = {"trnid", "valid", "tstid"};

void rn_gen_part(
    const struct rn_gen *g, const char *array, uint32_t *ret_first, uint32_t *ret_end) {
    uint32_t eighth = g->images / 8;

    *ret_first = strcmp(array, sets[0]) == 0   ? 0
                 : strcmp(array, sets[1]) == 0 ? eighth
                                               : 2 * eighth;
    *ret_end = strcmp(array, sets[2]) == 0 ? g->images : *ret_first + eighth;
}

static int sets_write(const struct rn_gen *g, const char *dir, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/setid.mat", dir);
    CO_AUTOFREE uint32_t *ids = co_xcalloc(g->images, sizeof(*ids));
    struct rn_mat_array arrays[CO_ARRAY_LEN(sets)];

    for (uint32_t i = 0; i < g->images; i++) {
        ids[i] = i + 1;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(sets); i++) {
        uint32_t first, end;

        rn_gen_part(g, sets[i], &first, &end);
        arrays[i] = (struct rn_mat_array){sets[i], ids + first, end - first};
    }
    return rn_mat_write(path, arrays, CO_ARRAY_LEN(arrays), err);
}

static int labels_write(const struct rn_gen *g, const char *dir, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/imagelabels.mat", dir);
    CO_AUTOFREE uint32_t *labels = co_xcalloc(g->images, sizeof(*labels));

    for (uint32_t i = 0; i < g->images; i++) {
        labels[i] = i % g->classes + 1;
    }
    const struct rn_mat_array array = {"labels", labels, g->images};
    return rn_mat_write(path, &array, 1, err);
}

int rn_gen_write(const struct rn_gen *g, const char *dir, struct co_err *err) {
    CO_AUTOFREE char *jpg = co_xasprintf("%s/jpg", dir);

    CO_TRY(directory_make(dir, err));
    CO_TRY(directory_make(jpg, err));
    for (uint32_t i = 0; i < g->images; i++) {
        CO_TRY(image_write(g, dir, i, err));
    }
    CO_TRY(labels_write(g, dir, err));
    return sets_write(g, dir, err);
}
