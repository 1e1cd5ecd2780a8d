/* Samples in the order in which they become batches: those of one chunk, or a run of `shuffle` of
 * them in an order that follows from seed, pass and run.
 *
 *     chunks  [ ...skip... | taken of this run, in its order ...... | next run ]
 */
#pragma once

#include "runtime/train/data/feed.h"

struct da_run_options {
    uint32_t shuffle; /* 0, 1: chunks in their order */
    uint64_t seed;
    uint64_t bad_max; /* so many lines of a pass that cannot be used are an error; 0: none */
    const char *name; /* borrowed, for messages */
};

struct da_pick {
    uint32_t chunk, sample;
};

struct da_run {
    struct da_run_options options;
    struct da_chunk **chunks; /* [n_chunks] owned until they are given back */
    size_t n_chunks, room;
    size_t skip;           /* samples of the first chunk that earlier runs had */
    struct da_pick *order; /* [n] */
    size_t n, n_room, taken;
    bool made;
    uint64_t number;          /* of the run in its pass */
    struct rt_position begin; /* of the first chunk */
    uint64_t bad;             /* lines of this pass before it */
    uint64_t bad_earlier;     /* lines of this pass before the position that it began at */
    struct da_tally tally;    /* of this pass, of chunks that were taken since */
};

void da_run_done(struct da_run *r, struct da_feed *f);
/* Begins there: `skip` samples are not of this run, and `taken` of its are gone. */
void da_run_begin(struct da_run *r, struct da_feed *f, const struct rt_data_position *at);
/* Lines of this pass that cannot be used, so far. */
uint64_t da_run_bad(const struct da_run *r);
/* Another pass has begun, without such lines yet. */
void da_run_forget_bad(struct da_run *r);
/* Has a sample ready.  *ret_ends: the pass has none.  Errors are the feed's, and of chunks, and
 * CO_INVALID at bad_max, and where the position that it began at has gone over more than there is.
 */
CO_MUST_CHECK int da_run_ready(
    struct da_run *r, struct da_feed *f, int64_t end_ms, bool *ret_ends, struct co_err *err);
/* After da_run_ready: moves the next sample behind those of `to`. */
void da_run_take(struct da_run *r, struct da_feed *f, struct da_samples *to);
