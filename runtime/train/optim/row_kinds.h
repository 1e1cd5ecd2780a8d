/* The kinds of a sparse table's admit and evict texts, with their parameters.  What they do is in
 * runtime/train/table/policy.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { OPTIM_ROW_PARAMS = 8 };

struct optim_row_param {
    const char *name; /* NULL: the end */
    double initial, min, max;
    const char *help;
    bool whole; /* a whole number */
};

struct optim_row_kind {
    const char *name;
    size_t words; /* of a row's head */
    struct optim_row_param params[OPTIM_ROW_PARAMS];
    const char *help;
};

/* In the order of enum table_admit_kind and table_evict_kind.  Static storage. */
const struct optim_row_kind *optim_admit_kinds(size_t *ret_n);
const struct optim_row_kind *optim_evict_kinds(size_t *ret_n);
