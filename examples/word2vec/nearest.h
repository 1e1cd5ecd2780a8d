/* The words whose vectors point in nearly the same direction as a given one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "examples/word2vec/dict.h"
#include "examples/word2vec/options.h"

enum { WV_TOP_MAX = 1000 };

/* Vectors of all words of a dictionary, by id: rows (n, dim). */
struct wv_vectors {
    const struct wv_dict *dict;
    const float *rows;
    size_t dim;
};

struct wv_near {
    uint32_t id;
    float cosine; /* -2: there are not so many words */
};

/* The k words (up to WV_TOP_MAX) with the largest cosines to a vector (dim), the nearest first.
 * Without <unk>, which is no word, and without those of `but` (n_but). */
void wv_nearest(const struct wv_vectors *v, const float *to, const uint32_t *but, size_t n_but,
    size_t k, struct wv_near *ret);

/* "word2vec nearest WORD...", and "word2vec analogy A B C": A is to B as C is to what?  By the
 * vectors of the model in o->load and the words of o->data.  Print o->top words; without arguments
 * the first reads words from stdin.  CO_INVALID: a word that the dictionary does not have. */
CO_MUST_CHECK int wv_nearest_words(
    const struct wv_options *o, char *const *words, size_t n, struct co_err *err);
CO_MUST_CHECK int wv_analogy(
    const struct wv_options *o, char *const *words, size_t n, struct co_err *err);
