/* How the ranks of a group that has failed agree on who is dead.
 *
 * They send each other words over the control connections (monitor.h), in rounds:
 *
 *     1. Each rank sends all others its vote: the set of ranks that it takes for dead.
 *     2. It adds the ranks in others' votes, and those whose connections end.  If its set grew, it
 *        votes again.
 *     3. Once the last votes of all ranks outside its set equal its own, it sends AGREED.  A rank
 *        that receives AGREED adopts that set even if it knows more by then: what one rank has
 *        agreed to, all survivors agree to.
 *
 * After it has received AGREED a rank votes no more in that round.  Otherwise another rank could
 * take such a vote, with what the voter knows more, for the end of the round, and both would
 * continue with different sets. */
#pragma once

#include "runtime/train/coll/coll.h"

/* Rounds of rt_group_shrink.  Those below are of rt_group_grow, one each: there a rank that does
 * not come along counts as dead, though it lives, which later rounds must not believe. */
enum { COLL_ROUND_SHRINK = 1 << 30 };

struct coll_ballot {
    uint32_t round;      /* the last one; coll_vote is of the next */
    unsigned char *dead; /* the dead ranks, as far as known: a bit a rank; bit `size`: form again */
    unsigned char *sent; /* this rank's last vote */
    uint32_t bytes;
    int64_t call_end_ms; /* a rank that has not answered the last vote by then counts as dead */
    int64_t end_ms;      /* the deadline of all rounds together */
};

static inline bool coll_vote_has(const unsigned char *bits, uint32_t i) {
    return bits[i / 8] >> (i % 8) & 1;
}

static inline void coll_vote_set(unsigned char *bits, uint32_t i, bool on) {
    bits[i / 8] = (unsigned char)((bits[i / 8] & ~(1U << (i % 8))) | (unsigned)on << (i % 8));
}

/* One round: until all survivors have the same set, which is in b->dead then.  CO_PEERLOST: the
 * others take this rank for dead.  CO_TIMEOUT: b->end_ms has passed.  In a round of rt_group_grow
 * also the code with which the group has failed, if that is neither CO_PEERLOST nor CO_TIMEOUT: no
 * rank has agreed then. */
CO_MUST_CHECK int coll_vote(struct rt_group *g, struct coll_ballot *b, struct co_err *err);
