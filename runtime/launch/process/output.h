/* Many processes' output as one stream of whole lines, each with the name of who printed it in
 * front.  Nothing is lost: when nobody reads the stream, `full` says so and the processes are
 * left to wait.  A line longer than RT_LINE_MAX comes in pieces.
 *
 * Writes to a pipe or a terminal without blocking the loop, on a description of its own, so that
 * those who share the stream are not disturbed.  Owned by the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/loop.h"

enum { RT_LINE_MAX = 16384 };

struct rt_output;

/* A source of lines; zeroed, with name (borrowed) set. */
struct rt_source {
    const char *name;
    int colour; /* 0: none; else an ANSI colour, 31... */
    size_t len; /* bytes of a line that has not ended */
    bool cut;   /* ... whose beginning was written */
    char line[RT_LINE_MAX];
};

struct rt_output_options {
    int fd;                    /* stays the caller's */
    size_t width;              /* of the longest name */
    void (*change)(void *arg); /* `full` is another, or `broken` became true */
    void *arg;
};

CO_MUST_CHECK int rt_output_open(struct co_loop *loop, const struct rt_output_options *options,
    struct rt_output **ret, struct co_err *err);
/* Writes what is left, waiting as long as somebody reads. */
void rt_output_close(struct rt_output *o);
CO_DEFINE_CLEANUP(struct rt_output *, rt_output_close)

void rt_output_add(struct rt_output *o, struct rt_source *s, const char *data, size_t len);
/* The source has ended: a last line without a newline is a line. */
void rt_output_end(struct rt_output *o, struct rt_source *s);
/* A line of the caller's own. */
void rt_output_say(struct rt_output *o, const char *fmt, ...) CO_PRINTF(2, 3);

bool rt_output_full(const struct rt_output *o);   /* do not add now */
bool rt_output_broken(const struct rt_output *o); /* nobody will ever read it */

/* A non-blocking description of our own of what fd is; -1 where that is another file position or
 * not to be had: then writes go to fd itself. */
int rt_output_reopen(int fd);
