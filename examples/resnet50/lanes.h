/* The loops of batch normalisation over one block of LANES channels (oneDNN's layout nChw16c or
 * nChw8c).  A block has n = pixels * LANES values without gaps; value i is of channel i % LANES.
 *
 *     pixel 0: c0 c1 ... c15 | pixel 1: c0 c1 ... c15 | ...
 *
 * Normalisation, the shortcut's addition and ReLU share one loop, and so do their gradients: memory
 * bandwidth is the limit, and each loop less saves a read and a write of all values.
 *
 *     y  = relu((x - mean) * scale + bias + add)
 *     g  = (dy + dy2) where y > 0 else 0
 *     dx = g * scale + (x - mean) * slope + level       (norm.c says what slope and level are)
 *
 * Values are f32 or bf16, arithmetic is in f32, and sums are added up in doubles. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { RN_LANES_MAX = 16 };

enum rn_type { RN_F32, RN_BF16 };

/* Coefficients for each lane. */
struct rn_lane_values {
    float mean[RN_LANES_MAX], scale[RN_LANES_MAX], bias[RN_LANES_MAX];
    float slope[RN_LANES_MAX], level[RN_LANES_MAX];
};

struct rn_lane_rows {
    size_t n;
    const void *x, *add; /* add and dy2 may be NULL */
    const void *y;       /* backward: shows where ReLU was active; NULL: x shows it */
    const void *dy, *dy2;
    void *out; /* forward: y; backward: g in sums (NULL: not wanted), dx in apply */
    bool relu;
};

struct rn_lane_sums {
    double sum[RN_LANES_MAX];    /* of x - mean; of g */
    double square[RN_LANES_MAX]; /* of (x - mean)^2; of g (x - mean) */
};

struct rn_lane_kernels {
    const char *name;
    /* Add to *sums. */
    void (*sums)(
        const struct rn_lane_rows *r, const struct rn_lane_values *v, struct rn_lane_sums *sums);
    void (*back_sums)(
        const struct rn_lane_rows *r, const struct rn_lane_values *v, struct rn_lane_sums *sums);
    void (*apply)(const struct rn_lane_rows *r, const struct rn_lane_values *v);
    void (*back_apply)(const struct rn_lane_rows *r, const struct rn_lane_values *v);
};

/* The i-th best version of the loops that this processor can run, from 0; NULL: no more.  lanes: 8
 * or 16. */
const struct rn_lane_kernels *rn_lane_kernels_get(enum rn_type type, size_t lanes, size_t i);
