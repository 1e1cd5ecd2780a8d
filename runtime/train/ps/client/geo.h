/* Geo mode: each trainer trains its own copy of a table, with the table's rule and optimizer state
 * of its own.  Every k_steps steps it begins a round: it sends the servers its share of what it has
 * changed, and takes their values.  `local` is the copy; `base` is what the servers know of it:
 *
 *     round:   delta = (local - base) / trainers;  base += delta;  delta is sent, servers add it
 *     answer:  local += server - base;  base = server
 *
 * The formulas are Paddle's.  A round sends only a part of each change; the rest stays in the copy
 * and goes with later rounds.  So in time a change arrives as a whole, except for the last rounds.
 * Both formulas are linear, so training may continue between them, and answers may cross.
 *
 * Copies stay finite, since local += server - base would make NaN of infinity for ever: a gradient
 * that makes a row overflow is one with Inf (PADDLE_PS_NONFINITE), and the differences are bounded.
 *
 * Dense tables are exchanged as a whole; of sparse tables only the changed rows.  Rows that are
 * only read are pulled once more in each round.  Rounds travel while the next steps are computed.
 *
 * Any thread may call. */
#pragma once

#include "runtime/train/ps/client/client_internal.h"

struct psc_geo;

/* NULL: no table of the client is in geo mode. */
struct psc_geo *psc_geo_open(struct rt_client *c);
void psc_geo_close(struct psc_geo *g); /* after the client has failed; NULL allowed */
/* The servers' tables are those of another time (a checkpoint): drops all copies with what has not
 * been sent of them.  They begin again with the servers' values.  NULL allowed. */
void psc_geo_forget(struct psc_geo *g);

/* Counts a step, and begins a round if one is due.  g NULL, here and in the next two: nothing. */
CO_MUST_CHECK int psc_geo_step(struct psc_geo *g, struct co_err *err);
/* Makes a round, if something has changed since the last one, and waits for its end. */
CO_MUST_CHECK int psc_geo_flush(struct psc_geo *g, struct co_err *err);
/* The same for the last round: later reads return the servers' values. */
CO_MUST_CHECK int psc_geo_end(struct psc_geo *g, struct co_err *err);

/* Like the calls of rt.h. */
CO_MUST_CHECK int psc_geo_pull_dense(
    struct psc_geo *g, uint32_t table, float *ret_w, struct co_err *err);
/* ret_w NULL: the values are not wanted. */
CO_MUST_CHECK int psc_geo_push_dense(
    struct psc_geo *g, uint32_t table, const float *gradient, float *ret_w, struct co_err *err);
CO_MUST_CHECK int psc_geo_pull_start(struct psc_geo *g, uint32_t table, const uint64_t *ids,
    size_t n, float *ret_rows, struct rt_call **ret_call, struct co_err *err);
CO_MUST_CHECK int psc_geo_pull_wait(struct rt_call *call, struct co_err *err);
CO_MUST_CHECK int psc_geo_push_sparse(struct psc_geo *g, uint32_t table, const uint64_t *ids,
    size_t n, const float *gradients, struct co_err *err);
