/* Opens the data that the options ask for: files, or generated lines if no file is named.  Also
 * writes generated lines to files. */
#pragma once

#include "common/err.h"
#include "examples/ctr/options.h"
#include "examples/ctr/reader.h"

/* What there is to read for o->test or o->train, for messages. */
const char *ctr_data_test_path(const struct ctr_options *o);
const char *ctr_data_train_path(const struct ctr_options *o);

/* Makes sure, before training, that the test data has a usable line.  A pipe, whose lines can be
 * read once, is believed. */
CO_MUST_CHECK int ctr_data_probe_test(
    const struct ctr_options *o, struct ctr_reader *r, struct co_err *err);

/* Open the training data of one worker, or all of the test data; the caller owns the reader.
 * o->train may be a directory with the folders train and test, like ctr_data_generate makes; then
 * it names both.  Otherwise, if o->train is given and o->test is not, there is no test data, and
 * *ret_r is NULL. */
CO_MUST_CHECK int ctr_data_open_train(const struct ctr_options *o, struct ctr_share share,
    struct ctr_reader **ret_r, struct co_err *err);
CO_MUST_CHECK int ctr_data_open_test(
    const struct ctr_options *o, struct ctr_reader **ret_r, struct co_err *err);

/* Writes o->lines lines to o->files files below o->generate/train, and o->test_lines lines to one
 * file below o->generate/test.  The same options without files would train on the same lines. */
CO_MUST_CHECK int ctr_data_generate(const struct ctr_options *o, struct co_err *err);
