/* Runs the model over a data set and sums the measures. */
#include "examples/ctr/evaluate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Measures runs of samples with labels. */
static void batch_measure(const struct ctr_batch *b, const float *p, struct nn_metrics *m) {
    for (size_t i = 0, n; i < b->n; i += n + 1) {
        for (n = 0; i + n < b->n && !isnan(b->label[i + n]); n++) {
        }
        nn_metrics_add(m, n, p + i, b->label + i);
    }
}

static int batch_print(
    const struct ctr_evaluation *e, const struct ctr_batch *b, const float *p, struct co_err *err) {
    FILE *out = e->predictions;

    for (size_t i = 0; i < b->n; i++) {
        int n = b->bad[i] ? fprintf(out, "nan\n") : fprintf(out, "%.6f\n", (double)p[i]);

        if (n < 0) {
            return co_err_errno(err, errno, "cannot write to stdout");
        }
    }
    return e->refresh && fflush(out) != 0 ? co_err_errno(err, errno, "cannot write to stdout") : 0;
}

static int batch_evaluate(const struct ctr_evaluation *e, struct ctr_batch *b,
    struct ctr_rows *rows, struct nn_metrics *m, struct co_err *err) {
    const float *p = NULL, *params = e->params;

    CO_TRY(e->refresh ? e->refresh(e->source, &params, err) : 0);
    CO_TRY(ctr_model_lookup(e->model, b, err));
    ctr_rows_fit(rows, e->config, b);
    CO_TRY(e->rows(e->source, b->unique, b->n_unique, rows->at, err));
    CO_TRY(ctr_model_forward(e->model, b, params, rows->at, &p, err));
    batch_measure(b, p, m);
    return e->predictions ? batch_print(e, b, p, err) : 0;
}

int ctr_evaluate(const struct ctr_evaluation *e, struct ctr_reader *r,
    struct nn_metrics *ret_metrics, struct co_err *err) {
    CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {0};
    struct ctr_rows rows = {0};
    int rc = ctr_batch_init(e->config, e->batch, &b, err);

    if (rc < 0) {
        return rc;
    }
    nn_metrics_clear(ret_metrics);
    do {
        rc = ctr_reader_next(r, &b, err);
        if (rc == 0 && b.n) {
            rc = batch_evaluate(e, &b, &rows, ret_metrics, err);
        }
    } while (rc == 0 && b.n);
    free(rows.at);
    if (rc == 0 && e->predictions && fflush(e->predictions) != 0) {
        rc = co_err_errno(err, errno, "cannot write to stdout");
    }
    return rc;
}

void ctr_metrics_print(FILE *out, const struct nn_metrics *m) {
    (void)fprintf(out, "TEST ---> loss: %.6f auc: %.6f acc: %.6f mae: %.6f, mse: %.6f rmse: %.6f\n",
        nn_metrics_loss(m), nn_metrics_auc(m), nn_metrics_accuracy(m), nn_metrics_mae(m),
        nn_metrics_mse(m), nn_metrics_rmse(m));
    (void)fflush(out);
}
