/* Reads one tag of EXIF data, whatever else there is, and turns a picture by it. */
#include "examples/resnet50/exif.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

int rn_exif_orientation(const unsigned char *segment, size_t size) {
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

void rn_exif_turn(
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
