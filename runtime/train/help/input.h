/* What a reader of samples needs of the reader of lines beyond runtime/rt.h. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "runtime/rt.h"

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

struct help_input_options {
    const char *const *paths; /* [n_paths], one after the other */
    size_t n_paths;
    const struct rt_share *share; /* NULL: all */
    const char *command;          /* of a shell, for each file (common/filter.h); NULL: none */
    int stop;                     /* as co_source_options have it; -1: none */
};
/* As rt_input_open.  With a command, paths that have ":/" in them are what it fetches. */
CO_MUST_CHECK int help_input_open(
    const struct help_input_options *o, struct rt_input **ret_input, struct co_err *err);
/* This worker's files, or, where lines are shared, all; borrowed. */
size_t help_input_files(const struct rt_input *l);
const char *help_input_path(const struct rt_input *l, size_t file);
/* Whether each worker reads all files, and its share of their lines. */
bool help_input_by_line(const struct rt_input *l);
/* Of the last line: its file, and the number of its first line there, from 1. */
size_t help_input_file(const struct rt_input *l);
uint64_t help_input_line(const struct rt_input *l);
