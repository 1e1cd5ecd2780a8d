/* Softmax and cross-entropy over logits (batch, classes) with label smoothing: the target is
 * (1 - smoothing) for the label, plus smoothing / classes for every class. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rn_loss {
    double loss;       /* summed over the samples */
    size_t top1, top5; /* samples whose label has the largest logit; one of the five largest */
    size_t samples;
};

/* Adds a batch to *sum.  d_logits, which may be NULL, gets the gradient of the batch's mean loss.
 * Of equal logits the first counts as the larger one; a NaN is none of the largest. */
void rn_loss_add(struct rn_loss *sum, size_t batch, size_t classes, double smoothing,
    const float *logits, const uint32_t *labels, float *d_logits);
