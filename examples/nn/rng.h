/* Deterministic random numbers: the same seed gives the same stream on every machine, so that
 * weights, data and tests can be made again.  The algorithm is fixed: xoshiro256**, its state
 * filled by splitmix64 from the seed and a stream number (independent streams of one seed).
 * Not for secrets.  A struct nn_rng belongs to one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct nn_rng {
    uint64_t s[4];
};

void nn_rng_init(struct nn_rng *r, uint64_t seed, uint64_t stream);
uint64_t nn_rng_u64(struct nn_rng *r);
/* Below n, without bias; n > 0. */
uint64_t nn_rng_below(struct nn_rng *r, uint64_t n);
/* [0, 1), 53 bits. */
double nn_rng_double(struct nn_rng *r);
/* Mean 0, deviation 1 (polar method; uses libm's log and sqrt). */
double nn_rng_normal(struct nn_rng *r);

/* Fill x (n). */
void nn_rng_fill_uniform(struct nn_rng *r, float low, float high, size_t n, float *x);
void nn_rng_fill_normal(struct nn_rng *r, float mean, float deviation, size_t n, float *x);
/* Normal, drawn again while further than two deviations from the mean. */
void nn_rng_fill_truncated(struct nn_rng *r, float mean, float deviation, size_t n, float *x);

/* A well-mixed 64-bit function of two numbers, for draws that need no stream. */
uint64_t nn_mix64(uint64_t a, uint64_t b);
