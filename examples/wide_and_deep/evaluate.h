/* The measures of a trained model over a data set; where embedding rows come from is the caller's
 * business.  Owned by the thread of the model. */
#pragma once

#include <stdio.h>

#include "common/err.h"
#include "examples/nn/metrics.h"
#include "examples/wide_and_deep/model.h"
#include "examples/wide_and_deep/reader.h"

/* Writes the rows (n, E) of ids. */
typedef int (*wd_rows_fn)(
    void *source, const uint64_t *ids, size_t n, float *ret_rows, struct co_err *err);

struct wd_evaluation {
    struct wd_model *model;
    const struct wd_config *config;
    size_t batch; /* at most what the model was made for */
    const float *params;
    wd_rows_fn rows;
    void *source;
    FILE *predictions; /* one probability a line; NULL: nobody wants them */
};

/* Reads r to its end.  Fails as the reader and the rows do. */
CO_MUST_CHECK int wd_evaluate(const struct wd_evaluation *e, struct wd_reader *r,
    struct nn_metrics *ret_metrics, struct co_err *err);

/* "TEST ---> loss: ... auc: ... acc: ... mae: ..., mse: ... rmse: ..." */
void wd_metrics_print(FILE *out, const struct nn_metrics *m);
