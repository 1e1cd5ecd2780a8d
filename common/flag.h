/* Command-line flags as rows: name, type, default as text, help.  Parsing, --help and the
 * reference in docs/ come from the same rows.
 *
 * Syntax is Go's flag package (what upstream's operator takes): -x, --x, --x=v, --x v; booleans
 * take a value only with "="; "--" ends the flags; the first word that is no flag ends them,
 * too.  Values point into argv or into the rows: nothing is allocated. */
#pragma once

#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum co_flag_type {
    CO_FLAG_STR,      /* value: const char ** */
    CO_FLAG_INT,      /* value: int64_t * */
    CO_FLAG_FLOAT,    /* value: double * */
    CO_FLAG_BOOL,     /* value: bool * */
    CO_FLAG_DURATION, /* value: int64_t *, milliseconds; Go syntax */
};

struct co_flag {
    const char *name;
    enum co_flag_type type;
    void *value;
    const char *def; /* default, parsed like a given value; NULL means "" / 0 / false */
    const char *help;
    int64_t min, max;    /* of CO_FLAG_INT; both 0: any */
    const char *metavar; /* for help; NULL: by type */
    bool hidden;         /* accepted, listed only in the reference */
    bool once;           /* of CO_FLAG_STR: two different values are an error */
};

/* Sets every default, then reads argv[1..argc).  *ret_rest: index of the first word that is no
 * flag (argc when there is none).  CO_INVALID names the flag, the value and what was expected;
 * CO_CANCELED when -h or --help was given. */
CO_MUST_CHECK int co_flags_parse(const struct co_flag *flags, size_t n, int argc,
    char *const argv[], int *ret_rest, struct co_err *err);
void co_flags_help(FILE *out, const char *usage, const struct co_flag *flags, size_t n);
/* A Markdown table, for docs/. */
void co_flags_markdown(FILE *out, const struct co_flag *flags, size_t n);
