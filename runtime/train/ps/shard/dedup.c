/* Recognizes requests that a trainer sends again, by their numbers and by their positions in a step
 * (dedup.h).  Runs on the shard's thread. */
#include "runtime/train/ps/shard/dedup.h"

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
        *l = (struct shard_dedup){.incarnation = incarnation, .step = step, .pushed = l->pushed};
    }
}

static int judge_number(struct shard_dedup *l, const struct rpc_frame_head *h, struct co_err *err) {
    if (h->number == 0 || (l->last > 0 && h->number > l->last + 1)) {
        return co_err_set(err, CO_INVALID, "%s with number %llu, the last one was %llu",
            rpc_frame_kind_name(h->kind), (unsigned long long)h->number,
            (unsigned long long)l->last);
    }
    if (l->last > 0 && h->number <= l->last) {
        return h->number == l->refused ? co_err_set(err, l->why.code, "%s", l->why.msg)
                                       : SHARD_DEDUP_RESULT_DONE;
    }
    l->last = h->number;
    return SHARD_DEDUP_RESULT_DO;
}

int shard_dedup_check(struct shard_dedup *l, const struct rpc_frame_head *h, bool sync,
    uint64_t done, struct co_err *err) {
    int rc = judge_number(l, h, err);
    if (rc != SHARD_DEDUP_RESULT_DO || !sync || !is_push(h->kind)) {
        return rc;
    }
    if (l->step < done) {
        return SHARD_DEDUP_RESULT_DONE; /* the shard has completed this step with the former life */
    }
    if (l->replayed++ < l->pushed) {
        return SHARD_DEDUP_RESULT_DONE;
    }
    l->pushed++;
    return SHARD_DEDUP_RESULT_DO;
}

void shard_dedup_refused(
    struct shard_dedup *l, const struct rpc_frame_head *h, const struct co_err *why) {
    l->refused = h->number;
    l->why = *why;
}

void shard_dedup_stepped(struct shard_dedup *l) {
    l->pushed = 0;
    l->replayed = 0;
}
