/* Parses CSV with a header: columns by name, in any order; others are ignored.  Fields are between
 * commas (or semicolons, tabs or bars, whichever the header has), in double quotes where they hold
 * some, or newlines.
 * Values become features as Criteo's do (criteo.h): the i-th category as that of its column 14 + i.
 * Numbers are scaled as Criteo's where their columns are called I1 to I13, and else taken as they
 * stand.  A reader has one for its files, one after the other. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "examples/ctr/sample.h"

/* The names of columns; lists have commas between.  "": label, I1 to I13, C1 to C26. */
struct ctr_columns {
    const char *label, *numbers, *categories;
};

struct ctr_csv;

/* The caller owns *ret_csv.  CO_INVALID: too many columns, or one twice. */
CO_MUST_CHECK int ctr_csv_new(
    const struct ctr_columns *columns, struct ctr_csv **ret_csv, struct co_err *err);
void ctr_csv_free(struct ctr_csv *c); /* NULL is fine */
CO_DEFINE_CLEANUP(struct ctr_csv *, ctr_csv_free)

/* Takes the header of a file; where: its "file:line".  CO_INVALID names a column that is missing
 * and the nearest that is there.  A file may lack the label unless it is needed: then no line has
 * one. */
CO_MUST_CHECK int ctr_csv_header(struct ctr_csv *c, const char *where, struct da_text line,
    bool needs_label, struct co_err *err);
/* What is between the columns; for NULL, what may be. */
const char *ctr_csv_between(const struct ctr_csv *c);
bool ctr_csv_labelled(const struct ctr_csv *c); /* the header has a column of labels */
/* As ctr_criteo_parse, for the lines below that header. */
int ctr_csv_parse(
    const struct ctr_csv *c, struct da_text line, struct ctr_sample *s, struct da_why *why);
