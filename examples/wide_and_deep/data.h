/* Which data the options ask for: files, or generated lines where none are named; and generated
 * lines as files. */
#pragma once

#include "common/err.h"
#include "examples/wide_and_deep/options.h"
#include "examples/wide_and_deep/reader.h"

/* The training data of one worker, and all of the test data; the caller owns the reader.  A
 * directory with folders train and test, as wd_data_generate makes it, stands for them, and
 * o->train then for both.  Otherwise, with o->train given and o->test not, there is no test data:
 * *ret_r is NULL. */
CO_MUST_CHECK int wd_data_open_train(const struct wd_options *o, struct wd_share share,
    struct wd_reader **ret_r, struct co_err *err);
CO_MUST_CHECK int wd_data_open_test(
    const struct wd_options *o, struct wd_reader **ret_r, struct co_err *err);

/* Writes o->lines lines to o->files files below o->generate/train and o->test_lines to one below
 * o->generate/test: the lines that the same options would train on without files. */
CO_MUST_CHECK int wd_data_generate(const struct wd_options *o, struct co_err *err);
