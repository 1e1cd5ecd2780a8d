/* Compresses texts that are kept and seldom read (zlib, level 1, with a dictionary).  As
 * thread-safe as the slab.  Without it the operator has 27 % more resident with 1,000 jobs
 * (docs/decisions.md).
 */
#pragma once

#include "common/slab.h"

#include <stdbool.h>

enum { CO_SQUEEZE_MAX = 32 * 1024 }; /* longer texts are not compressed, to save CPU time */

struct co_squeezed {
    void *data;       /* a block of the slab; NULL: no text */
    size_t size, len; /* bytes of data; bytes of the text */
};

/* `like`: the dictionary, a static text of the same kind; the most common parts should be at its
 * end.  co_unsqueeze needs the same one. */
struct co_squeezed co_squeeze(struct co_slab *slab, const char *text, size_t len, const char *like);
/* The text and a NUL; the caller frees it. */
char *co_unsqueeze(const struct co_squeezed *s, const char *like);
