/* The event loop of a shard's thread: it waits for data lanes (plain sockets that carry frames)
 * and for shard_lanes_wake.
 *
 * A frame is handled as soon as it is read.  Its answer is queued; all answers of a turn are sent
 * together.  A lane queues at most SHARD_LANE_UNSENT bytes of answers plus one answer: while a peer
 * does not read its answers, its lane is not read either.  Lanes are served round robin; each may
 * use a millisecond a turn, for the frames of one read.
 *
 * Only the shard's thread may call these functions, except shard_lanes_wake. */
#pragma once

#include "runtime/train/rpc/rpc.h"

enum {
    SHARD_LANE_UNSENT = 2 << 20,
    SHARD_LANES_EACH = 4, /* lanes of one trainer to one shard */
};

struct shard_lanes;

struct shard_lanes_ops {
    void (*frame)(void *arg, uint32_t trainer, struct rpc_frame *f_own);
    /* Whether the frame must wait: it and all behind it are kept until shard_lanes_again. */
    bool (*early)(void *arg, uint32_t trainer, const struct rpc_frame *f);
};

/* shard: this shard's index.  A lane that brings a frame for another shard is shut. */
CO_MUST_CHECK int shard_lanes_new(uint32_t shard, const struct shard_lanes_ops *ops, void *arg,
    struct shard_lanes **ret, struct co_err *err);
void shard_lanes_free(struct shard_lanes *all); /* shuts all lanes; NULL allowed */

/* Adds a lane of that stream, which is broken when the lane breaks or its peer sends an invalid
 * frame.  A lane beyond SHARD_LANES_EACH gets an error frame and is shut. */
void shard_lanes_add(struct shard_lanes *all, uint32_t trainer, struct rpc_stream *stream,
    struct rpc_lane *lane_own);
/* Shuts the trainer's lanes of any other stream: they belong to an earlier connection. */
void shard_lanes_keep(struct shard_lanes *all, uint32_t trainer, const struct rpc_stream *stream);
/* Shuts the lanes of that stream. */
void shard_lanes_drop(struct shard_lanes *all, const struct rpc_stream *stream);

/* Waits for an event, but at most wait_ns (-1: no limit), and not at all if frames are left from
 * the last turn.  Then serves every ready lane once.  Returns whether there was anything to serve.
 */
bool shard_lanes_turn(struct shard_lanes *all, int64_t wait_ns);
/* Sends the queued answers.  To be called after each turn. */
void shard_lanes_flush(struct shard_lanes *all);
/* Tries the frames again for which ops->early returned true. */
void shard_lanes_again(struct shard_lanes *all);
/* Ends the wait; any thread. */
void shard_lanes_wake(struct shard_lanes *all);
