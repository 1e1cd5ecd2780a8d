/* Prediction with a saved model, in one process and without servers. */
#pragma once

#include "common/err.h"
#include "examples/wide_and_deep/options.h"

/* One probability a line on stdout for each sample of o->test (or of generated test lines), the
 * measures on stderr.  CO_NOTFOUND, CO_INVALID: o->load holds no such model. */
CO_MUST_CHECK int wd_predict(const struct wd_options *o, struct co_err *err);
