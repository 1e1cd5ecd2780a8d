/* A command of a shell whose output is read in place of a file: one that unpacks, or fetches.
 *
 * The file is its standard input; a name that is no file, as "s3://...", is only its $1, which it
 * always is.  It has a process group, all signals as they are by default, and ends with its reader.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct co_filter {
    pid_t pid; /* 0: none */
    int pidfd;
    int out; /* its output; not inherited */
};
#define CO_FILTER_NONE ((struct co_filter){.pidfd = -1, .out = -1})

/* Errors name the file, or say why no process starts. */
CO_MUST_CHECK int co_filter_start(
    const char *command, const char *path, struct co_filter *ret_filter, struct co_err *err);
/* After the end of its output: waits until it has ended, for FILTER_MS (filter.c).  CO_UNAVAILABLE:
 * not with 0; CO_CANCELED: stop is readable (-1: none). */
CO_MUST_CHECK int co_filter_end(
    struct co_filter *f, const char *command, const char *path, int stop, struct co_err *err);
/* Kills what still runs, and closes. */
void co_filter_done(struct co_filter *f);
