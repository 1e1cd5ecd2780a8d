/* Why lines of a data set cannot be used: how many of each kind, and the first of all.  Owned by
 * its reader. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

enum { DA_KINDS_MAX = 8, DA_REASON_MAX = 192, DA_SUMMARY_MAX = 512 };

/* What is wrong with a line, without its place. */
struct da_why {
    const char *kind;         /* a static text, as in "17 of 2000: columns" */
    char text[DA_REASON_MAX]; /* what was found, what was expected */
};

/* Sets both; returns -1. */
int da_why_set(struct da_why *why, const char *kind, const char *fmt, ...) CO_PRINTF(3, 4);

struct da_tally {
    uint64_t n;
    bool headed; /* there is a header, which is no line of data */
    struct {
        const char *kind;
        uint64_t n;
    } kinds[DA_KINDS_MAX]; /* in the order of their first line */
    char first[CO_ERR_MAX];
};

/* Counts a line; said: "FILE:LINE: why". */
void da_tally_add(struct da_tally *t, const char *kind, const char *said);
/* Adds the lines that another one has counted behind those of t. */
void da_tally_join(struct da_tally *t, const struct da_tally *later);
/* "2000 skipped (1990 columns, 10 label), first: FILE:LINE: why"; the kinds only if there are
 * several. */
void da_tally_text(const struct da_tally *t, char ret_text[DA_SUMMARY_MAX]);
/* CO_INVALID: no usable line in path, with that text. */
int da_tally_unusable(const struct da_tally *t, const char *path, struct co_err *err);
