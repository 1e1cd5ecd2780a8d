/*
 * Prints indented YAML lines: just what the files of this folder need. Knows nothing of fields.
 * A writer is two numbers on the caller's stack; failed writes are left to ferror().
 */
#ifndef CRD_OUT_H
#define CRD_OUT_H

#include <stdio.h>

struct crd_out {
    FILE *file;
    int depth; /* two blanks each */
};

/* One line at the present depth. */
__attribute__((format(printf, 2, 3))) void crd_out_line(
    const struct crd_out *out, const char *format, ...);

/* "key: >-" and text below it, broken at blanks. Text: one paragraph, single blanks. */
void crd_out_text(const struct crd_out *out, const char *key, const char *text);

#endif
