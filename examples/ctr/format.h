/* The formats of click data (--format): one row for each, which the README's table is compared
 * with. */
#pragma once

#include <stdbool.h>

#include "examples/ctr/csv.h"

struct ctr_format {
    const char *name;
    const char *what;    /* for people */
    const char *example; /* how a line looks */
    /* Parses a line: 0, or -1 with the reason.  csv: NULL but for a format with a header. */
    int (*parse)(
        const struct ctr_csv *csv, struct da_text line, struct ctr_sample *s, struct da_why *why);
    bool header;        /* the first line of a file names the columns */
    bool several, mean; /* a slot may have several values: the sum of their rows, or the mean */
};

enum { CTR_FORMATS = 6 };
extern const struct ctr_format ctr_formats[CTR_FORMATS]; /* the first is the default */

/* "": the default.  CO_INVALID: no format has that name. */
CO_MUST_CHECK int ctr_format_find(
    const char *name, const struct ctr_format **ret_format, struct co_err *err);
