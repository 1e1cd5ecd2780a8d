/* Tests decoding and preparing JPEG files.  testdata/resize.json was made by OpenCV: cv2.resize
 * with INTER_CUBIC, the middle cropped.  OpenCV computes with 11 fractional bits, so a value may
 * differ by 1. */
#include "examples/resnet50/image.h"

#include <assert.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "common/mem.h"
#include "examples/resnet50/gen.h"

#define RESIZE "examples/resnet50/testdata/resize.json"

static const float mean_bgr[3] = {103.94F, 116.78F, 123.68F};

static struct rn_image picture(uint32_t width, uint32_t height) {
    struct rn_image image = {width, height, co_xmalloc((size_t)3 * width * height)};

    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            unsigned char *p = image.rgb + 3 * ((size_t)y * width + x);

            p[0] = (unsigned char)(x * 4 + y);
            p[1] = (unsigned char)(y * 6 + x * y / 7);
            p[2] = (unsigned char)(255 - x * 3);
        }
    }
    return image;
}

static void a_picture_is_resized_as_by_opencv(void **state) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    json_t *root = NULL;

    (void)state;
    assert_int_equal(co_file_read(RESIZE, 1 << 20, &text, NULL), 0);
    assert_int_equal(co_json_parse(text.data, text.len, &root, NULL), 0);
    uint32_t size = (uint32_t)json_integer_value(json_object_get(root, "size"));
    struct rn_image image = picture((uint32_t)json_integer_value(json_object_get(root, "width")),
        (uint32_t)json_integer_value(json_object_get(root, "height")));
    const json_t *want = json_object_get(root, "rgb");
    CO_AUTOFREE float *got = co_xcalloc((size_t)3 * size * size, sizeof(*got));
    const struct rn_view view = {.size = size};

    rn_image_prepare(&image, &view, got);
    assert_int_equal(json_array_size(want), 3 * size * size);
    for (size_t i = 0; i < (size_t)3 * size * size; i++) {
        size_t plane = 2 - i % 3;
        double value = (double)(got[plane * size * size + i / 3] + mean_bgr[plane]);

        assert_true(fabs(value - json_number_value(json_array_get(want, i))) < 1.01);
    }
    rn_image_done(&image);
    json_decref(root);
}

/* 64 -> 64 before cutting 56 out: no resizing, so that places can be seen. */
static void training_cuts_and_mirrors(void **state) {
    struct rn_image image = picture(64, 64);
    const uint32_t size = 56;
    CO_AUTOFREE float *got = co_xcalloc((size_t)3 * size * size, sizeof(*got));
    static const struct {
        uint64_t random;
        uint32_t left, top;
        bool mirrored;
    } rows[] = {
        {0, 0, 0, false},
        {UINT64_C(1) << 48, 0, 0, true},
        {0xffffff, 8, 0, false},
        {UINT64_C(0xffffff000000), 0, 8, false},
        {UINT64_MAX, 8, 8, true},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        const struct rn_view view = {.size = size, .augment = true, .random = rows[i].random};

        rn_image_prepare(&image, &view, got);
        for (uint32_t x = 0; x < size; x++) {
            uint32_t from = rows[i].left + (rows[i].mirrored ? size - 1 - x : x);
            float red = (float)image.rgb[3 * (rows[i].top * 64 + from)];

            assert_true(fabsf(got[(size_t)2 * size * size + x] - (red - mean_bgr[2])) < 1e-3F);
        }
    }
    rn_image_done(&image);
}

static void odd_shapes_have_an_answer(void **state) {
    static const struct {
        uint32_t width, height;
    } rows[] = {{1, 1}, {1, 300}, {300, 1}, {3, 2}, {999, 7}};
    CO_AUTOFREE float *got = co_xcalloc((size_t)3 * 32 * 32, sizeof(*got));

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rn_image image = picture(rows[i].width, rows[i].height);
        const struct rn_view view = {.size = 32, .augment = i % 2, .random = UINT64_MAX};

        rn_image_prepare(&image, &view, got);
        for (size_t k = 0; k < (size_t)3 * 32 * 32; k++) {
            assert_true(got[k] >= -124.0F && got[k] <= 152.0F);
        }
        rn_image_done(&image);
    }
}

static void a_jpeg_comes_back(void **state) {
    const struct rn_gen g = {.seed = 1, .classes = 3, .edge = 40, .images = 8};
    struct rn_image image = rn_gen_image(&g, 0), back = {0};
    CO_AUTOFREE unsigned char *data = NULL;
    struct co_err err = {0};
    size_t size = 0;
    double difference = 0.0;

    (void)state;
    assert_int_equal(rn_jpeg_encode(&image, 95, &data, &size, NULL), 0);
    if (rn_jpeg_decode(data, size, &back, &err) < 0) {
        fail_msg("%s", co_err_text(&err));
    }
    assert_int_equal(back.width, image.width);
    assert_int_equal(back.height, image.height);
    size_t n = (size_t)3 * image.width * image.height;
    for (size_t i = 0; i < n; i++) {
        difference += abs((int)image.rgb[i] - (int)back.rgb[i]);
    }
    assert_true(difference / (double)n < 8.0);
    rn_image_done(&image);
    rn_image_done(&back);
}

/* Torn before its last rows (here three of 16 pixels) it is an error. */
static void a_torn_jpeg_is_an_error(void **state) {
    const struct rn_gen g = {.seed = 1, .classes = 3, .edge = 40, .images = 8};
    struct rn_image image = rn_gen_image(&g, 0), back = {0};
    CO_AUTOFREE unsigned char *data = NULL;
    size_t size = 0;

    (void)state;
    assert_int_equal(rn_jpeg_encode(&image, 90, &data, &size, NULL), 0);
    for (size_t part = 0; part < size * 2 / 3; part += size / 20) {
        CO_AUTOFREE unsigned char *torn = co_xmalloc(part + 1);
        struct co_err err = {0};

        memcpy(torn, data, part);
        assert_int_equal(rn_jpeg_decode(torn, part, &back, &err), CO_INVALID);
        assert_memory_equal(err.msg, "bad JPEG: ", strlen("bad JPEG: "));
        assert_null(back.rgb);
    }
    rn_image_done(&image);
}

/* Without its end marker it is the same picture, without a few bytes more the same but for the last
 * rows; with bytes behind it, too. */
static void a_jpeg_without_its_end_is_a_picture(void **state) {
    enum { ROWS = 16 };
    const struct rn_gen g = {.seed = 1, .classes = 3, .edge = 40, .images = 8};
    struct rn_image image = rn_gen_image(&g, 0), whole = {0};
    CO_AUTOFREE unsigned char *data = NULL;
    static const int more[] = {0, -1, -2, -3, -10, 7};
    size_t size = 0;

    (void)state;
    assert_int_equal(rn_jpeg_encode(&image, 90, &data, &size, NULL), 0);
    assert_int_equal(rn_jpeg_decode(data, size, &whole, NULL), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(more); i++) {
        size_t part = (size_t)((long)size + more[i]), edge = (size_t)3 * whole.width;
        CO_AUTOFREE unsigned char *copy = co_xcalloc(size + 8, 1);
        struct rn_image back = {0};
        struct co_err err = {0};

        memcpy(copy, data, part < size ? part : size);
        if (rn_jpeg_decode(copy, part, &back, &err) < 0) {
            fail_msg("%d bytes: %s", more[i], co_err_text(&err));
        }
        assert_int_equal(back.height, whole.height);
        size_t same = more[i] >= -2 ? whole.height : (whole.height - 1) / ROWS * ROWS - 1;
        assert_memory_equal(back.rgb, whole.rgb, edge * same);
        rn_image_done(&back);
    }
    rn_image_done(&whole);
    rn_image_done(&image);
}

/* As a camera writes it: an APP1 segment between the first marker, of two bytes, and the rest. */
static size_t oriented(
    unsigned char *ret, const unsigned char *jpeg, size_t size, int orientation, bool big_endian) {
    static const unsigned char segments[2][36] = {
        "\xff\xe1\0\x22"
        "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\0\0\0\0\0\0\0",
        "\xff\xe1\0\x22"
        "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0",
    };
    enum { LOW = 28, HIGH = 29, SEGMENT = sizeof(segments[0]) };

    memcpy(ret, jpeg, 2);
    memcpy(ret + 2, segments[big_endian], SEGMENT);
    ret[2 + (big_endian ? HIGH : LOW)] = (unsigned char)orientation;
    memcpy(ret + 2 + SEGMENT, jpeg + 2, size - 2);
    return size + SEGMENT;
}

/* The first letter of the colour at a corner. */
static char colour_at(const struct rn_image *image, bool right, bool bottom) {
    size_t x = right ? image->width - 3 : 2, y = bottom ? image->height - 3 : 2;
    const unsigned char *rgb = image->rgb + 3 * (y * image->width + x);
    unsigned bits = (rgb[0] > 128) * 4U + (rgb[1] > 128) * 2U + (rgb[2] > 128);

    return "kbg.r..w"[bits];
}

/* Red and green above blue and white, stored in each of the ways in which a camera can be held;
 * from the standard's table of what the first row and the first column are. */
static void a_picture_is_turned_as_the_camera_was_held(void **state) {
    enum { WIDE = 64, HIGH = 32 };
    static const char *const corners[] = {
        "rgbw", "rgbw", "grwb", "wbgr", "bwrg", "rbgw", "brwg", "wgbr", "gwrb", "rgbw"};
    struct rn_image image = {WIDE, HIGH, co_xcalloc((size_t)3 * WIDE * HIGH, 1)};
    CO_AUTOFREE unsigned char *data = NULL;
    size_t size = 0;

    (void)state;
    for (size_t i = 0; i < (size_t)WIDE * HIGH; i++) {
        bool right = i % WIDE >= WIDE / 2, bottom = i / WIDE >= HIGH / 2;

        image.rgb[3 * i] = bottom == right ? 255 : 0;
        image.rgb[3 * i + 1] = right ? 255 : 0;
        image.rgb[3 * i + 2] = bottom ? 255 : 0;
    }
    assert_int_equal(rn_jpeg_encode(&image, 95, &data, &size, NULL), 0);
    CO_AUTOFREE unsigned char *file = co_xmalloc(size + 64);
    for (size_t o = 0; o < 2 * CO_ARRAY_LEN(corners); o++) { /* 0 and 9 are none */
        size_t way = o / 2;
        struct rn_image back = {0};
        struct co_err err = {0};

        if (rn_jpeg_decode(file, oriented(file, data, size, (int)way, o % 2), &back, &err) < 0) {
            fail_msg("%zu: %s", way, co_err_text(&err));
        }
        bool turned = way >= 5 && way <= 8;
        assert_true(back.width == (turned ? HIGH : WIDE) && back.height == (turned ? WIDE : HIGH));
        const char seen[] = {colour_at(&back, false, false), colour_at(&back, true, false),
            colour_at(&back, false, true), colour_at(&back, true, true), '\0'};
        if (strcmp(seen, corners[way]) != 0) {
            fail_msg("orientation %zu: %s, expected %s", way, seen, corners[way]);
        }
        rn_image_done(&back);
    }
    rn_image_done(&image);
}

/* In four inks: the left half red, the right half a dark blue, at half of the light. */
static void a_picture_for_print_is_read(void **state) {
    static const char *const files[] = {"cmyk", "ycck", "cmyk-plain"};

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(files); i++) {
        CO_AUTOFREE char *path = co_xasprintf("examples/resnet50/testdata/%s.jpg", files[i]);
        CO_AUTOBUF struct co_buf data = CO_BUF(1 << 16);
        struct rn_image image = {0};
        struct co_err err = {0};

        if (co_file_read(path, 1 << 16, &data, &err) < 0 ||
            rn_jpeg_decode(data.data, data.len, &image, &err) < 0) {
            fail_msg("%s", co_err_text(&err));
        }
        assert(image.rgb && image.width == 32 && image.height == 16);
        for (size_t x = 0; x < 32; x += 31) {
            const unsigned char *rgb = image.rgb + 3 * (8 * 32 + x);
            static const int want[2][3] = {{255, 0, 0}, {0, 0, 128}};

            for (size_t c = 0; c < 3; c++) {
                assert_in_range(abs(rgb[c] - want[x > 0][c]), 0, 6);
            }
        }
        rn_image_done(&image);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_is_resized_as_by_opencv),
        cmocka_unit_test(training_cuts_and_mirrors),
        cmocka_unit_test(odd_shapes_have_an_answer),
        cmocka_unit_test(a_jpeg_comes_back),
        cmocka_unit_test(a_torn_jpeg_is_an_error),
        cmocka_unit_test(a_jpeg_without_its_end_is_a_picture),
        cmocka_unit_test(a_picture_for_print_is_read),
        cmocka_unit_test(a_picture_is_turned_as_the_camera_was_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
