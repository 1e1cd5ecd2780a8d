/* Measures of a binary classifier, added up batch by batch: area under the ROC curve over 4096
 * buckets, log loss, accuracy at 0.5, mean absolute and squared error.  Sums can be merged, so
 * that several workers together give what one would.  A plain value; belongs to one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { NN_AUC_BUCKETS = 4096 };

struct nn_metrics {
    uint64_t positive[NN_AUC_BUCKETS]; /* label 1 with floor(score * 4095) = bucket */
    uint64_t negative[NN_AUC_BUCKETS];
    uint64_t n, correct;
    uint64_t not_numbers; /* scores that are NaN: counted, and in no bucket or sum */
    double loss_sum, absolute_sum, square_sum;
};

/* All zero is the start: struct nn_metrics m = {0}; */
void nn_metrics_clear(struct nn_metrics *m);
/* score (n) in 0..1 (beyond that the outermost bucket counts), label (n) 0 or 1. */
void nn_metrics_add(struct nn_metrics *m, size_t n, const float *score, const float *label);
void nn_metrics_merge(struct nn_metrics *m, const struct nn_metrics *other);

/* Trapezoids from the highest bucket down: ties in a bucket count one half.  0 when one class is
 * missing. */
double nn_metrics_auc(const struct nn_metrics *m);
/* Means; 0 when nothing was added. */
double nn_metrics_loss(const struct nn_metrics *m);
double nn_metrics_accuracy(const struct nn_metrics *m);
double nn_metrics_mae(const struct nn_metrics *m);
double nn_metrics_mse(const struct nn_metrics *m);
double nn_metrics_rmse(const struct nn_metrics *m);
