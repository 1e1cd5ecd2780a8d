/* Command-line flags as a table: name, type, default as text, help.  Parsing, --help and the
 * reference in docs/ use the same rows.
 *
 * The syntax is that of Go's flag package, which upstream's operator uses: -x, --x, --x=v, --x v;
 * booleans take a value only with "="; "--" ends the flags, and so does the first word that is not
 * a flag, where words may be another program's command line.  Values point into argv or into the
 * rows: nothing is allocated. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

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
    int64_t min, max;    /* for CO_FLAG_INT; both 0: no limits */
    const char *metavar; /* placeholder in help, or "a|b": the valid words; NULL: the type's */
    bool hidden;         /* not in --help, only in the reference */
    bool once;           /* for CO_FLAG_STR: two different values are an error */
    bool *given;         /* NULL, or gets whether the command line has it: a 0 may mean something */
};

/* Sets every default, then reads argv[1..argc).  *ret_rest: index of the first word that is not a
 * flag (argc when there is none).  CO_INVALID names the flag, the value and what was expected;
 * CO_CANCELED when -h or --help was given. */
CO_MUST_CHECK int co_flags_parse(const struct co_flag *flags, size_t n, int argc,
    char *const argv[], int *ret_rest, struct co_err *err);
/* The same for words that are names, among which flags may stand.  Moves the words to the end of
 * argv, in their order. */
CO_MUST_CHECK int co_flags_parse_among(const struct co_flag *flags, size_t n, int argc,
    char *argv[], int *ret_rest, struct co_err *err);
/* Parses the command line of a program that takes flags only; any other word is CO_INVALID.  Prints
 * the help to stdout if it was requested (CO_CANCELED). */
CO_MUST_CHECK int co_flags_parse_all(const char *usage, const struct co_flag *flags, size_t n,
    int argc, char *const argv[], struct co_err *err);
/* For a program of words, which `usage` names: "bench-dp RANKS STEPS".  Prints usage to stdout if
 * help was requested; 0: end with that.  2: end with that, too: there was a flag, or there are
 * fewer words than least or more than most, and one line on stderr says so.  -1: continue.  most 0:
 * words of another program may follow the first `least`. */
CO_MUST_CHECK int co_words_check(
    const char *usage, int least, int most, int argc, char *const argv[]);
void co_flags_help(FILE *out, const char *usage, const struct co_flag *flags, size_t n);
/* Who gets what co_flags_help would print, in its place: the rows of every command that can say
 * --help, without a second table.  Texts are those of the code, rows the caller's.  NULL: none.
 */
typedef void (*co_flags_reader_fn)(
    void *arg, const char *usage, const struct co_flag *flags, size_t n);
void co_flags_read(co_flags_reader_fn reader, void *arg);
/* What --help shows: never NULL, "" where there is none. */
const char *co_flag_metavar(const struct co_flag *f);
const char *co_flag_shown_default(const struct co_flag *f);
/* A Markdown table, for docs/. */
void co_flags_markdown(FILE *out, const struct co_flag *flags, size_t n);
