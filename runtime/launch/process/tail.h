/* Keeps the last lines of a stream, to report what a process printed before it failed.
 * Fixed size, no allocation.  It belongs to the reader of the stream. */
#pragma once

#include <stddef.h>

enum { PROC_TAIL_MAX = 2048 };

struct proc_tail {
    size_t len;
    char cut; /* older bytes were dropped: data may begin inside a line */
    char data[PROC_TAIL_MAX + 1];
};

void proc_tail_add(struct proc_tail *t, const char *data, size_t len);

/* The whole lines, without blank lines at the end and with control characters replaced by blanks;
 * "" when there were none.  The text is borrowed from t, to which nothing may be added any more. */
const char *proc_tail_text(struct proc_tail *t);
/* Copies them, at most size - 1 bytes, and returns how many; more may be added. */
size_t proc_tail_copy(const struct proc_tail *t, char *ret, size_t size);
/* The last of them. */
const char *proc_tail_last_line(struct proc_tail *t);
/* The line that says why the process failed (common/cause.h), cut to size. */
void proc_tail_cause(struct proc_tail *t, char *ret, size_t size);
