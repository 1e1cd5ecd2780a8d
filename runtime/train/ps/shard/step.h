/* The steps of sync mode on one shard: which trainers have sent STEP, when a step is applied, and
 * what happens to late trainers.  Belongs to the shard's thread.
 *
 * A step is applied once all trainers that still train have sent STEP for it, except for `backup`
 * of them.  With backup workers (backup > 0) a trainer's pushes are held back until its STEP:
 *
 *     trainer 0   push push STEP 7   \  two of three: the shard sums their pushes, applies the
 *     trainer 1   push STEP 7        /  mean of two, and answers both with 7
 *     trainer 2   push ...              held.  Its STEP 7 is late: the pushes are dropped and
 *                                       counted.  The answer is 7, or a later step if there were
 *                                       more
 *
 * Each shard does so by itself: a trainer that is late for one may be in time for another.  It
 * continues after the least of their answers.  So it says a step to all shards only when all have
 * applied the one before, no shard is more than a step ahead of another, and a shard that waits
 * gets the step it waits for from every trainer that is not lost.  If trainers continued after the
 * latest answer, those that are left could skip the step which another shard still needs. */
#pragma once

#include "runtime/train/ps/shard/dedup.h"
#include "runtime/train/ps/shard/tables.h"

struct shard_steps;

/* lives: of all trainers (dedup.h).  Both arguments must outlive the steps. */
struct shard_steps *shard_steps_new(struct shard_tables *tables, struct shard_dedup *lives);
void shard_steps_free(struct shard_steps *s); /* NULL allowed; drops held pushes */

/* How many steps have been applied; the last step for which a trainer has sent STEP.  Any thread.
 */
uint64_t shard_steps_done(const struct shard_steps *s);
uint64_t shard_steps_said(const struct shard_steps *s, uint32_t trainer);
/* Whether a restarted trainer repeats the requests of its current step, and the shard skips those
 * that the former process had made (dedup.h).  Not with backups: there the held pushes of the
 * former process are dropped. */
bool shard_steps_replay(const struct shard_steps *s);

/* Handles a STEP.  It is answered at once, or when its step is applied. */
void shard_steps_say(struct shard_steps *s, uint32_t trainer, const struct rpc_frame *f);
/* With backup workers, holds a push until its STEP.  1: held (the frame gained a reference); answer
 * it as if it were done.  0: not to be held, do it now.  CO_NORESOURCE: exceeds the budget. */
CO_MUST_CHECK int shard_steps_hold(
    struct shard_steps *s, uint32_t trainer, struct rpc_frame *f, struct co_err *err);
/* Whether the frame is a pull of a step's result (head.number is the step) that must wait: the
 * trainer has sent STEP, and the step is not applied yet. */
bool shard_steps_early(const struct shard_steps *s, uint32_t trainer, const struct rpc_frame *f);
/* A counter that grows whenever a trainer stops waiting for a step. */
uint64_t shard_steps_answered(const struct shard_steps *s);
/* The trainer makes no more steps: the others do not wait for it. */
void shard_steps_finished(struct shard_steps *s, uint32_t trainer);
/* The connection is gone: a STEP that came on it is not answered. */
void shard_steps_left(struct shard_steps *s, uint32_t trainer, const struct rpc_stream *stream);
/* The tables were restored to that step: drops held pushes, answers waiting trainers with `why`,
 * and lets trainers that had no more data train again. */
void shard_steps_go_back(struct shard_steps *s, uint64_t step, const struct co_err *why);
/* The trainer process was restarted: it may make steps again, also if the former one had no more.
 */
void shard_steps_restart(struct shard_steps *s, uint32_t trainer);

/* For trainers.  The least answer of shards to a STEP: `least` of those so far, UINT64_MAX before
 * the first one.  Then the step after which the trainer continues, if it was at `step` before (an
 * answer may be missing, or have an error for the step). */
static inline uint64_t shard_steps_least(uint64_t least, uint64_t answer) {
    return answer < least ? answer : least;
}

static inline uint64_t shard_steps_next(uint64_t step, uint64_t least) {
    return least != UINT64_MAX && least > step ? least : step + 1;
}

/* shard.c: answers a request (a_own NULL: without payload), or refuses it with an error. */
void shard_answer(struct rpc_stream *s, const struct rpc_frame_head *h, struct rpc_frame *a_own);
void shard_refuse(struct rpc_stream *s, const struct rpc_frame_head *h, const struct co_err *err);
