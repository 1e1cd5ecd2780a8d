/* Finds NaN and infinite values, whose exponents are all ones, with integer vector code.  Any
 * thread. */
#include "runtime/train/ps/finite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Compilers vectorize loops of a constant length even at low optimization levels, so this works in
 * blocks. */
bool ps_all_finite_f32(const float *g, size_t n) {
    enum { BLOCK = 64, EXPONENT = 0x7f800000 };
    uint32_t bad = 0, bits[BLOCK];
    for (; n >= BLOCK && !bad; n -= BLOCK, g += BLOCK) {
        memcpy(bits, g, sizeof(bits));
        for (int i = 0; i < BLOCK; i++) {
            bad |= (bits[i] & EXPONENT) == EXPONENT;
        }
    }
    bool finite = bad == 0;
    for (; n > 0 && finite; n--, g++) {
        finite = isfinite(*g);
    }
    return finite;
}
