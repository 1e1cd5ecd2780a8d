/* Learning rates, by the formulas of paddle.optimizer.lr 3.3.1 (get_lr of each class). */
#include <math.h>

#include "runtime/train/dp/dp.h"

double rt_lr_piecewise(const uint64_t *boundaries, const double *values, size_t n, uint64_t t) {
    size_t i = 0;
    while (i < n && t >= boundaries[i]) {
        i++;
    }
    return values[i];
}

double rt_lr_exponential(double lr, double gamma, uint64_t t) {
    return lr * pow(gamma, (double)t);
}

double rt_lr_natural_exp(double lr, double gamma, uint64_t t) {
    return lr * exp(-gamma * (double)t);
}

double rt_lr_inverse_time(double lr, double gamma, uint64_t t) {
    return lr / (1 + gamma * (double)t);
}

double rt_lr_polynomial(
    double lr, double end, double power, uint64_t steps, bool cycle, uint64_t t) {
    double cycles = cycle && t > 0 ? ceil((double)t / (double)steps) : 1;
    double at = cycle || t < steps ? (double)t : (double)steps;
    return (lr - end) * pow(1 - at / ((double)steps * cycles), power) + end;
}

double rt_lr_cosine(double lr, double end, uint64_t steps, uint64_t t) {
    return end + (lr - end) * (1 + cos(M_PI * (double)t / (double)steps)) / 2;
}

double rt_lr_noam(double lr, double model, uint64_t warmup, uint64_t t) {
    double falling = t == 0 ? 1 : pow((double)t, -0.5);
    double rising = pow((double)warmup, -1.5) * (double)t;
    return lr * pow(model, -0.5) * fmin(falling, rising);
}

double rt_lr_warmup(double start, double end, uint64_t steps, uint64_t t, double after) {
    return t < steps ? (end - start) * (double)t / (double)steps + start : after;
}
