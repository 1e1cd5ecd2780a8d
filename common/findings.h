/* What checks of a file find: each thing at its path, in one line, up to a bound. */
#pragma once

#include <stddef.h>

#include "common/err.h"

/* path: dotted, list items by number.  message: one line that begins with the path. */
typedef void (*co_finding_fn)(void *arg, const char *path, const char *message);

struct co_findings {
    co_finding_fn fn;
    void *arg;
    size_t max, n; /* fn is called max times at most; n: how often it was */
};

/* The message is the path, a blank and the sentence, of 255 bytes at most. */
void co_finding(struct co_findings *to, const char *path, const char *fmt, ...) CO_PRINTF(3, 4);
/* Where the message does not begin with the path.  Control characters become '?'. */
void co_finding_as(struct co_findings *to, const char *path, char *message);
