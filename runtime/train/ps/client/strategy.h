/* How a trainer communicates, in the words of Paddle's fleet: a YAML file with the keys of
 * DistributedStrategy (PADDLE_PS_STRATEGY is its path), and the FLAGS_communicator_* variables.
 *
 *     a_sync: true                     false: sync; true: async, or geo when k_steps is above 0
 *     a_sync_configs: {k_steps: 100}
 *     staleness: 8                     ours: backup, staleness
 *
 * What the program says comes first, then the environment, then the file, then the defaults.  The
 * rows in strategy.c have all keys; docs/modes.md explains them.  It is read once, on the thread
 * that opens the client. */
#pragma once

#include "common/buf.h"
#include "runtime/rt.h"

enum { PSC_STRATEGY_BYTES_MAX = 1 << 16 };

/* What a strategy says.  A field of `options` that is 0: nothing. */
struct psc_strategy {
    struct rt_client_options options;
    struct co_buf unused; /* "lr_decay_steps, use_ps_gpu": keys without a meaning here */
};

/* Parses a file's text; name is for messages.  CO_INVALID names the line, the key and what was
 * expected; for an unknown key, the most similar known one.  Free with psc_strategy_done, also
 * after a failure. */
CO_MUST_CHECK int psc_strategy_parse(
    const char *name, const char *text, size_t len, struct psc_strategy *ret, struct co_err *err);
void psc_strategy_done(struct psc_strategy *s);

/* Fills the fields that are 0 from the environment and the strategy file.  Logs in one line which
 * keys of the file have no meaning here. */
CO_MUST_CHECK int psc_strategy_fill(struct rt_client_options *o, struct co_err *err);
