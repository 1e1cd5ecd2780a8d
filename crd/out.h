/*
 * Prints indented YAML lines: just what the files of this folder need. Knows nothing of fields.
 * A writer is two numbers on the caller's stack; failed writes are left to ferror().
 */
#pragma once

#include <stdio.h>

#include "common/err.h"

struct crd_out {
    FILE *file;
    int depth; /* two blanks each */
};

/* One line at the present depth. */
void crd_out_line(const struct crd_out *out, const char *format, ...) CO_PRINTF(2, 3);

/* "key: >-" and text below it, broken at blanks. Text: one paragraph, single blanks. */
void crd_out_text(const struct crd_out *out, const char *key, const char *text);
