/* The last lines of a stream, for saying what a process complained about before it failed.
 * Fixed size, no allocation.  Owned by whoever reads the stream. */
#pragma once

#include <stddef.h>

enum { RT_TAIL_MAX = 2048 };

struct rt_tail {
    size_t len;
    char cut; /* something was dropped in front */
    char data[RT_TAIL_MAX + 1];
};

void rt_tail_add(struct rt_tail *t, const char *data, size_t len);

/* Whole lines, without blank lines at the end, control characters as blanks; borrowed from t,
 * which must not be added to any more.  "" when there was nothing. */
const char *rt_tail_text(struct rt_tail *t);
/* The last of them. */
const char *rt_tail_last_line(struct rt_tail *t);
