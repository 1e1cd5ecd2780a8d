/* The tables of the model on the parameter servers, the same list in every worker:
 *
 *     dense       the network's 430815 parameters as one vector
 *     embedding   rows of 10 floats by feature id, first values uniform in -1..1
 *     ended       one float: the share of workers that have no more data (sync mode only
 *                 reads it, see trainer.c) */
#pragma once

#include "common/err.h"
#include "examples/wide_and_deep/config.h"
#include "examples/wide_and_deep/options.h"
#include "runtime/rt.h"

enum { WD_TABLE_DENSE, WD_TABLE_EMBEDDING, WD_TABLE_ENDED, WD_TABLES };

struct wd_tables {
    struct rt_table_spec specs[WD_TABLES];
    char dense_optimizer[256], embedding_optimizer[256];
};

/* Without a word from the user: AdaGrad, slow for the dense parameters and ten times faster for
 * the rows, each of which is seen seldom.  Asynchronous workers compute with values that are up to
 * 16 steps old here; from about 0.02 on for the dense parameters that can end with every unit
 * silent.  With o->optimizer alone, it is for both.
 * specs point into *ret_t: do not copy it.  CO_INVALID for an optimizer that does not exist. */
CO_MUST_CHECK int wd_tables_init(const struct wd_options *o, const struct wd_config *c,
    struct wd_tables *ret_t, struct co_err *err);
