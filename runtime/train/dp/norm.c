/* Batch normalisation over all ranks: a channel's statistics cover its values on all ranks. */
#include <math.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/train/dp/dp.h"

enum { LANES = 8 }; /* independent sums, so the compiler can vectorise; the order is fixed */

/* Values of a channel lie next to each other in runs of `inner`; with channels_last in runs of
 * one, and loops go over the channels. */
struct channel_walk {
    size_t rows, run;
};

static struct channel_walk walk_of(const struct rt_bn *s) {
    return s->channels_last ? (struct channel_walk){s->n * s->inner, 1}
                            : (struct channel_walk){s->n, s->inner};
}

static double sum_lanes(const double lanes[LANES]) {
    double sum = 0;
    for (int k = 0; k < LANES; k++) {
        sum += lanes[k];
    }
    return sum;
}

static double power(double d, bool squared) {
    return squared ? d * d : d;
}

static double sum_run(const float *x, size_t n, double shift, bool squared) {
    double lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lanes[k] += power((double)x[i + k] - shift, squared);
        }
    }
    for (; i < n; i++) {
        lanes[0] += power((double)x[i] - shift, squared);
    }
    return sum_lanes(lanes);
}

/* out[c] += sum over channel c of (x - shift[c]), squared or not. */
static void add_sums(const struct rt_bn *s, const float *x, const double *restrict shift,
    bool squared, double *restrict out) {
    struct channel_walk w = walk_of(s);
    for (size_t r = 0; r < w.rows; r++) {
        const float *row = x + r * s->channels * w.run;
        for (size_t c = 0; c < s->channels && w.run == 1; c++) {
            out[c] += power((double)row[c] - shift[c], squared);
        }
        for (size_t c = 0; c < s->channels && w.run != 1; c++) {
            out[c] += sum_run(row + c * w.run, w.run, shift[c], squared);
        }
    }
}

void rt_bn_moments(const struct rt_bn *shape, const float *x, double *ret_mean, double *ret_m2) {
    double count = (double)(shape->n * shape->inner);
    memset(ret_mean, 0, shape->channels * sizeof(*ret_mean));
    memset(ret_m2, 0, shape->channels * sizeof(*ret_m2));
    if (!(count > 0)) {
        return;
    }
    add_sums(shape, x, ret_m2, false, ret_mean); /* of x - 0 */
    for (size_t c = 0; c < shape->channels; c++) {
        ret_mean[c] /= count;
    }
    add_sums(shape, x, ret_mean, true, ret_m2);
}

void rt_bn_combine(double n_a, double *mean, double *m2, double n_b, double mean_b, double m2_b) {
    double n = n_a + n_b, delta = mean_b - *mean;
    if (n_b > 0) {
        *mean += delta * (n_b / n);
        *m2 += m2_b + delta * delta * (n_a * n_b / n);
    }
}

int rt_bn_forward(struct rt_group *g, const struct rt_bn *shape, const float *x, float epsilon,
    float *ret_mean, float *ret_variance, float *ret_inv_std, uint64_t *ret_count,
    struct co_err *err) {
    /* A rank's message: count | mean of each channel | m2 of each channel */
    size_t channels = shape->channels, words = 1 + 2 * channels;
    uint32_t size = rt_group_size(g);
    CO_AUTOFREE double *all = co_xcalloc((size_t)size * words, sizeof(*all));
    double *own = all + rt_group_rank(g) * words;
    own[0] = (double)(shape->n * shape->inner);
    rt_bn_moments(shape, x, own + 1, own + 1 + channels);
    CO_TRY(coll_use_run(g, COLL_USE_NORM, own, all, words, RT_F64, err));
    double count = 0;
    for (uint32_t r = 0; r < size; r++) {
        count += all[r * words];
    }
    if (!(count > 0)) {
        return co_err_set(err, CO_INVALID, "batch normalisation of no values");
    }
    for (size_t c = 0; c < channels; c++) {
        double n = 0, mean = 0, m2 = 0;
        for (uint32_t r = 0; r < size; r++) {
            const double *of = all + r * words;
            rt_bn_combine(n, &mean, &m2, of[0], of[1 + c], of[1 + channels + c]);
            n += of[0];
        }
        ret_mean[c] = (float)mean;
        ret_variance[c] = (float)(m2 / count);
        ret_inv_std[c] = (float)(1 / sqrt(m2 / count + (double)epsilon));
    }
    *ret_count = (uint64_t)count;
    return 0;
}

/* Adds the sums of dy and of dy (x - mean) in a run to *sum and *product. */
static void add_products(
    const float *x, const float *dy, size_t n, double mean, double *sum, double *product) {
    double sums[LANES] = {0}, products[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            sums[k] += (double)dy[i + k];
            products[k] += (double)dy[i + k] * ((double)x[i + k] - mean);
        }
    }
    for (; i < n; i++) {
        sums[0] += (double)dy[i];
        products[0] += (double)dy[i] * ((double)x[i] - mean);
    }
    *sum += sum_lanes(sums);
    *product += sum_lanes(products);
}

void rt_bn_sums(const struct rt_bn *shape, const float *x, const float *dy, const float *mean,
    const float *inv_std, double *ret_sums) {
    struct channel_walk w = walk_of(shape);
    size_t channels = shape->channels;
    double *restrict sum = ret_sums, *restrict product = ret_sums + channels;
    memset(ret_sums, 0, 2 * channels * sizeof(*ret_sums));
    for (size_t r = 0; r < w.rows; r++) {
        size_t row = r * channels * w.run;
        for (size_t c = 0; c < channels && w.run == 1; c++) {
            sum[c] += (double)dy[row + c];
            product[c] += (double)dy[row + c] * ((double)x[row + c] - (double)mean[c]);
        }
        for (size_t c = 0; c < channels && w.run != 1; c++) {
            size_t at = row + c * w.run;
            add_products(x + at, dy + at, w.run, (double)mean[c], &sum[c], &product[c]);
        }
    }
    for (size_t c = 0; c < channels; c++) {
        product[c] *= (double)inv_std[c];
    }
}

/* dx = factor (dy - shift - (x - mean) slope), of a channel. */
struct slopes {
    float mean, factor, shift, slope;
};

static inline float slope_of(const struct slopes *k, float x, float dy) {
    return k->factor * (dy - k->shift - (x - k->mean) * k->slope);
}

void rt_bn_dx(const struct rt_bn *shape, const float *x, const float *dy, const float *mean,
    const float *inv_std, const float *scale, uint64_t count, const double *sums, float *ret_dx) {
    struct channel_walk w = walk_of(shape);
    size_t channels = shape->channels;
    CO_AUTOFREE struct slopes *slopes = co_xcalloc(channels, sizeof(*slopes));
    for (size_t c = 0; c < channels; c++) {
        slopes[c] = (struct slopes){.mean = mean[c],
            .factor = scale[c] * inv_std[c],
            .shift = (float)(sums[c] / (double)count),
            .slope = (float)(sums[channels + c] / (double)count * (double)inv_std[c])};
    }
    for (size_t r = 0; r < w.rows; r++) {
        size_t row = r * channels * w.run;
        for (size_t c = 0; c < channels && w.run == 1; c++) {
            ret_dx[row + c] = slope_of(&slopes[c], x[row + c], dy[row + c]);
        }
        for (size_t c = 0; c < channels && w.run != 1; c++) {
            struct slopes k = slopes[c];
            for (size_t i = row + c * w.run; i < row + (c + 1) * w.run; i++) {
                ret_dx[i] = slope_of(&k, x[i], dy[i]);
            }
        }
    }
}

int rt_bn_backward(struct rt_group *g, const struct rt_bn *shape, const float *x, const float *dy,
    const float *mean, const float *inv_std, const float *scale, uint64_t count, float *ret_dx,
    float *ret_dscale, float *ret_dbias, struct co_err *err) {
    size_t channels = shape->channels;
    CO_AUTOFREE double *sums = co_xcalloc(2 * channels, sizeof(*sums));
    rt_bn_sums(shape, x, dy, mean, inv_std, sums);
    for (size_t c = 0; c < channels; c++) {
        ret_dbias[c] = (float)sums[c];
        ret_dscale[c] = (float)sums[channels + c];
    }
    CO_TRY(rt_all_reduce(g, sums, sums, 2 * channels, RT_F64, RT_SUM, err));
    rt_bn_dx(shape, x, dy, mean, inv_std, scale, count, sums, ret_dx);
    return 0;
}
