/* The formats of lines (enum rt_data_format). */
#pragma once

#include "common/err.h"
#include "runtime/train/data/samples.h"
#include "runtime/train/data/tally.h"

/* Which columns of a file are wanted. */
struct da_header {
    char *text; /* the line it was made of */
    char between[2];
    size_t columns;
    uint32_t *field; /* [columns]: index in fields, DA_NONE: not wanted */
};
enum { DA_NONE = UINT32_MAX >> 1 };

/* Adds the line's sample: 0, or -1 with the reason.  header: NULL but for CSV and TSV. */
typedef int da_parse_fn(const struct da_fields *f, const struct da_header *header,
    struct da_text line, struct da_samples *s, struct da_why *why);
da_parse_fn da_slots_parse, da_criteo_parse, da_csv_parse, da_multislot_parse;

da_parse_fn *da_format_parse(enum rt_data_format format);

/* Takes the header of a file; where: its "FILE:LINE".  CO_INVALID names a column that is missing,
 * and the nearest that is there, or one that is there twice. */
CO_MUST_CHECK int da_header_new(const struct da_fields *f, const char *where, struct da_text line,
    struct da_header **ret_header, struct co_err *err);
/* Of fields->columns, for files without headers. */
CO_MUST_CHECK int da_header_named(
    const struct da_fields *f, struct da_header **ret_header, struct co_err *err);
bool da_header_has(const struct da_header *h, size_t field);
void da_header_free(struct da_header *h); /* NULL is fine */
CO_DEFINE_CLEANUP(struct da_header *, da_header_free)

/* A number or a label in a field of a line: false, it is neither. */
bool da_field_number(struct da_text text, float *ret);
