/* Metrics as rows, printed in Prometheus' text format.
 *
 * A program declares one static array of struct co_metric; each row's values live in it.  Label
 * values are fixed in the row (bounded cardinality by construction).  Owned by the loop's
 * thread. */
#pragma once

#include "common/buf.h"

enum co_metric_type { CO_COUNTER, CO_GAUGE, CO_HISTOGRAM };

enum { CO_METRIC_BUCKETS = 14, CO_METRIC_SERIES = 24 };

struct co_metric {
    const char *name;
    const char *help;
    enum co_metric_type type;
    /* One label, or none.  label_values ends with NULL; at most CO_METRIC_SERIES of them. */
    const char *label;
    const char *const *label_values;
    /* Further labels, the same for all series: "name=\"paddlejob\"". */
    const char *fixed;
    /* Upper bounds of a histogram, ascending, at most CO_METRIC_BUCKETS; the +Inf bucket is
     * implied. */
    const double *bounds;
    size_t n_bounds;
    /* values, by index of the label value */
    double value[CO_METRIC_SERIES];
    struct co_histogram *hist; /* by label value; allocated on first use */
};

struct co_histogram {
    double sum;
    uint64_t count;
    uint64_t bucket[CO_METRIC_BUCKETS + 1];
};

void co_metric_add(struct co_metric *m, size_t label, double v);
void co_metric_set(struct co_metric *m, size_t label, double v);
void co_metric_observe(struct co_metric *m, size_t label, double v);
CO_MUST_CHECK int co_metrics_render(
    const struct co_metric *rows, size_t n, struct co_buf *ret, struct co_err *err);
/* A Markdown table, for docs/. */
CO_MUST_CHECK int co_metrics_markdown(
    const struct co_metric *rows, size_t n, struct co_buf *ret, struct co_err *err);
/* process_* metrics of this process (CPU seconds, RSS, open fds, start time). */
CO_MUST_CHECK int co_metrics_process(struct co_buf *ret, struct co_err *err);
/* Frees histogram memory. */
void co_metrics_done(struct co_metric *rows, size_t n);
