/* The way in which a camera was held, as it notes it in a JPEG's EXIF data: OpenCV and all that
 * shows pictures turn them accordingly.  Pure. */
#pragma once

#include <stddef.h>

/* The orientation, 1 to 8, of the EXIF data that an APP1 segment has; 1, which is upright, where it
 * has none or cannot be read.  Source: Exif 2.3, 4.6.4 A (tag 0x0112), in IFD 0 of a TIFF. */
int rn_exif_orientation(const unsigned char *segment, size_t size);

/* Copies the (height, width, 3) pixels upright to `to`; from 5 on it is width high and height wide.
 */
void rn_exif_turn(
    int orientation, const unsigned char *pixels, size_t width, size_t height, unsigned char *ret);
