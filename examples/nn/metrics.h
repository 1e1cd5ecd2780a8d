/* Measures of a binary classifier, summed batch by batch: area under the ROC curve over 4096
 * buckets, log loss, accuracy at 0.5, mean absolute and squared error.  Sums of several workers can
 * be merged, with the same result as from one.  A plain value; belongs to one thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { NN_AUC_BUCKETS = 4096 };

struct nn_metrics {
    uint64_t positive[NN_AUC_BUCKETS]; /* label 1 with floor(score * 4095) = bucket */
    uint64_t negative[NN_AUC_BUCKETS];
    uint64_t n, correct;
    uint64_t not_numbers; /* NaN scores: counted only here, in no bucket or sum */
    double loss_sum, absolute_sum, square_sum;
};

/* Sets all to zero, like struct nn_metrics m = {0}; */
void nn_metrics_clear(struct nn_metrics *m);
/* Adds score (n), each from 0 to 1 (others count in the outermost bucket), with label (n), 0 or 1.
 */
void nn_metrics_add(struct nn_metrics *m, size_t n, const float *score, const float *label);

/* Sums trapezoids from the highest bucket down, so a tie in a bucket counts one half.  0: a class
 * is missing. */
double nn_metrics_auc(const struct nn_metrics *m);
/* Means; 0 if nothing was added. */
double nn_metrics_loss(const struct nn_metrics *m);
double nn_metrics_accuracy(const struct nn_metrics *m);
double nn_metrics_mae(const struct nn_metrics *m);
double nn_metrics_mse(const struct nn_metrics *m);
double nn_metrics_rmse(const struct nn_metrics *m);
