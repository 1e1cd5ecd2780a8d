/* Numbers in the fields of a line, which no NUL ends.  Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of a line. */
struct da_text {
    const char *at;
    size_t len;
};

enum { DA_QUOTE_MAX = 24 };

/* A blank, tab, or carriage return. */
static inline bool da_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Without blanks and tabs at both ends. */
static inline struct da_text da_trim(struct da_text t) {
    while (t.len > 0 && da_is_blank(t.at[t.len - 1])) {
        t.len--;
    }
    while (t.len > 0 && da_is_blank(t.at[0])) {
        t.at++;
        t.len--;
    }
    return t;
}

/* The next word between blanks; rest loses it.  len 0: there is none. */
struct da_text da_word_next(struct da_text *rest);
bool da_is(struct da_text t, const char *word);

/* A whole number, all of 64 bits; false: t is not one, or it is 2^64 or more. */
bool da_u64(struct da_text t, uint64_t *ret);
/* A finite number from -1e15 to 1e15, with a sign or without. */
#define DA_NUMBER_EXPECTED "a number from -1e15 to 1e15, or nothing"
bool da_number(struct da_text t, double *ret);
/* A label: 1, or 0 or -1, however the number is written, or true or false in any case. */
bool da_label(struct da_text t, float *ret);
#define DA_LABEL_EXPECTED "0 or 1 (-1 counts as 0)"
/* What files have where a number is missing: nothing, NA, N/A, NaN, NULL, None, \\N or ?. */
bool da_is_missing(struct da_text t);

/* For messages: the first 20 bytes, without what would upset a terminal. */
const char *da_quote(struct da_text t, char ret_text[DA_QUOTE_MAX]);
