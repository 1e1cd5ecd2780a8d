/* Prediction with a saved model, in one process and without servers. */
#pragma once

#include "common/err.h"
#include "examples/ctr/options.h"

/* Prints, for each line of o->test or of the generated test lines, one line with a probability to
 * stdout, "nan" for one that cannot be used; prints the measures of lines with labels to stderr.
 * CO_NOTFOUND, CO_INVALID: o->load has no such model; CO_INVALID, too: no line can be used. */
CO_MUST_CHECK int ctr_predict(const struct ctr_options *o, struct co_err *err);
