/* Wide & deep: forward and backward over one batch.
 *
 *     deep = concat(embedding rows of the slots in order, dense) -> hidden layers, relu -> 1
 *     wide = linear(dense) -> 1
 *     p = sigmoid(deep + wide); loss = mean log loss (examples/nn/layers.h)
 *
 * The model holds only scratch memory for a batch.  Parameters come in and gradients go out as
 * plain arrays, so that it does not know whether they live here or on parameter servers:
 *
 *     wd_model_lookup    which embedding rows the batch needs: U different ids, kept in it
 *     wd_model_forward   params (P), rows (U, E)  -> predictions (B)
 *     wd_model_backward  params (P)               -> grads (P), row_grads (U, E)
 *
 * Letters: B batch, S slots, D numbers, E floats a row, P dense parameters (config.h).
 * A model belongs to one thread. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "examples/wide_and_deep/config.h"

/* Samples; the arrays hold max of them, the first n are used. */
struct wd_batch {
    size_t n, max;
    uint64_t *ids; /* (B, S) */
    float *dense;  /* (B, D) */
    float *label;  /* (B), 0 or 1 */

    /* What wd_model_lookup has found. */
    size_t n_unique;  /* U: how many different ids there are */
    uint64_t *unique; /* (U), in order of first occurrence */
    uint32_t *index;  /* (B, S): ids[i] = unique[index[i]] */
};

CO_MUST_CHECK int wd_batch_init(
    const struct wd_config *c, size_t max, struct wd_batch *ret_b, struct co_err *err);
void wd_batch_done(struct wd_batch *b);

struct wd_model;

/* For batches of up to batch_max samples.  The caller owns *ret_m.  CO_INVALID for impossible
 * sizes, CO_NORESOURCE for a batch that is too large. */
CO_MUST_CHECK int wd_model_new(
    const struct wd_config *c, size_t batch_max, struct wd_model **ret_m, struct co_err *err);
void wd_model_free(struct wd_model *m); /* NULL is fine */
CO_DEFINE_CLEANUP(struct wd_model *, wd_model_free)

const struct wd_layout *wd_model_layout(const struct wd_model *m);

/* Finds the different ids of the batch: which embedding rows it needs. */
void wd_model_lookup(struct wd_model *m, struct wd_batch *b);

/* After the lookup of the batch.  rows (U, E) are those of b->unique.  *ret_p (B) is borrowed until
 * the next call. */
CO_MUST_CHECK int wd_model_forward(struct wd_model *m, const struct wd_batch *b,
    const float *params, const float *rows, const float **ret_p, struct co_err *err);

/* After the forward of the same batch, with the same params.  Writes all of grads (P) and
 * row_grads (U, E). */
CO_MUST_CHECK int wd_model_backward(struct wd_model *m, const struct wd_batch *b,
    const float *params, float *grads, float *row_grads, struct co_err *err);

/* For tests: the logit (B) and hidden layer i (B, hidden[i]) of the last forward. */
const float *wd_model_logit(const struct wd_model *m);
const float *wd_model_hidden(const struct wd_model *m, size_t i);
