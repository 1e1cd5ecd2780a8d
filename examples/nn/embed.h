/* Embedding lookups for a batch: finds the different ids, gathers their rows into the input of the
 * next layer, and sums the gradients of that input for each id.  The caller provides the rows, from
 * a parameter server or a local table.
 * Letters: K ids looked up (batch * slots), U different ones among them (U <= K), E floats a row.
 * A struct nn_distinct belongs to one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

struct nn_distinct;

/* Makes a finder for lists of up to max_ids ids; the caller owns *ret_d.  CO_NORESOURCE: max_ids is
 * above 2^26. */
CO_MUST_CHECK int nn_distinct_new(size_t max_ids, struct nn_distinct **ret_d, struct co_err *err);
void nn_distinct_free(struct nn_distinct *d); /* NULL is fine */
CO_DEFINE_CLEANUP(struct nn_distinct *, nn_distinct_free)

/* Finds the different ids among ids (K <= max_ids), in the order of first occurrence, and returns
 * their number U.  Fills ret_unique (U), and ret_index (K) with ids[i] = ret_unique[ret_index[i]].
 */
size_t nn_distinct_find(struct nn_distinct *d, size_t k, const uint64_t *ids, uint64_t *ret_unique,
    uint32_t *ret_index);

/* The layout of the gathered values: `batch` lines of `stride` floats; each line begins with slots
 * * width gathered floats. */
struct nn_embed {
    size_t batch, slots, width, stride;
};

/* x (B, stride)[i, s * E ...] = rows (U, E)[index (B, slots)[i, s]]. */
void nn_embed_gather(const struct nn_embed *m, const uint32_t *index, const float *rows, float *x);
/* The gradient of that: drows (U, E) = sums of dx over all places that a row was copied to. */
void nn_embed_scatter(
    const struct nn_embed *m, const uint32_t *index, const float *dx, size_t n_rows, float *drows);
