/* Runs the model over a data set and sums the measures. */
#include "examples/ctr/evaluate.h"

#include <errno.h>

static int batch_evaluate(const struct ctr_evaluation *e, struct ctr_batch *b, float *rows,
    struct nn_metrics *m, struct co_err *err) {
    const float *p = NULL;

    ctr_model_lookup(e->model, b);
    int rc = e->rows(e->source, b->unique, b->n_unique, rows, err);
    if (rc == 0) {
        rc = ctr_model_forward(e->model, b, e->params, rows, &p, err);
    }
    if (rc < 0 || !p) {
        return rc;
    }
    nn_metrics_add(m, b->n, p, b->label);
    for (size_t i = 0; e->predictions && i < b->n; i++) {
        if (fprintf(e->predictions, "%.6f\n", (double)p[i]) < 0) {
            return co_err_errno(err, errno, "writing predictions");
        }
    }
    return 0;
}

int ctr_evaluate(const struct ctr_evaluation *e, struct ctr_reader *r,
    struct nn_metrics *ret_metrics, struct co_err *err) {
    CO_CLEANUP(ctr_batch_done) struct ctr_batch b = {0};
    CO_AUTOFREE float *rows = NULL;
    int rc = ctr_batch_init(e->config, e->batch, &b, err);

    if (rc < 0) {
        return rc;
    }
    /* Cannot overflow: ctr_batch_init has limited the product. */
    rows = co_xcalloc(e->batch * e->config->slots * e->config->embed, sizeof(*rows));
    nn_metrics_clear(ret_metrics);
    do {
        rc = ctr_reader_next(r, &b, err);
        if (rc == 0 && b.n) {
            rc = batch_evaluate(e, &b, rows, ret_metrics, err);
        }
    } while (rc == 0 && b.n);
    return rc;
}

void ctr_metrics_print(FILE *out, const struct nn_metrics *m) {
    (void)fprintf(out, "TEST ---> loss: %.6f auc: %.6f acc: %.6f mae: %.6f, mse: %.6f rmse: %.6f\n",
        nn_metrics_loss(m), nn_metrics_auc(m), nn_metrics_accuracy(m), nn_metrics_mae(m),
        nn_metrics_mse(m), nn_metrics_rmse(m));
    (void)fflush(out);
}
