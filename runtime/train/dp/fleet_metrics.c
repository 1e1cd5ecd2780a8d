/* Metrics over all trainers, by the formulas of Paddle's fleet.metrics
 * (python/paddle/distributed/fleet/metrics/metric.py, 3.3.1). */
#include <math.h>
#include <string.h>

#include "common/contract.h"
#include "common/mem.h"
#include "runtime/train/dp/dp.h"

/* ---- the group of trainers ---- */

int rt_trainers_open(const struct rt_job *job, const struct rt_group_options *options,
    struct rt_group **ret_group, struct co_err *err) {
    uint32_t n = rt_worker_num(job);
    if (rt_is_worker(job) && n > 1 && rt_job_gloo(job) == 0) {
        return co_err_set(err, CO_UNSUPPORTED,
            "%u trainers, but %s is neither 1 nor 2 (spec.withGloo): they do not meet", n,
            co_contract[CO_VAR_WITH_GLOO].name);
    }
    return rt_group_open(job, options, ret_group, err);
}

/* ---- the metrics ---- */

static int auc(const double *stat, size_t buckets, double *ret) {
    double area = 0, pos = 0, neg = 0;
    for (size_t i = buckets; i-- > 0;) {
        double new_pos = pos + stat[i], new_neg = neg + stat[buckets + i];
        area += (new_neg - neg) * (pos + new_pos) / 2;
        pos = new_pos;
        neg = new_neg;
    }
    *ret = pos * neg == 0 ? 0.5 : area / (pos * neg);
    return 0;
}

static int quotient(const double *sums, size_t half, double *ret) {
    (void)half;
    *ret = sums[0] / sums[1];
    return sums[1] == 0 ? CO_INVALID : 0;
}

static int root(const double *sums, size_t half, double *ret) {
    int rc = quotient(sums, half, ret);
    *ret = sqrt(*ret);
    return rc;
}

static const struct {
    const char *name;
    enum rt_op op;
    size_t n;                                                       /* 0: any; AUC: any even one */
    int (*from_sums)(const double *sums, size_t half, double *ret); /* NULL: result is the sums */
} metrics[RT_METRICS] = {
    [RT_METRIC_SUM] = {"sum", RT_SUM},
    [RT_METRIC_MAX] = {"max", RT_MAX},
    [RT_METRIC_MIN] = {"min", RT_MIN},
    [RT_METRIC_ACC] = {"acc", RT_SUM, 2, quotient},
    [RT_METRIC_MAE] = {"mae", RT_SUM, 2, quotient},
    [RT_METRIC_MSE] = {"mse", RT_SUM, 2, quotient},
    [RT_METRIC_RMSE] = {"rmse", RT_SUM, 2, root},
    [RT_METRIC_AUC] = {"auc", RT_SUM, 0, auc},
};

int rt_metric(struct rt_group *g, enum rt_metric metric, const double *in, size_t n, double *ret,
    struct co_err *err) {
    if (metric >= RT_METRICS) {
        return co_err_set(err, CO_INVALID, "no such metric: %d", (int)metric);
    }
    bool even = metric != RT_METRIC_AUC || (n > 0 && n % 2 == 0);
    if (!even || (metrics[metric].n && n != metrics[metric].n)) {
        return co_err_set(
            err, CO_INVALID, "%s of %zu values does not exist", metrics[metric].name, n);
    }
    CO_AUTOFREE double *sums = co_xcalloc(n ? n : 1, sizeof(*sums));
    CO_TRY(rt_all_reduce(g, in, sums, n, RT_F64, metrics[metric].op, err));
    if (!metrics[metric].from_sums) {
        memcpy(ret, sums, n * sizeof(*ret));
        return 0;
    }
    double value = 0;
    int rc = metrics[metric].from_sums(sums, n / 2, &value);
    if (rc < 0) {
        return co_err_set(err, rc, "%s: nothing was counted on any rank", metrics[metric].name);
    }
    *ret = value;
    return 0;
}

int rt_auc_add(double *stat, size_t buckets, const float *scores, const float *labels, size_t n,
    struct co_err *err) {
    if (buckets < 1) {
        return co_err_set(err, CO_INVALID, "0 buckets for scores, expected 1 or more");
    }
    for (size_t i = 0; i < n; i++) {
        if (!(scores[i] >= 0 && scores[i] <= 1)) {
            return co_err_set(
                err, CO_INVALID, "score %zu is %g, expected 0 to 1", i, (double)scores[i]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t bucket = (size_t)(scores[i] * (float)(buckets - 1)); /* in f32, as Paddle's auc */
        bucket = bucket < buckets ? bucket : buckets - 1;           /* f32 may have rounded up */
        stat[(labels[i] != 0 ? 0 : buckets) + bucket] += 1;
    }
    return 0;
}
