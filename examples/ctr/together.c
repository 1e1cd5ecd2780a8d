/* Sums the measures of all workers in a collective group. */
#include "examples/ctr/together.h"

#include <stdio.h>

#include "common/log.h"
#include "common/mem.h"

enum { FORM_MS = 30 * 1000, CALL_MS = 30 * 1000 };

struct measures {
    double auc, acc, mae, rmse, samples;
};

static int measure(
    struct rt_group *g, const struct nn_metrics *m, struct measures *ret, struct co_err *err) {
    CO_AUTOFREE double *buckets = co_xcalloc(2 * NN_AUC_BUCKETS, sizeof(*buckets));
    double n = (double)m->n;
    const double right[] = {(double)m->correct, n}, absolute[] = {m->absolute_sum, n},
                 squares[] = {m->square_sum, n};

    for (size_t i = 0; i < NN_AUC_BUCKETS; i++) {
        buckets[i] = (double)m->positive[i];
        buckets[NN_AUC_BUCKETS + i] = (double)m->negative[i];
    }
    CO_TRY(rt_metric(g, RT_METRIC_AUC, buckets, 2 * (size_t)NN_AUC_BUCKETS, &ret->auc, err));
    CO_TRY(rt_metric(g, RT_METRIC_ACC, right, 2, &ret->acc, err));
    CO_TRY(rt_metric(g, RT_METRIC_MAE, absolute, 2, &ret->mae, err));
    CO_TRY(rt_metric(g, RT_METRIC_RMSE, squares, 2, &ret->rmse, err));
    return rt_metric(g, RT_METRIC_SUM, &n, 1, &ret->samples, err);
}

void ctr_metrics_together(const struct rt_job *job, const struct nn_metrics *own) {
    const struct rt_group_options options = {
        .form_timeout_ms = FORM_MS, .call_timeout_ms = CALL_MS};
    struct rt_group *g = NULL;
    struct measures all;
    struct co_err err = {0};

    if (rt_job_gloo(job) == 0 || rt_worker_num(job) < 2) {
        return;
    }
    if (rt_trainers_open(job, &options, &g, &err) < 0 || measure(g, own, &all, &err) < 0) {
        co_log_warn("no measures over all workers", CO_E(&err));
    } else if (rt_is_first_worker(job)) {
        (void)printf(
            "ALL ---> auc: %.6f acc: %.6f mae: %.6f rmse: %.6f samples: %.0f workers: %u\n",
            all.auc, all.acc, all.mae, all.rmse, all.samples, rt_worker_num(job));
        (void)fflush(stdout);
    }
    rt_group_close(g);
}
