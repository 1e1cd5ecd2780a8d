/* What a reader of samples needs of the reader of lines beyond runtime/rt.h. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "runtime/rt.h"

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

/* rt_input_open of n paths, one after the other. */
CO_MUST_CHECK int help_input_open(const char *const *paths, size_t n, const struct rt_share *share,
    struct rt_input **ret_input, struct co_err *err);
/* This worker's files, or, where lines are shared, all; borrowed. */
size_t help_input_files(const struct rt_input *l);
const char *help_input_path(const struct rt_input *l, size_t file);
/* Whether each worker reads all files, and its share of their lines. */
bool help_input_by_line(const struct rt_input *l);
/* Of the last line: its file, and the number of its first line there, from 1. */
size_t help_input_file(const struct rt_input *l);
uint64_t help_input_line(const struct rt_input *l);
