/* "name=value,name=value": what optimizers, initializers, schedules and policies have behind their
 * kind. */
#pragma once

#include "common/err.h"

/* CO_INVALID: a name stands there twice; which of the two is meant, nobody knows. */
CO_MUST_CHECK int co_pairs_once(const char *list, struct co_err *err);
