/* Paddle's N-gram network: the first N - 1 words of a window of N predict the last one.
 *
 *     concat(rows of N - 1 words) -> fc1, sigmoid, dropout -> fc2 -> softmax over all words
 *     loss = mean cross entropy
 *
 * Letters: B batch, N words of a window, E floats a row, U different words of the batch, H units.
 * A model belongs to one thread. */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "runtime/rt.h"

struct wv_ngram_shape {
    size_t n, embed, hidden, words; /* N, E, H, size of the dictionary */
    double dropout; /* this part of hidden units is 0 in a step of training; else all are scaled by
                       what is left (Paddle's drop_rate) */
};

/* A batch, with the rows of the first N - 1 words of each window. */
struct wv_batch {
    size_t n;              /* B */
    const uint64_t *ids;   /* (B, N) */
    const uint32_t *index; /* (B, N - 1): indexes of rows */
    size_t n_rows;         /* U */
    const float *rows;     /* (U, E) */
};

struct wv_ngram;

/* seed: for the dropout.  The caller owns *ret_m. */
CO_MUST_CHECK int wv_ngram_new(const struct wv_ngram_shape *s, size_t batch_max, uint64_t seed,
    struct wv_ngram **ret_m, struct co_err *err);
void wv_ngram_free(struct wv_ngram *m); /* NULL is fine */
CO_DEFINE_CLEANUP(struct wv_ngram *, wv_ngram_free)

/* Makes fc1_w ((N - 1) E, H), fc1_b, fc2_w (H, words), fc2_b; the caller owns *ret_params. */
CO_MUST_CHECK int wv_ngram_params(const struct wv_ngram_shape *s, uint64_t seed,
    struct rt_params **ret_params, struct co_err *err);

/* Computes the mean loss of the batch, and for how many windows the last word is not the most
 * probable one. */
CO_MUST_CHECK int wv_ngram_forward(struct wv_ngram *m, const struct wv_batch *b,
    struct rt_params *p, bool training, double *ret_loss, size_t *ret_wrong, struct co_err *err);
/* Call it after the forward of the same batch.  Writes p's gradients and row_grads (U, E). */
CO_MUST_CHECK int wv_ngram_backward(struct wv_ngram *m, const struct wv_batch *b,
    struct rt_params *p, float *row_grads, struct co_err *err);

/* For tests: (B, H) and (B, words) of the last forward. */
const float *wv_ngram_hidden(const struct wv_ngram *m);
const float *wv_ngram_softmax(const struct wv_ngram *m);
