/* Measures a trained model over a data set.  The caller says where embedding rows come from.  Use
 * it in the model's thread. */
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "examples/ctr/model.h"
#include "examples/ctr/reader.h"
#include "examples/nn/metrics.h"

/* Gets the rows (n, E) of n ids. */
typedef int (*ctr_rows_fn)(
    void *source, const uint64_t *ids, size_t n, float *ret_rows, struct co_err *err);

/* Before each batch: the parameters from now on, where the source has newer ones. */
typedef int (*ctr_refresh_fn)(void *source, const float **params, struct co_err *err);

struct ctr_evaluation {
    struct ctr_model *model;
    const struct ctr_config *config;
    size_t batch; /* at most the model's batch_max */
    const float *params;
    ctr_rows_fn rows;
    void *source;
    ctr_refresh_fn refresh; /* NULL: parameters stay, and predictions are written as the buffer is
                             * full; else after each batch */
    FILE *predictions;      /* gets a probability for each sample, nan for a bad one; may be NULL */
};

/* Reads r to its end; samples without label are not measured.  Returns the errors of the reader and
 * of the rows' source. */
CO_MUST_CHECK int ctr_evaluate(const struct ctr_evaluation *e, struct ctr_reader *r,
    struct nn_metrics *ret_metrics, struct co_err *err);

/* "TEST ---> loss: ... auc: ... acc: ... mae: ..., mse: ... rmse: ..." */
void ctr_metrics_print(FILE *out, const struct nn_metrics *m);
