/* Metrics as rows, printed in Prometheus' text format.
 *
 * A program has one array of struct co_metric, which contains the values, too.  The values of
 * labels are fixed in the row, so the number of series is bounded.  Owned by the loop's thread. */
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
    enum co_metric_type type;
    const char *help;
    /* None, one or several.  With several, only series with a value are printed, since most
     * combinations never occur. */
    struct co_label label[CO_METRIC_LABELS];
    /* Further labels, the same for all series: "name=\"paddlejob\"". */
    const char *fixed;
    /* Upper bounds of a histogram's buckets, ascending, at most CO_METRIC_BUCKETS; +Inf is implied.
     */
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

/* The series of a combination of label values, given by their indices.  With one label its index is
 * the series; without labels the series is 0. */
size_t co_metric_series(const struct co_metric *m, const size_t index[CO_METRIC_LABELS]);

void co_metric_add(struct co_metric *m, size_t series, double v);
void co_metric_set(struct co_metric *m, size_t series, double v);
void co_metric_observe(struct co_metric *m, size_t series, double v);
/* Adds a histogram that was observed elsewhere with the row's bounds. */
void co_metric_merge(struct co_metric *m, size_t series, const struct co_histogram *h);
CO_MUST_CHECK int co_metrics_render(
    const struct co_metric *rows, size_t n, struct co_buf *ret, struct co_err *err);
/* A Markdown table, for docs/. */
CO_MUST_CHECK int co_metrics_markdown(
    const struct co_metric *rows, size_t n, struct co_buf *ret, struct co_err *err);
/* process_* metrics of this process (CPU seconds, RSS, open fds, start time). */
CO_MUST_CHECK int co_metrics_process(struct co_buf *ret, struct co_err *err);
/* Frees the values. */
void co_metrics_done(struct co_metric *rows, size_t n);
