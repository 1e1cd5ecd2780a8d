/* What every program does around its training: at its start it makes sure that its result can be
 * written, and at its end that there was something to learn from. */
#pragma once

#include <stdint.h>

#include "runtime/rt.h"
#include "runtime/train/data/tally.h"

/* --local: removes from the environment what says who takes part in a job, so that rt_init finds
 * none.  What says how to train stays: where checkpoints go, TensorBoard's files, deadlines. */
void da_forget_job(void);

/* As rt_save_check; "" or NULL: nothing will be written. */
CO_MUST_CHECK int da_writable(const char *dir, struct co_err *err);

/* Call it after rt_barrier, before anything is saved.  own: how many samples this worker has
 * trained.  CO_INVALID: nobody has pushed anything to the table, so that no worker of the job had a
 * usable line; the message is da_tally_unusable's (t NULL: without lines). */
CO_MUST_CHECK int da_trained(struct rt_client *c, uint32_t table, uint64_t own, const char *path,
    const struct da_tally *t, struct co_err *err);
