/* The files that a worker reads. Owned by its reader. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "runtime/rt.h"

enum { RT_FILES_MAX = 1000000, RT_FILES_DESCRIPTION = 96 };

struct rt_files {
    char **paths; /* owned; only this worker's files */
    size_t n;
    bool by_line; /* every worker reads all files, but only its own lines */
    char description[RT_FILES_DESCRIPTION];
};

/* Arguments and errors as for rt_input_open. */
CO_MUST_CHECK int rt_files_find(
    const char *path, const struct rt_share *share, struct rt_files *ret_files, struct co_err *err);
void rt_files_done(struct rt_files *f);
