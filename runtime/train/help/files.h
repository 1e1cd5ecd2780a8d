/* The files that a worker reads. Owned by its reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "runtime/rt.h"

enum { HELP_FILES_MAX = 1000000, HELP_FILES_DESCRIPTION = 96 };

struct help_files {
    char **paths; /* owned; only this worker's files */
    size_t n;
    bool fetched; /* set before: a path with ":/" in it is the name of what a command fetches */
    bool by_line; /* every worker reads all files, but only its own lines */
    char description[HELP_FILES_DESCRIPTION];
};

/* Of n paths.  Arguments and errors as for rt_input_open. */
CO_MUST_CHECK int help_files_find(const char *const *paths, size_t n, const struct rt_share *share,
    struct help_files *files, struct co_err *err);
void help_files_done(struct help_files *f);
