/* xoshiro256** and the distributions made of it. */
#include "examples/nn/rng.h"

#include <math.h>

#include "common/mix.h"

#define GOLDEN 0x9e3779b97f4a7c15U

uint64_t nn_mix64(uint64_t a, uint64_t b) {
    return co_mix64(co_mix64(a + GOLDEN) + b * GOLDEN + GOLDEN);
}

void nn_rng_init(struct nn_rng *r, uint64_t seed, uint64_t stream) {
    uint64_t at = nn_mix64(seed, stream);

    for (size_t i = 0; i < 4; i++) {
        at += GOLDEN;
        r->s[i] = co_mix64(at);
    }
}

static uint64_t rotate_left(uint64_t x, unsigned k) {
    return (x << k) | (x >> (64U - k));
}

uint64_t nn_rng_u64(struct nn_rng *r) {
    uint64_t *s = r->s;
    uint64_t result = rotate_left(s[1] * 5U, 7) * 9U, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t nn_rng_below(struct nn_rng *r, uint64_t n) {
    uint64_t unfair = (UINT64_MAX - n + 1U) % n, x;

    /* Rejects the first 2^64 mod n values, which would make some results more frequent. */
    do {
        x = nn_rng_u64(r);
    } while (x < unfair);
    return x % n;
}

double nn_rng_double(struct nn_rng *r) {
    return (double)(nn_rng_u64(r) >> 11) * 0x1p-53;
}

double nn_rng_normal(struct nn_rng *r) {
    double x, y, square;

    do {
        x = 2.0 * nn_rng_double(r) - 1.0;
        y = 2.0 * nn_rng_double(r) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    return x * sqrt(-2.0 * log(square) / square);
}

void nn_rng_fill_uniform(struct nn_rng *r, float low, float high, size_t n, float *x) {
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((double)low + ((double)high - (double)low) * nn_rng_double(r));
    }
}

void nn_rng_fill_normal(struct nn_rng *r, float mean, float deviation, size_t n, float *x) {
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((double)mean + (double)deviation * nn_rng_normal(r));
    }
}

void nn_rng_fill_truncated(struct nn_rng *r, float mean, float deviation, size_t n, float *x) {
    for (size_t i = 0; i < n; i++) {
        double z;

        do {
            z = nn_rng_normal(r);
        } while (fabs(z) > 2.0);
        x[i] = (float)((double)mean + (double)deviation * z);
    }
}
