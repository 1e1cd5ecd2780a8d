/* A shard: the part of all tables of a server that one thread owns.
 *
 * Frames come in through a queue and are answered on the stream they came from; nothing in the
 * tables is ever touched by another thread, so there are no locks around them.  In sync mode a
 * shard gathers the gradients of a step and applies their mean when every trainer that has not
 * finished has said STEP; shards need not know of each other, as a trainer's frames to a shard
 * keep their order.  The queue is bounded by the windows of the streams. */
#pragma once

#include "runtime/train/ps/budget.h"
#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/rpc.h"

struct rt_shard;

struct rt_shard_config {
    uint32_t index, shards;   /* this one, of the server's */
    uint32_t server, servers; /* the server, of the job's */
    uint32_t trainers;
    enum rt_mode mode;
    enum rt_nonfinite nonfinite;   /* unset: refuse */
    const struct rt_table *tables; /* must outlive the shard */
    uint32_t n_tables;
    struct rt_budget *budget; /* of the server; must outlive the shard */
};

/* CO_NORESOURCE, naming the table, when the dense parts exceed the budget. */
CO_MUST_CHECK int rt_shard_start(
    const struct rt_shard_config *config, struct rt_shard **ret, struct co_err *err);
/* Drops what is queued and joins the thread; NULL allowed. */
void rt_shard_stop(struct rt_shard *s);

/* Takes a frame that `trainer` sent; any thread. */
void rt_shard_post(struct rt_shard *s, uint32_t trainer, struct rt_frame *f_own);
/* No more frames come from the trainer, and steps do not wait for it.  Any thread. */
void rt_shard_finished(struct rt_shard *s, uint32_t trainer);
/* The trainer's stream is closed: whatever is held of it is let go.  Any thread. */
void rt_shard_left(struct rt_shard *s, uint32_t trainer);
