/* Metrics as rows, printed in Prometheus' text format.
 *
 * A program declares one static array of struct co_metric; each row's values live in it.  Label
 * values are fixed in the row (bounded cardinality by construction).  Owned by the loop's
 * thread. */
#pragma once

#include "common/buf.h"

enum co_metric_type { CO_COUNTER, CO_GAUGE, CO_HISTOGRAM };

enum { CO_METRIC_BUCKETS = 16, CO_METRIC_LABELS = 3 };

struct co_label {
    const char *name;          /* NULL ends the list */
    const char *const *values; /* ends with NULL */
};

struct co_metric {
    const char *name;
    const char *help;
    enum co_metric_type type;
    /* None, one or several.  A row with several prints only the series that have happened: most
     * combinations never do. */
    struct co_label label[CO_METRIC_LABELS];
    /* Further labels, the same for all series: "name=\"paddlejob\"". */
    const char *fixed;
    /* Upper bounds of a histogram, ascending, at most CO_METRIC_BUCKETS; the +Inf bucket is
     * implied. */
    const double *bounds;
    size_t n_bounds;
    /* By series; allocated on first use. */
    double *value;
    struct co_histogram **hist;
};

struct co_histogram {
    double sum;
    uint64_t count;
    uint64_t bucket[CO_METRIC_BUCKETS + 1];
};

/* The series of a combination of label values, by their indices; one label's index is the series
 * itself, and a row without labels has the series 0. */
size_t co_metric_series(const struct co_metric *m, const size_t index[CO_METRIC_LABELS]);

void co_metric_add(struct co_metric *m, size_t series, double v);
void co_metric_set(struct co_metric *m, size_t series, double v);
void co_metric_observe(struct co_metric *m, size_t series, double v);
CO_MUST_CHECK int co_metrics_render(
    const struct co_metric *rows, size_t n, struct co_buf *ret, struct co_err *err);
/* A Markdown table, for docs/. */
CO_MUST_CHECK int co_metrics_markdown(
    const struct co_metric *rows, size_t n, struct co_buf *ret, struct co_err *err);
/* process_* metrics of this process (CPU seconds, RSS, open fds, start time). */
CO_MUST_CHECK int co_metrics_process(struct co_buf *ret, struct co_err *err);
/* Frees the values. */
void co_metrics_done(struct co_metric *rows, size_t n);
