/* The formats of click data (--format): one row for each, which the README's table is compared
 * with. */
#pragma once

#include <stdbool.h>

#include "common/err.h"

enum ctr_line {
    CTR_ANY_LINE, /* each says which of the next two it is */
    CTR_CRITEO_LINE,
    CTR_SLOTS_LINE,
    CTR_CSV_LINE,
};

struct ctr_format {
    const char *name;
    const char *what;    /* for people */
    const char *example; /* how a line looks */
    enum ctr_line line;
    bool header;        /* the first line of a file names the columns */
    bool several, mean; /* a slot may have several values: the sum of their rows, or the mean */
};

enum { CTR_FORMATS = 6 };
extern const struct ctr_format ctr_formats[CTR_FORMATS]; /* the first is the default */

/* "": the default.  CO_INVALID: no format has that name. */
CO_MUST_CHECK int ctr_format_find(
    const char *name, const struct ctr_format **ret_format, struct co_err *err);
