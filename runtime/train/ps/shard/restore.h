/* Loads a shard's tables from a chain of checkpoints.  Each shard reads the files itself and keeps
 * the rows and values that it owns.  The checkpoint may be of another number of servers and shards;
 * if the numbers are the same, a shard first reads only its own chunks.
 *
 * Sparse tables are read from the newest checkpoint of the chain back to the full one.  So the
 * first copy of a row that is met counts, and a row whose id was erased later is skipped.  If there
 * are more such ids than a 64th of the server's memory holds, the rows are read in several passes,
 * each for a part of the ids.  Dense tables are read in the order in which they were written, and
 * later values replace earlier ones.
 *
 * Runs on the shard's thread, where nothing else is said. */
#pragma once

#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/shard/tables.h"

/* Checks that the checkpoint has these tables with their shapes.  CO_INVALID: which one differs,
 * and how.  Any thread. */
CO_MUST_CHECK int shard_restore_fits(
    const struct ps_table *tables, uint32_t n, const struct ckpt_chain *chain, struct co_err *err);
/* Reads what the shards of that server would load, as ckpt_chain_verify.  A part that only other
 * servers load is opened and no more; they read it.  Any thread. */
CO_MUST_CHECK int shard_restore_verify(const struct ckpt_chain *chain, uint32_t server,
    uint32_t servers, uint32_t shards, struct co_err *err);
void shard_tables_clear(struct shard_tables *t);
/* Replaces what is in the tables.  CO_INVALID: they do not fit, and are unchanged.  After any other
 * error they are empty: CO_CANCELED: t->stop was set; CO_DAMAGED names a file; CO_NORESOURCE names
 * a table that does not fit in memory; others: a file could not be read. */
CO_MUST_CHECK int shard_tables_restore(
    struct shard_tables *t, const struct ckpt_chain *chain, struct co_err *err);
