/* Computes loss, gradient, and the top-1 and top-5 counts. */
#include "examples/resnet50/loss.h"

#include <math.h>

static size_t rank_of(const float *logits, size_t classes, uint32_t label) {
    size_t before = 0;

    for (size_t c = 0; c < classes; c++) {
        before += logits[c] > logits[label] || (c < label && logits[c] == logits[label]);
    }
    return isnan(logits[label]) ? SIZE_MAX : before; /* nothing is larger than a NaN */
}

/* log(sum(exp(logits))), computed relative to the largest logit so that it cannot overflow. */
static double log_sum(const float *logits, size_t classes) {
    size_t top = 0;
    double rest = 0.0;

    for (size_t c = 1; c < classes; c++) {
        top = logits[c] > logits[top] ? c : top;
    }
    for (size_t c = 0; c < classes; c++) {
        rest += c == top ? 0.0 : exp((double)logits[c] - (double)logits[top]);
    }
    return (double)logits[top] + log1p(rest);
}

void rn_loss_add(struct rn_loss *sum, size_t batch, size_t classes, double smoothing,
    const float *logits, const uint32_t *labels, float *d_logits) {
    double rest = smoothing / (double)classes;

    for (size_t i = 0; i < batch; i++) {
        const float *row = logits + i * classes;
        double all = log_sum(row, classes);
        size_t rank = rank_of(row, classes, labels[i]);

        for (size_t c = 0; c < classes; c++) {
            double target = rest + (c == labels[i] ? 1.0 - smoothing : 0.0);
            double log_p = (double)row[c] - all;

            if (target > 0.0) {
                sum->loss -= target * log_p;
            }
            if (d_logits) {
                d_logits[i * classes + c] = (float)((exp(log_p) - target) / (double)batch);
            }
        }
        sum->top1 += rank == 0;
        sum->top5 += rank < 5;
    }
    sum->samples += batch;
}
