/* Which requests of one trainer a shard has done already, so that it does none twice.  A request
 * can come again for two reasons:
 *
 * 1. A connection broke.  The trainer sends what was not answered again, with the same numbers.
 * 2. Sync: the trainer was restarted.  The new process (a new incarnation, here "life") begins at a
 *    step that not all shards have completed, and makes the requests of that step again with new
 *    numbers.  The shard recognizes pushes to sync tables by their position in the step:
 *
 *     step S + 1 as the former life made it:   push push push        then it was killed
 *     new life:                                push push push | push STEP
 *                                              only answered    done
 *
 * Pure.  Belongs to the shard's thread. */
#pragma once

#include "common/err.h"
#include "runtime/train/rpc/frame.h"

enum {
    SHARD_DEDUP_REFUSED = 64,  /* refused requests of a trainer that a shard remembers */
    SHARD_DEDUP_PLACES = 1024, /* pushes of a step; a later one that is refused counts as done */
};

struct shard_dedup {
    uint64_t incarnation; /* 0: the trainer has not begun yet */
    uint64_t last;        /* number of the last new request of this life; 0: none */
    uint64_t step;        /* sync: the step after which this life makes its requests now */
    uint32_t pushed;      /* sync tables: pushes of all lives in the sums of the current step */
    uint32_t replayed;    /* sync tables: pushes that this life has sent in the current step */
    bool placed;          /* the request that was judged last has position replayed - 1 */
    uint64_t free[SHARD_DEDUP_PLACES / 64]; /* bit by position: its push was refused */
    uint64_t refused[SHARD_DEDUP_REFUSED];  /* numbers of the last refused requests; 0: none */
    uint32_t n_refused;                     /* how many there were */
    struct co_err why;                      /* why the last one was refused */
};

enum shard_dedup_result {
    SHARD_DEDUP_RESULT_DO,
    SHARD_DEDUP_RESULT_DONE, /* was done before: only answer it */
};

/* A connection begins.  Another incarnation than the last one is a new life. */
void shard_dedup_begin(struct shard_dedup *l, uint64_t incarnation, uint64_t step);
/* Decides about a request that changes something (rpc_frame_changes).  Returns an
 * shard_dedup_result. sync: if it is a push, recognizes it by its position, too.  done: steps that
 * the shard has completed. CO_INVALID: the number is out of order.  A request that was refused
 * before fails with the error of the last one that was.  A push that was refused is not in the
 * sums: the next life makes it again. */
CO_MUST_CHECK int shard_dedup_check(struct shard_dedup *l, const struct rpc_frame_head *h,
    bool sync, uint64_t done, struct co_err *err);
/* The last judged request failed with that error. */
void shard_dedup_refused(
    struct shard_dedup *l, const struct rpc_frame_head *h, const struct co_err *why);
/* The shard has completed a step. */
void shard_dedup_stepped(struct shard_dedup *l);
