/* Forward and backward of a network (net.h) over one batch.
 *
 * The model holds only scratch memory for a batch.  Parameters come in and gradients go out as
 * plain arrays, so it does not matter whether they live in this process or on parameter servers:
 *
 *     ctr_model_lookup    finds the embedding rows that the batch needs: U different ids
 *     ctr_model_forward   params (P), rows (U, R)  -> predictions (B)
 *     ctr_model_backward  params (P)               -> grads (P), row_grads (U, R)
 *
 * Letters: B batch, S slots, D numbers, R floats a row, P dense parameters (config.h).
 * A model belongs to one thread. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/ctr/net.h"
#include "examples/ctr/sample.h"

/* Samples.  The arrays have room for max samples; the first n are used. */
struct ctr_batch {
    size_t n, max;
    uint64_t *ids; /* (B, S), and room for what ctr_model_lookup adds */
    float *dense;  /* (B, D) */
    float *label;  /* (B), 0 or 1; NaN: none */
    bool *bad;     /* (B): the line could not be used (ctr_reader_keep) */

    /* Slots with several values: all but the first.  The network sees their rows' sum, or mean. */
    struct ctr_values more;
    bool mean;

    /* Filled by ctr_model_lookup; K = B S + more.n: */
    size_t room;      /* ids that the arrays have room for */
    size_t n_unique;  /* U: number of different ids */
    uint64_t *unique; /* (U), in order of first occurrence */
    uint32_t *index;  /* (K): ids[i] = unique[index[i]]; behind (B, S) those of more */
};

/* Rows of a batch, which grow with what it needs. */
struct ctr_rows {
    float *at; /* owned */
    size_t room;
};
void ctr_rows_fit(struct ctr_rows *r, const struct ctr_config *c, const struct ctr_batch *b);

CO_MUST_CHECK int ctr_batch_init(
    const struct ctr_config *c, size_t max, struct ctr_batch *ret_b, struct co_err *err);
void ctr_batch_done(struct ctr_batch *b);

struct ctr_model;

/* Makes a model for batches of up to batch_max samples.  The caller owns *ret_m; net must outlive
 * it.  CO_INVALID: impossible sizes; CO_NORESOURCE: the batch is too large. */
CO_MUST_CHECK int ctr_model_new(
    const struct ctr_net *net, size_t batch_max, struct ctr_model **ret_m, struct co_err *err);
void ctr_model_free(struct ctr_model *m); /* NULL is fine */
CO_DEFINE_CLEANUP(struct ctr_model *, ctr_model_free)

const struct ctr_layout *ctr_model_layout(const struct ctr_model *m);

/* Finds the different ids of the batch, whose embedding rows it needs.  CO_NORESOURCE: too many. */
CO_MUST_CHECK int ctr_model_lookup(struct ctr_model *m, struct ctr_batch *b, struct co_err *err);

/* Call it after the batch's lookup.  rows (U, R) belong to b->unique.  *ret_p (B) is valid until
 * the next call. */
CO_MUST_CHECK int ctr_model_forward(struct ctr_model *m, const struct ctr_batch *b,
    const float *params, const float *rows, const float **ret_p, struct co_err *err);

/* Call it after the forward of the same batch, with the same params.  Overwrites all of grads (P)
 * and row_grads (U, R). */
CO_MUST_CHECK int ctr_model_backward(struct ctr_model *m, const struct ctr_batch *b,
    const float *params, float *grads, float *row_grads, struct co_err *err);

/* For tests: the logit (B) and hidden layer i (B, hidden[i]) of the last forward. */
const float *ctr_model_logit(const struct ctr_model *m);
const float *ctr_model_hidden(const struct ctr_model *m, size_t i);
