/* Many processes' output as one stream of whole lines, each with the name of who printed it in
 * front.  Nothing is lost: when nobody reads the stream, `full` says so and the processes are
 * left to wait.  A line longer than RL_LINE_MAX comes in pieces.
 *
 * Writes to a pipe or a terminal without blocking the loop, on a description of its own, so that
 * those who share the stream are not disturbed.  Owned by the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/loop.h"

enum { RL_LINE_MAX = 16384 };

struct rl_output;

/* A source of lines; zeroed, with name (borrowed) set. */
struct rl_source {
    const char *name;
    int colour; /* 0: none; else an ANSI colour, 31... */
    size_t len; /* bytes of a line that has not ended */
    bool cut;   /* ... whose beginning was written */
    char line[RL_LINE_MAX];
};

struct rl_output_options {
    int fd;                    /* stays the caller's */
    size_t width;              /* of the longest name */
    void (*change)(void *arg); /* `full` is another, or `broken` became true */
    void *arg;
};

CO_MUST_CHECK int rl_output_open(struct co_loop *loop, const struct rl_output_options *options,
    struct rl_output **ret, struct co_err *err);
/* Writes what is left, waiting as long as somebody reads. */
void rl_output_close(struct rl_output *o);
CO_DEFINE_CLEANUP(struct rl_output *, rl_output_close)

void rl_output_add(struct rl_output *o, struct rl_source *s, const char *data, size_t len);
/* The source has ended: a last line without a newline is a line. */
void rl_output_end(struct rl_output *o, struct rl_source *s);
/* A line of the caller's own. */
void rl_output_say(struct rl_output *o, const char *fmt, ...) CO_PRINTF(2, 3);

bool rl_output_full(const struct rl_output *o);   /* do not add now */
bool rl_output_broken(const struct rl_output *o); /* nobody will ever read it */

/* A non-blocking description of our own of what fd is; -1 where that is another file position or
 * not to be had: then writes go to fd itself. */
int rl_output_reopen(int fd);
