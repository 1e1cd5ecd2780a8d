/* Merges the output of many processes into one stream of whole lines, each with the name of its
 * process in front.  Nothing is lost: when the stream is blocked, `full` asks the caller to stop
 * reading from the processes, which then wait.  A line longer than PROC_LINE_MAX comes in pieces.
 *
 * It writes to a pipe or a terminal without blocking the loop.  For that it opens a description of
 * its own, as O_NONBLOCK on a shared one would affect the other processes that have it.  Belongs to
 * the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/loop.h"

enum { PROC_LINE_MAX = 16384 };

struct proc_output;

/* A source of lines.  The caller zeroes it and sets name, which is borrowed. */
struct proc_source {
    const char *name;
    int colour; /* 0: none; else an ANSI colour, 31... */
    size_t len; /* bytes in line, which has not ended yet */
    bool cut;   /* the beginning of that line was written already */
    char line[PROC_LINE_MAX];
};

struct proc_output_options {
    int fd;                    /* stays the caller's */
    size_t width;              /* of the longest name */
    void (*change)(void *arg); /* `full` has changed, or `broken` became true */
    void *arg;
};

struct proc_output *proc_output_open(
    struct co_loop *loop, const struct proc_output_options *options);
/* Writes what is left; it blocks as long as the stream is open and blocked. */
void proc_output_close(struct proc_output *o);
CO_DEFINE_CLEANUP(struct proc_output *, proc_output_close)

void proc_output_add(struct proc_output *o, struct proc_source *s, const char *data, size_t len);
/* The source has ended.  A last line without a newline is written too. */
void proc_output_end(struct proc_output *o, struct proc_source *s);
/* Adds a line of the caller's own, without a name in front. */
void proc_output_say(struct proc_output *o, const char *fmt, ...) CO_PRINTF(2, 3);

bool proc_output_full(const struct proc_output *o);   /* the caller must not add now */
bool proc_output_broken(const struct proc_output *o); /* the reader has closed the stream */

/* Opens a non-blocking description of our own for the pipe or terminal that fd is.  -1 when that is
 * not possible, or would have another file position (a file): then the caller writes to fd. */
int proc_output_reopen(int fd);
