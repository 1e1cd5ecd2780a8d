/* A shard: the part of a server's tables that one thread owns.
 *
 *     data lanes    ---------------->  \
 *                                       shard's thread --> tables
 *     gRPC's thread --> queue ------>  /
 *
 * An answer goes back the way that its request came.  The shard's thread reads the data lanes
 * itself (lanes.h).  No other thread touches the tables, so they need no locks.  In sync mode
 * a shard sums the gradients of a step and applies their mean once enough trainers have sent STEP
 * (step.h).  Shards need not coordinate: a trainer sends all its frames for a shard over one
 * connection, so they arrive in order.  The windows of the streams bound the queue. */
#pragma once

#include "runtime/train/ps/spec.h"
#include "runtime/train/rpc/rpc.h"
#include "runtime/train/table/budget.h"

struct shard;
struct shard_saver;
struct table_rocks;
struct ckpt_chain;

struct shard_config {
    uint32_t index, shards;   /* this shard, and how many the server has */
    uint32_t server, servers; /* this server, and how many the job has */
    uint32_t trainers;
    enum rt_mode mode;             /* the job's; the default of tables */
    uint32_t backup;               /* sync: a step waits for all trainers but this many */
    enum rt_nonfinite nonfinite;   /* unset means refuse */
    const struct ps_table *tables; /* must outlive the shard */
    uint32_t n_tables;
    struct table_budget *budget; /* the server's; must outlive the shard */
    struct table_rocks *rocks;   /* likewise; stores rows that do not fit in memory; NULL: none */
    struct shard_saver *saver;   /* likewise; NULL: no checkpoints */
    /* The checkpoint to start from; in sync mode its step too.  The shard's thread reads it before
     * it serves requests.  Must outlive the shard.  NULL: tables start empty. */
    const struct ckpt_chain *restore;
    /* Called on the shard's thread when it has loaded a checkpoint (why->code is 0), or could not:
     * it then refuses requests on tables until it has loaded one.  NULL: not called. */
    void (*loaded)(void *arg, const struct co_err *why);
    void *arg;
};

/* CO_INVALID: the checkpoint `restore` has other tables.  CO_NORESOURCE: the dense tables exceed
 * the budget; the error names the table. */
CO_MUST_CHECK int shard_start(
    const struct shard_config *config, struct shard **ret, struct co_err *err);
/* Drops queued requests and joins the thread; NULL allowed. */
void shard_stop(struct shard *s);

/* The trainer has connected, by this stream.  Frames that are posted from now on, and those of the
 * stream's lanes, belong to this connection; lanes of an earlier one are shut.  `incarnation`
 * differs from the last one if the trainer process was restarted; it then continues after `step`.
 * Any thread. */
void shard_begin(struct shard *s, uint32_t trainer, struct rpc_stream *stream, uint64_t incarnation,
    uint64_t step);
/* Sets a table's learning rate, for all frames that come after this; not in geo mode. */
void shard_put_rate(struct shard *s, uint32_t table, double lr);
/* Loads all tables from checkpoint `number`, which was made at `step`.  Requests of a trainer are
 * refused with CO_GONE until shard_begin is called for it again.  dir must outlive the shard.
 * Any thread. */
void shard_restore(struct shard *s, const char *dir, uint64_t number, uint64_t step);
/* Whether a request has changed the tables since the start or the last restore.  Any thread. */
bool shard_dirty(const struct shard *s);
/* Sync: the number of completed steps.  Any thread. */
uint64_t shard_step(const struct shard *s);
/* Queues a frame that `trainer` sent.  Any thread. */
void shard_post(struct shard *s, uint32_t trainer, struct rpc_frame *f_own);
/* The trainer will send no more frames: steps no longer wait for it.  Any thread. */
void shard_finished(struct shard *s, uint32_t trainer);
/* The trainer's stream has closed: drops references to it and shuts its lanes.  A STEP that the
 * trainer has sent still counts.  Any thread. */
void shard_left(struct shard *s, uint32_t trainer, struct rpc_stream *stream);
/* Adds a lane of that stream; after shard_begin.  When the lane breaks, the stream is broken as
 * well: a trainer is lost in one way only.  Any thread. */
void shard_lane(
    struct shard *s, uint32_t trainer, struct rpc_stream *stream, struct rpc_lane *lane_own);
/* Sync: the last step for which the trainer has sent STEP.  Any thread. */
uint64_t shard_said(const struct shard *s, uint32_t trainer);
