/* Deterministic random numbers: a seed gives the same stream on every machine, so that weights,
 * data and tests can be reproduced.  The algorithm is fixed: xoshiro256**, with a state that
 * splitmix64 makes from the seed and a stream number; the streams of a seed are independent.
 * Not for secrets.  A struct nn_rng belongs to one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct nn_rng {
    uint64_t s[4];
};

void nn_rng_init(struct nn_rng *r, uint64_t seed, uint64_t stream);
uint64_t nn_rng_u64(struct nn_rng *r);
/* A number below n, without bias; n > 0. */
uint64_t nn_rng_below(struct nn_rng *r, uint64_t n);
/* A number in [0, 1), with 53 random bits. */
double nn_rng_double(struct nn_rng *r);
/* A normal number with mean 0 and deviation 1 (polar method; uses log and sqrt of libm). */
double nn_rng_normal(struct nn_rng *r);

/* Fill x (n). */
void nn_rng_fill_uniform(struct nn_rng *r, float low, float high, size_t n, float *x);
void nn_rng_fill_normal(struct nn_rng *r, float mean, float deviation, size_t n, float *x);
/* Normal numbers; draws again those that are more than two deviations from the mean. */
void nn_rng_fill_truncated(struct nn_rng *r, float mean, float deviation, size_t n, float *x);

/* A well-mixed 64-bit hash of two numbers, for random numbers without a stream. */
uint64_t nn_mix64(uint64_t a, uint64_t b);
