/* Checkpoint requests (RPC_FRAME_CHECKPOINT) of a shard:
 *
 *     order     write this shard's part of a new checkpoint
 *     find      look for a checkpoint; the server's saver does that
 *     commit    complete a checkpoint; likewise
 *     restore   load the tables from a checkpoint, in rounds (control.proto)
 *
 * An order is answered when the server's whole part is on disk.  Until then the shard continues
 * with other requests and writes a slice of its snapshot now and then.  While there are requests, a
 * snapshot may use a thirty-second of the processor time that they use.  That counts the slices and
 * what the saver's thread spends on the written data.
 *
 * Belongs to the shard's thread. */
#pragma once

#include "runtime/train/ps/shard/snapshot.h"
#include "runtime/train/rpc/rpc.h"

struct shard_save {
    struct shard_tables *tables;
    struct shard_saver *saver; /* NULL: this server writes no checkpoints */
    struct shard_snapshot snapshot;
    /* Why requests on tables are refused, and orders of checkpoints: the tables could not be
     * loaded, or other shards have not loaded theirs yet.  Code 0: they are not. */
    struct co_err closed;
    uint64_t loads;  /* the checkpoint for which it is closed until the last round; 0: none */
    uint64_t opened; /* the one that had its last round; 0: none */
    /* The request that waits for its answer; there is at most one. */
    struct rpc_stream *stream; /* counted; NULL: none */
    uint32_t trainer;
    struct rpc_frame_head head;
    uint64_t ticket;            /* order: the saver's ticket for the part; 0: a find or a commit */
    int64_t busy_ns;            /* when the last request was handled */
    int64_t end_ns, end_cpu_ns; /* end of the last slice: wall clock, this thread's CPU time */
    int64_t cost_ns;            /* of that slice, and of what was written since the slice before */
    uint64_t bytes;             /* of the snapshot that cost_ns has counted so far */
};

/* The saver calls `wake`, from its own thread, when it has a result for the shard. */
void shard_save_init(struct shard_save *v, struct shard_tables *tables, struct shard_saver *saver,
    void (*wake)(void *arg), void *arg);
void shard_save_done(struct shard_save *v);

/* Handles a request.  step: the completed steps of this shard, in sync mode. */
void shard_save_do(
    struct shard_save *v, uint32_t trainer, uint64_t step, const struct rpc_frame *f);
/* The trainer's stream is closed: its request is not answered any more. */
void shard_save_left(struct shard_save *v, uint32_t trainer);
/* Writes a slice and sends an answer, when due.  busy: requests were handled just now.  Returns the
 * nanoseconds until the next call; -1: call after the next wake or request. */
int64_t shard_save_run(struct shard_save *v, bool busy);
