/* Sums the measures, and computes area under the curve and means of the sums. */
#include "examples/nn/metrics.h"

#include <math.h>
#include <string.h>

#include "examples/nn/layers.h"

void nn_metrics_clear(struct nn_metrics *m) {
    memset(m, 0, sizeof(*m));
}

static size_t bucket_of(float score) {
    double at = (double)score * (NN_AUC_BUCKETS - 1);

    if (!(at > 0.0)) {
        return 0;
    }
    return at >= NN_AUC_BUCKETS - 1 ? NN_AUC_BUCKETS - 1 : (size_t)at;
}

void nn_metrics_add(struct nn_metrics *m, size_t n, const float *score, const float *label) {
    for (size_t i = 0; i < n; i++) {
        double away = fabs((double)score[i] - (double)label[i]);

        if (isnan(score[i])) {
            m->not_numbers++;
            continue;
        }
        if (label[i] > 0.5F) {
            m->positive[bucket_of(score[i])]++;
        } else {
            m->negative[bucket_of(score[i])]++;
        }
        m->n++;
        m->correct += (score[i] >= 0.5F) == (label[i] > 0.5F);
        m->loss_sum += nn_log_loss(1, &score[i], &label[i]);
        m->absolute_sum += away;
        m->square_sum += away * away;
    }
}

double nn_metrics_auc(const struct nn_metrics *m) {
    double area = 0.0, above_positive = 0.0, above_negative = 0.0;

    for (size_t i = NN_AUC_BUCKETS; i-- > 0;) {
        double positive = above_positive + (double)m->positive[i];
        double negative = above_negative + (double)m->negative[i];

        area += (negative - above_negative) * (above_positive + positive) / 2.0;
        above_positive = positive;
        above_negative = negative;
    }
    if (above_positive == 0.0 || above_negative == 0.0) {
        return 0.0;
    }
    return area / (above_positive * above_negative);
}

static double mean_of(const struct nn_metrics *m, double sum) {
    return m->n ? sum / (double)m->n : 0.0;
}

double nn_metrics_loss(const struct nn_metrics *m) {
    return mean_of(m, m->loss_sum);
}

double nn_metrics_accuracy(const struct nn_metrics *m) {
    return mean_of(m, (double)m->correct);
}

double nn_metrics_mae(const struct nn_metrics *m) {
    return mean_of(m, m->absolute_sum);
}

double nn_metrics_mse(const struct nn_metrics *m) {
    return mean_of(m, m->square_sum);
}

double nn_metrics_rmse(const struct nn_metrics *m) {
    return sqrt(nn_metrics_mse(m));
}
