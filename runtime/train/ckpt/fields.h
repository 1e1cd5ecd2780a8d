/* Lines of a manifest: "word key=value key=value ..." to and from a struct, by one table of rows.
 * Each key occurs once, in the order of the rows; optional keys are left out if empty or 0. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

enum ckpt_field_type {
    CKPT_FIELD_TEXT,    /* char[size]; no space, no '/' */
    CKPT_FIELD_DECIMAL, /* uint32_t or uint64_t, by size */
    CKPT_FIELD_HEX,     /* the same */
    CKPT_FIELD_WORD,    /* bool: words[0] or words[1] */
};

struct ckpt_field {
    const char *key;
    enum ckpt_field_type type;
    size_t offset, size;
    const char *words[2];
    bool optional;
};

#define CKPT_FIELD(of, key, type, member)                                                          \
    {                                                                                              \
        key, CKPT_FIELD_##type, offsetof(struct of, member), sizeof(((struct of *)0)->member),     \
            {NULL, NULL}, false                                                                    \
    }
#define CKPT_FIELD_OPTIONAL(of, key, type, member)                                                 \
    {                                                                                              \
        key, CKPT_FIELD_##type, offsetof(struct of, member), sizeof(((struct of *)0)->member),     \
            {NULL, NULL}, true                                                                     \
    }
#define CKPT_FIELD_EITHER(of, key, member, no, yes)                                                \
    { key, CKPT_FIELD_WORD, offsetof(struct of, member), sizeof(bool), {no, yes}, false }

/* Parses what follows `word` and a space. CO_INVALID names the field. */
CO_MUST_CHECK int ckpt_fields_parse(const struct ckpt_field *fields, size_t n, const char *text,
    size_t len, void *to, struct co_err *err);
/* Prints a whole line, newline included. */
CO_MUST_CHECK int ckpt_fields_print(const char *word, const struct ckpt_field *fields, size_t n,
    const void *from, struct co_buf *to, struct co_err *err);

bool ckpt_field_number(const char *s, size_t len, unsigned base, uint64_t max, uint64_t *ret);
bool ckpt_field_begins(const char *s, size_t len, const char *with);

/* Lines of a manifest, the last of which is "end hash=" with the hash of all before it. */
struct ckpt_lines {
    const char *text;
    size_t len, at;
    unsigned number; /* of the line given last, from 1 */
};
/* The next line without its newline. 1: it was the last line, and the hash is right. CO_INVALID:
 * the text ends too early, or the hash is wrong. */
CO_MUST_CHECK int ckpt_lines_next(
    struct ckpt_lines *l, const char **ret_line, size_t *ret_len, struct co_err *err);
/* The error of a text whose first line is not that of this version.  CO_UNSUPPORTED: its hash is
 * right, so a later version wrote it; CO_DAMAGED. */
int ckpt_lines_refuse(const struct ckpt_lines *l, unsigned version, struct co_err *err);
CO_MUST_CHECK int ckpt_lines_end(struct co_buf *text, struct co_err *err);
