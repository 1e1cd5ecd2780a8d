/* libjpeg reports errors through a callback that must not return; ours does a longjmp.  So
 * everything that must be cleaned up after it is in a struct, and functions that call setjmp own no
 * local memory. */
#include "examples/resnet50/jpeg.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "common/mem.h"

/* ---- the way in which a camera was held, in EXIF data: all that shows pictures turns them
 * --------- */

enum { UPRIGHT = 1, LAST = 8, TAG = 0x0112, SHORT = 3, ENTRY_BYTES = 12 };

/* A TIFF, whose numbers have one of two byte orders. */
struct tiff {
    const unsigned char *at;
    size_t size;
    bool big_endian;
};

/* A number of n bytes; 0 behind the end. */
static uint32_t number_at(const struct tiff *t, size_t at, size_t n) {
    uint32_t value = 0;

    if (at > t->size || t->size - at < n) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        value = value << 8 | t->at[at + (t->big_endian ? i : n - 1 - i)];
    }
    return value;
}

/* The orientation, 1 to 8, of the EXIF data that an APP1 segment has; 1, which is upright, where it
 * has none or cannot be read.  Source: Exif 2.3, 4.6.4 A (tag 0x0112), in IFD 0 of a TIFF. */
static int exif_orientation(const unsigned char *segment, size_t size) {
    static const unsigned char head[] = {'E', 'x', 'i', 'f', 0, 0};

    if (size < sizeof(head) + 8 || memcmp(segment, head, sizeof(head)) != 0) {
        return UPRIGHT;
    }
    struct tiff t = {.at = segment + sizeof(head), .size = size - sizeof(head)};
    t.big_endian = t.at[0] == 'M';
    size_t at = number_at(&t, 4, 4);
    uint32_t entries = number_at(&t, at, 2);
    for (uint32_t i = 0; i < entries; i++) {
        size_t entry = at + 2 + (size_t)i * ENTRY_BYTES;
        bool is = number_at(&t, entry, 2) == TAG && number_at(&t, entry + 2, 2) == SHORT;
        uint32_t value = is ? number_at(&t, entry + 8, 2) : 0;

        if (value >= UPRIGHT && value <= LAST) {
            return (int)value;
        }
    }
    return UPRIGHT;
}

/* Copies the (height, width, 3) pixels upright to ret; from 5 on it is width high and height wide.
 */
static void exif_turn(
    int orientation, const unsigned char *pixels, size_t width, size_t height, unsigned char *ret) {
    static const struct {
        bool swap, left, up; /* rows are columns; mirrored; upside down: as the pixels are stored */
    } ways[LAST + 1] = {[2] = {.left = true},
        [3] = {.left = true, .up = true},
        [4] = {.up = true},
        [5] = {.swap = true},
        [6] = {.swap = true, .up = true},
        [7] = {.swap = true, .left = true, .up = true},
        [8] = {.swap = true, .left = true}};
    bool swap = ways[orientation].swap;
    size_t wide = swap ? height : width, high = swap ? width : height;

    for (size_t y = 0; y < high; y++) {
        for (size_t x = 0; x < wide; x++) {
            size_t column = swap ? y : x, row = swap ? x : y;

            column = ways[orientation].left ? width - 1 - column : column;
            row = ways[orientation].up ? height - 1 - row : row;
            memcpy(ret + 3 * (y * wide + x), pixels + 3 * (row * width + column), 3);
        }
    }
}

/* ---- libjpeg -----------------------------------------------------------------------------------
 */

struct trouble {
    struct jpeg_error_mgr manager;
    jmp_buf out;
    char text[JMSG_LENGTH_MAX]; /* the first error or warning */
};

struct decoder {
    struct jpeg_decompress_struct jpeg; /* first: on_warning knows only its address */
    struct trouble trouble;
    struct rn_image image;
    unsigned char *inks; /* a row in CMYK */
    int orientation;     /* as exif_orientation says */
};

struct encoder {
    struct jpeg_compress_struct jpeg;
    struct trouble trouble;
    unsigned char *data;
    unsigned long size;
};

static void trouble_note(j_common_ptr jpeg) {
    struct trouble *t = (struct trouble *)(void *)jpeg->err;

    if (t->text[0] == '\0') {
        jpeg->err->format_message(jpeg, t->text);
    }
}

static void on_error(j_common_ptr jpeg) {
    trouble_note(jpeg);
    longjmp(((struct trouble *)(void *)jpeg->err)->out, 1);
}

/* Warnings after which the picture is whole. */
static const int harmless[] = {
    JWRN_ADOBE_XFORM, JWRN_EXTRANEOUS_DATA, JWRN_JFIF_MAJOR, JWRN_TOO_MUCH_DATA};

/* Whether all but the last rows of the picture have been read: a file that lacks its end marker,
 * and a few bytes before it, is a picture for all other programs. */
static bool near_end(const struct jpeg_decompress_struct *j) {
    return j->total_iMCU_rows > 0 && (j->input_iMCU_row + 1) * 16 >= j->total_iMCU_rows * 15;
}

/* level below 0: a warning about damaged data, which libjpeg itself replaces by grey. */
static void on_message(j_common_ptr jpeg, int level) {
    bool whole = level >= 0 ||
                 (jpeg->is_decompressor && near_end((struct jpeg_decompress_struct *)(void *)jpeg));

    for (size_t i = 0; i < CO_ARRAY_LEN(harmless); i++) {
        whole = whole || jpeg->err->msg_code == harmless[i];
    }
    if (!whole) {
        on_error(jpeg);
    }
}

static struct jpeg_error_mgr *trouble_init(struct trouble *t) {
    (void)jpeg_std_error(&t->manager);
    t->manager.error_exit = on_error;
    t->manager.emit_message = on_message;
    t->text[0] = '\0';
    return &t->manager;
}

void rn_image_done(struct rn_image *image) {
    free(image->rgb);
    memset(image, 0, sizeof(*image));
}

static int too_large(struct decoder *d) {
    const struct jpeg_decompress_struct *j = &d->jpeg;

    if (j->image_width < 1 || j->image_height < 1 || j->image_width > RN_JPEG_EDGE_MAX ||
        j->image_height > RN_JPEG_EDGE_MAX ||
        j->image_width * j->image_height > RN_JPEG_PIXELS_MAX) {
        (void)snprintf(d->trouble.text, sizeof(d->trouble.text), "%u x %u pixels", j->image_width,
            j->image_height);
        return -1;
    }
    return 0;
}

/* Pictures for print: each colour is what cyan, magenta and yellow, and black, let through. Adobe's
 * programs, which make most of them, store the light that is left; others the ink. */
static void inks_to_rgb(const struct decoder *d, unsigned char *rgb) {
    unsigned ink = d->jpeg.saw_Adobe_marker ? 0 : 255;

    for (size_t i = 0; i < d->image.width; i++) {
        unsigned black = d->inks[4 * i + 3] ^ ink;

        for (size_t c = 0; c < 3; c++) {
            rgb[3 * i + c] = (unsigned char)((d->inks[4 * i + c] ^ ink) * black / 255);
        }
    }
}

/* Returns 0, or -1 with the reason in d->trouble. */
static int decode(struct decoder *d, const void *data, size_t size) {
    if (setjmp(d->trouble.out)) {
        return -1;
    }
    jpeg_create_decompress(&d->jpeg);
    jpeg_mem_src(&d->jpeg, data, size);
    jpeg_save_markers(&d->jpeg, JPEG_APP0 + 1, 0xffff);
    (void)jpeg_read_header(&d->jpeg, TRUE);
    if (too_large(d)) {
        return -1;
    }
    for (jpeg_saved_marker_ptr m = d->jpeg.marker_list; m && d->orientation == 1; m = m->next) {
        d->orientation = exif_orientation(m->data, m->data_length);
    }
    bool print = d->jpeg.jpeg_color_space == JCS_CMYK || d->jpeg.jpeg_color_space == JCS_YCCK;
    d->jpeg.out_color_space = print ? JCS_CMYK : JCS_RGB;
    (void)jpeg_start_decompress(&d->jpeg);
    d->image.width = d->jpeg.output_width;
    d->image.height = d->jpeg.output_height;
    d->image.rgb = malloc((size_t)3 * d->image.width * d->image.height);
    d->inks = malloc((size_t)4 * d->image.width);
    if (!d->image.rgb || !d->inks) {
        return -1;
    }
    while (d->jpeg.output_scanline < d->jpeg.output_height) {
        unsigned char *rgb = d->image.rgb + (size_t)3 * d->image.width * d->jpeg.output_scanline;
        JSAMPROW row = print ? d->inks : rgb;

        (void)jpeg_read_scanlines(&d->jpeg, &row, 1);
        if (print) {
            inks_to_rgb(d, rgb);
        }
    }
    (void)jpeg_finish_decompress(&d->jpeg);
    return 0;
}

/* Turns the picture upright.  Returns 0, or -1: no memory. */
static int turn(struct decoder *d) {
    struct rn_image *image = &d->image;

    if (d->orientation == 1) {
        return 0;
    }
    unsigned char *turned = malloc((size_t)3 * image->width * image->height);
    if (!turned) {
        return -1;
    }
    exif_turn(d->orientation, image->rgb, image->width, image->height, turned);
    free(image->rgb);
    *image = d->orientation < 5 ? (struct rn_image){image->width, image->height, turned}
                                : (struct rn_image){image->height, image->width, turned};
    return 0;
}

/* What files are that only are called .jpg. */
static const struct {
    const char *head;
    size_t at, len;
    const char *what;
} others[] = {{"\x89PNG", 0, 4, "a PNG"}, {"GIF8", 0, 4, "a GIF"}, {"WEBP", 8, 4, "a WebP"},
    {"BM", 0, 2, "a BMP"}, {"II*\0", 0, 4, "a TIFF"}, {"MM\0*", 0, 4, "a TIFF"},
    {"ftypavif", 4, 8, "an AVIF"}, {"ftyphei", 4, 7, "a HEIC"},
    {"\0\0\0\x0cjP", 0, 6, "a JPEG 2000"}};

/* NULL: perhaps it is a JPEG. */
static const char *other_find(const char *data, size_t size) {
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        size_t at = others[i].at, len = others[i].len;

        if (size >= at + len && memcmp(data + at, others[i].head, len) == 0) {
            return others[i].what;
        }
    }
    return size == 0 ? "an empty file" : NULL;
}

int rn_jpeg_decode(const void *data, size_t size, struct rn_image *ret_image, struct co_err *err) {
    struct decoder d = {.orientation = 1};
    const char *other = other_find(data, size);

    if (other) {
        return co_err_set(err, CO_INVALID, "bad JPEG: it is %s", other);
    }
    d.jpeg.err = trouble_init(&d.trouble);
    int rc = decode(&d, data, size);
    rc = rc == 0 ? turn(&d) : rc;
    jpeg_destroy_decompress(&d.jpeg);
    free(d.inks);
    if (rc < 0) {
        rn_image_done(&d.image);
        return co_err_set(err, CO_INVALID, "bad JPEG: %s",
            d.trouble.text[0] ? d.trouble.text : "no memory for it");
    }
    *ret_image = d.image;
    return 0;
}

static int encode(struct encoder *e, const struct rn_image *image, int quality) {
    if (setjmp(e->trouble.out)) {
        return -1;
    }
    jpeg_create_compress(&e->jpeg);
    jpeg_mem_dest(&e->jpeg, &e->data, &e->size);
    e->jpeg.image_width = image->width;
    e->jpeg.image_height = image->height;
    e->jpeg.input_components = 3;
    e->jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&e->jpeg);
    jpeg_set_quality(&e->jpeg, quality, TRUE);
    jpeg_start_compress(&e->jpeg, TRUE);
    while (e->jpeg.next_scanline < e->jpeg.image_height) {
        JSAMPROW row = image->rgb + (size_t)3 * image->width * e->jpeg.next_scanline;

        (void)jpeg_write_scanlines(&e->jpeg, &row, 1);
    }
    jpeg_finish_compress(&e->jpeg);
    return 0;
}

int rn_jpeg_encode(const struct rn_image *image, int quality, unsigned char **ret_data,
    size_t *ret_size, struct co_err *err) {
    struct encoder e = {.data = NULL};

    e.jpeg.err = trouble_init(&e.trouble);
    int rc = encode(&e, image, quality);
    jpeg_destroy_compress(&e.jpeg);
    if (rc < 0) {
        free(e.data);
        return co_err_set(err, CO_INVALID, "JPEG: %s", e.trouble.text);
    }
    *ret_data = e.data;
    *ret_size = e.size;
    return 0;
}
