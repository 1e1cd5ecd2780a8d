/* Skip-gram with negative sampling (Mikolov et al. 2013, arXiv:1310.4546).  In a window of N words
 * the middle one learns to predict each of the others, and not to predict K words that are drawn.
 *
 *     s = v u + b;  loss of a pair = log(1 + exp(-s)) + sum over the K drawn of log(1 + exp(s))
 *
 * v is the row of the middle word, (u, b) the other row of the other word or a drawn one; the loss
 * of a batch is the mean over its B (N - 1) pairs.
 *
 * Letters: B windows, N words of a window, K words drawn for a pair, E floats of v; rows of u have
 * E + 1. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "examples/nn/rng.h"
#include "examples/word2vec/dict.h"

/* Draws words in proportion to count^0.75. */
struct wv_sampler {
    double *below; /* owned [n]: cumulated probabilities */
    size_t n;
    struct nn_rng rng;
};

void wv_sampler_init(struct wv_sampler *s, const struct wv_dict *d, uint64_t seed, uint64_t stream);
void wv_sampler_done(struct wv_sampler *s);
uint64_t wv_sampler_draw(struct wv_sampler *s);

struct wv_pairs {
    size_t n, others; /* B; (N - 1) (1 + K): words compared with a middle word */
    size_t each;      /* 1 + K: the first of each group is the real word */
    size_t embed;
    const uint32_t *middle;  /* (B): indexes of rows */
    const uint32_t *other;   /* (B, others): indexes of other_rows */
    const float *rows;       /* (U, E) */
    const float *other_rows; /* (W, E + 1) */
};

/* Returns the mean loss of a pair, and adds its gradients to grads (U, E) and other_grads (W, E +
 * 1). Both NULL: gradients are not wanted. */
double wv_pairs_loss(const struct wv_pairs *p, float *grads, float *other_grads);
