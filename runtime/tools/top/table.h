/* Servers and trainers as lines of a table, from two reads of each.  Pure. */
#pragma once

#include "common/buf.h"
#include "runtime/tools/top/samples.h"

struct top_target {
    const char *name;                 /* as it was given */
    const struct top_samples *now;    /* NULL: there is no answer, */
    const char *why;                  /*   and why */
    const struct top_samples *before; /* NULL: rates are those of its whole life */
};

/* First servers, then trainers, then who does not answer. */
CO_MUST_CHECK int top_table_print(
    const struct top_target *targets, size_t n, struct co_buf *ret, struct co_err *err);
