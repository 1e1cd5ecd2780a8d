/* Prometheus' text as samples: names, labels, values.  Of a process that is not ours: every bound
 * is kept, and what is no sample is passed over.  Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

enum { TOP_SAMPLES_MAX = 20000 };

struct top_sample {
    const char *name;   /* into text */
    const char *labels; /* `a="b",c="d"`; "": none */
    double value;
};

struct top_samples {
    char *text; /* owned */
    struct top_sample *all;
    size_t n;
    double at; /* when it was read, in seconds */
};

/* text is copied. */
CO_MUST_CHECK int top_samples_parse(
    const char *text, size_t len, double at, struct top_samples *ret, struct co_err *err);
void top_samples_done(struct top_samples *s); /* zeroed: nothing */

/* The sum of the series of that name, of those with that label value (NULL: all).  0: none. */
double top_samples_sum(const struct top_samples *s, const char *name, const char *value);
bool top_samples_have(const struct top_samples *s, const char *name, const char *value);
/* The quantile (0..1) of what a histogram has observed since `before` (NULL: ever), as the upper
 * bound of its bucket; NaN: nothing was observed. */
double top_samples_quantile(const struct top_samples *s, const struct top_samples *before,
    const char *name, const char *value, double quantile);
