/* Text that is kept and seldom read, made small (zlib, level 1).  Thread-safe as the slab is.
 * Without it the operator has 27 % more resident with 1,000 jobs (docs/decisions.md). */
#pragma once

#include "common/slab.h"

#include <stdbool.h>

enum { CO_SQUEEZE_MAX = 32 * 1024 }; /* longer text stays as it is: that takes a processor's time */

struct co_squeezed {
    void *data;       /* a block of the slab's; NULL: no text */
    size_t size, len; /* of data; of the text */
};

/* `like`: a static text of the same kind, of which what was squeezed needs to say nothing again;
 * the same one for squeezing and back.  Its end counts most. */
struct co_squeezed co_squeeze(struct co_slab *slab, const char *text, size_t len, const char *like);
/* The text with a NUL behind it; to be freed. */
char *co_unsqueeze(const struct co_squeezed *s, const char *like);
