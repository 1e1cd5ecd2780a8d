/* The last lines of a stream, for saying what a process complained about before it failed.
 * Fixed size, no allocation.  Owned by whoever reads the stream. */
#pragma once

#include <stddef.h>

enum { RL_TAIL_MAX = 2048 };

struct rl_tail {
    size_t len;
    char cut; /* something was dropped in front */
    char data[RL_TAIL_MAX + 1];
};

void rl_tail_add(struct rl_tail *t, const char *data, size_t len);

/* Whole lines, without blank lines at the end, control characters as blanks; borrowed from t,
 * which must not be added to any more.  "" when there was nothing. */
const char *rl_tail_text(struct rl_tail *t);
/* The last of them. */
const char *rl_tail_last_line(struct rl_tail *t);
