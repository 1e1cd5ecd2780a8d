/* Makes samples of lines, by the parsers of runtime/train/data; PaddleRec's slots have their own
 * (slots.h).  A reader has one for its files, one after the other.
 *
 *     Criteo    label, 13 numbers, 26 categories; without its first column, as in Criteo's
 *               test.txt, a line has no label
 *     CSV       with a header: columns by name, in any order; others are ignored.  Values become
 *               features as Criteo's do: the i-th category as that of its column 14 + i.  Numbers
 *               are scaled as Criteo's where their columns are called I1 to I13, and else taken as
 *               they stand
 *
 * Knows nothing of files. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "examples/ctr/format.h"
#include "examples/ctr/sample.h"

/* The names of CSV's columns; lists have commas between.  "": label, I1 to I13, C1 to C26. */
struct ctr_columns {
    const char *label, *numbers, *categories;
};

struct ctr_parser;

/* The caller owns *ret_parser.  columns: NULL but for a format with a header.  CO_INVALID: too many
 * columns, or one twice. */
CO_MUST_CHECK int ctr_parser_new(const struct ctr_format *format, const struct ctr_columns *columns,
    struct ctr_parser **ret_parser, struct co_err *err);
void ctr_parser_free(struct ctr_parser *p); /* NULL is fine */
CO_DEFINE_CLEANUP(struct ctr_parser *, ctr_parser_free)

const struct ctr_format *ctr_parser_format(const struct ctr_parser *p);
/* Takes the header of a file; where: its "file:line".  CO_INVALID names a column that is missing
 * and the nearest that is there.  A file may lack the label unless it is needed: then no line has
 * one. */
CO_MUST_CHECK int ctr_parser_header(struct ctr_parser *p, const char *where, struct da_text line,
    bool needs_label, struct co_err *err);
const char *ctr_parser_between(const struct ctr_parser *p); /* the columns of that header */
bool ctr_parser_labelled(const struct ctr_parser *p);       /* it has a column of labels */
/* Returns 0, or -1 with the reason; *s may then be half written. */
int ctr_parser_parse(
    struct ctr_parser *p, struct da_text line, struct ctr_sample *s, struct da_why *why);
