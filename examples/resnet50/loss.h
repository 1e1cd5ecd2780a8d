/* Softmax and cross-entropy over logits (batch, classes), against (1 - smoothing) times the label
 * plus smoothing / classes times everything.  Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rn_loss {
    double loss;       /* sum over the samples */
    size_t top1, top5; /* samples whose label is the largest logit, one of the five largest */
    size_t samples;
};

/* Adds to *sum; d_logits, NULL for none: gradient of the mean over the batch.  Of equal logits the
 * first counts as the larger one. */
void rn_loss_add(struct rn_loss *sum, size_t batch, size_t classes, double smoothing,
    const float *logits, const uint32_t *labels, float *d_logits);
