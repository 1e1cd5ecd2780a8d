/* Keeps the last lines of a stream, to report what a process printed before it failed.
 * Fixed size, no allocation.  It belongs to the reader of the stream. */
#pragma once

#include <stddef.h>

enum { RL_TAIL_MAX = 2048 };

struct rl_tail {
    size_t len;
    char cut; /* older bytes were dropped: data may begin inside a line */
    char data[RL_TAIL_MAX + 1];
};

void rl_tail_add(struct rl_tail *t, const char *data, size_t len);

/* The whole lines, without blank lines at the end and with control characters replaced by blanks;
 * "" when there were none.  The text is borrowed from t, to which nothing may be added any more. */
const char *rl_tail_text(struct rl_tail *t);
/* Copies them, at most size - 1 bytes, and returns how many; more may be added. */
size_t rl_tail_copy(const struct rl_tail *t, char *ret, size_t size);
/* The last of them. */
const char *rl_tail_last_line(struct rl_tail *t);
/* The line that says why the process failed (common/cause.h), cut to size. */
void rl_tail_cause(struct rl_tail *t, char *ret, size_t size);
