/* Recognizes requests that a trainer sends again, by their numbers and by their positions in a step
 * (dedup.h).  Runs on the shard's thread. */
#include "runtime/train/ps/shard/dedup.h"

#include <string.h>

/* Requests that add to the sums of a step.  The others are idempotent, or their step number shows
 * whether they were done. */
static bool is_push(uint8_t kind) {
    switch (kind) {
    case RPC_FRAME_PUT_DENSE:
    case RPC_FRAME_RESTORE_DENSE:
    case RPC_FRAME_RESTORE_SPARSE:
    case RPC_FRAME_SET_RATE:
    case RPC_FRAME_SET_STEPS:
    case RPC_FRAME_SHRINK:
    case RPC_FRAME_STEP:
    case RPC_FRAME_KEEP:
        return false;
    default:
        return true;
    }
}

void shard_dedup_begin(struct shard_dedup *l, uint64_t incarnation, uint64_t step) {
    if (incarnation != l->incarnation) {
        struct shard_dedup was = *l;
        *l = (struct shard_dedup){.incarnation = incarnation, .step = step, .pushed = was.pushed};
        memcpy(l->free, was.free, sizeof(l->free));
    }
}

static bool was_refused(const struct shard_dedup *l, uint64_t number) {
    for (size_t i = 0; i < SHARD_DEDUP_REFUSED; i++) {
        if (l->refused[i] == number) {
            return true;
        }
    }
    return false;
}

/* Marks the position as free, or as taken.  Returns whether it was free. */
static bool set_free(struct shard_dedup *l, uint32_t position, bool is) {
    if (position >= SHARD_DEDUP_PLACES) {
        return false;
    }
    uint64_t *word = &l->free[position / 64], bit = UINT64_C(1) << (position % 64);
    bool was = *word & bit;
    *word = is ? *word | bit : *word & ~bit;
    return was;
}

static int judge_number(struct shard_dedup *l, const struct rpc_frame_head *h, struct co_err *err) {
    if (h->number == 0 || (l->last > 0 && h->number > l->last + 1)) {
        return co_err_set(err, CO_INVALID, "%s with number %llu, the last one was %llu",
            rpc_frame_kind_name(h->kind), (unsigned long long)h->number,
            (unsigned long long)l->last);
    }
    if (l->last > 0 && h->number <= l->last) {
        return was_refused(l, h->number) ? co_err_set(err, l->why.code, "%s", l->why.msg)
                                         : SHARD_DEDUP_RESULT_DONE;
    }
    l->last = h->number;
    return SHARD_DEDUP_RESULT_DO;
}

int shard_dedup_check(struct shard_dedup *l, const struct rpc_frame_head *h, bool sync,
    uint64_t done, struct co_err *err) {
    int rc = judge_number(l, h, err);
    l->placed = false;
    if (rc != SHARD_DEDUP_RESULT_DO || !sync || !is_push(h->kind)) {
        return rc;
    }
    if (l->step < done) {
        return SHARD_DEDUP_RESULT_DONE; /* the shard has completed this step with the former life */
    }
    uint32_t position = l->replayed++;
    l->placed = true;
    if (position < l->pushed) {
        return set_free(l, position, false) ? SHARD_DEDUP_RESULT_DO : SHARD_DEDUP_RESULT_DONE;
    }
    l->pushed++;
    return SHARD_DEDUP_RESULT_DO;
}

void shard_dedup_refused(
    struct shard_dedup *l, const struct rpc_frame_head *h, const struct co_err *why) {
    l->refused[l->n_refused++ % SHARD_DEDUP_REFUSED] = h->number;
    l->why = *why;
    if (l->placed) {
        (void)set_free(l, l->replayed - 1, true);
    }
}

void shard_dedup_stepped(struct shard_dedup *l) {
    l->pushed = 0;
    l->replayed = 0;
    memset(l->free, 0, sizeof(l->free));
}
