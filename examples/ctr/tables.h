/* The tables of the model on the parameter servers, the same list in every worker:
 *
 *     dense       the network's parameters as one vector
 *     embedding   rows by feature id */
#pragma once

#include "common/err.h"
#include "examples/ctr/config.h"
#include "examples/ctr/options.h"
#include "runtime/rt.h"

enum { CTR_TABLE_DENSE, CTR_TABLE_EMBEDDING, CTR_TABLES };

struct ctr_tables {
    struct rt_table_spec specs[CTR_TABLES];
    char dense_optimizer[256], embedding_optimizer[256];
};

/* Chooses the optimizers.  The default is AdaGrad, with a rate ten times higher for rows than for
 * dense parameters, as each row is trained rarely.  Asynchronous workers compute with values that
 * are up to 16 steps old here; with a dense rate of 0.02 or more all units can die.  If only
 * o->optimizer is given, it is used for both.
 * The specs point into *ret_t: do not copy it.  CO_INVALID: there is no such optimizer. */
CO_MUST_CHECK int ctr_tables_init(
    const struct ctr_options *o, struct ctr_tables *ret_t, struct co_err *err);
