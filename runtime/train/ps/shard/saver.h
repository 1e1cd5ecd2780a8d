/* Writes a server's part of a checkpoint: one thread that gets chunks from all shards.
 *
 *     shard 0 --add--+
 *     shard 1 --add--+--> queue --> thread --> dir/ckpt-N/part-<server>
 *                                     |
 *                    wake <-----------+    there is room again; the part is complete, or failed
 *
 * The first shard that calls shard_saver_begin begins the part.  The part is complete when all
 * shards have called shard_saver_end.  There is one part at a time: a shard that begins another one
 * ends the open part.  Trainers begin another checkpoint only after they have given up the last
 * one.
 *
 * The thread also does what would block a shard on a disk: it commits a checkpoint, looks for the
 * newest one, and reads the one that is to be restored.  It commits only what this server has
 * written since its tables were loaded last: a commit that was on its way while the job went back
 * to an older checkpoint must not make the abandoned one the newest.  And it does so only in
 * directories that no other job writes to: before the first checkpoint of one it takes the claim.
 *
 * Any thread may call these functions, except for shard_saver_new and shard_saver_free. */
#pragma once

#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ckpt/claim.h"
#include "runtime/train/ps/shard/save_chunk.h"
#include "runtime/train/rpc/control.pb-c.h"
#include "runtime/train/table/budget.h"

struct shard_saver;
struct ps_table;

struct shard_saver_config {
    uint32_t server, servers, shards;
    const char *job, *endpoint,
        *listens;                 /* of this server, for OWNER (claim.h); NULL: "".  Copied */
    struct ckpt_claim *claim_own; /* of a directory, that it has already; NULL: of none */
    const char *root; /* checkpoints must be at or below it; NULL, "": anywhere.  Copied */
    struct table_budget *budget; /* pays for queued chunks; NULL: no limit */
    size_t copies_max;           /* bytes that may be queued; 0: an eighth of the budget */
    bool quiet;                  /* does not log skipped checkpoints */
};

struct shard_saver *shard_saver_new(const struct shard_saver_config *config);
void shard_saver_free(struct shard_saver *sv); /* ends the thread; NULL allowed */

const char *shard_saver_root(const struct shard_saver *sv);

/* `wake` notifies a shard that a call may have a new result; it runs with the saver's lock held.
 * Set it before the shard's first shard_saver_begin. */
void shard_saver_listen(struct shard_saver *sv, uint32_t shard, void (*wake)(void *arg), void *arg);

/* The shard begins its share of that checkpoint.  `previous` is the last complete one, 0: none is
 * known.  The part that was finished before this one is removed if its checkpoint never became
 * complete.  The calls below take the ticket.  CO_PERMISSION: the directory is not below the root.
 * CO_CANCELED: a newer checkpoint was begun there.  CO_CONFLICT: one of another maker (snapshot.h)
 * has that number, or a higher one. */
CO_MUST_CHECK int shard_saver_begin(struct shard_saver *sv, const char *dir, uint64_t number,
    uint64_t previous, uint64_t maker, uint64_t *ret_ticket, struct co_err *err);
/* Whether the queue is short, so that a shard may add chunks that can also wait. */
bool shard_saver_has_room(struct shard_saver *sv);
/* The recent cost of writing a byte, in nanoseconds of the thread's processor time. */
double shard_saver_price(struct shard_saver *sv);
/* Queues a chunk; never blocks.  CO_NORESOURCE: the queue is too long, and the part has failed. */
CO_MUST_CHECK int shard_saver_add(struct shard_saver *sv, uint64_t ticket,
    struct shard_save_chunk *chunk_own, struct co_err *err);
/* The shard cannot read its data: the part fails. */
void shard_saver_fail(struct shard_saver *sv, uint64_t ticket, const struct co_err *err);
/* The shard has added all its chunks. */
void shard_saver_end(struct shard_saver *sv, uint64_t ticket);

/* 1: the part is complete and on disk; 0: not yet; else why it failed.  CO_CANCELED: another part
 * was begun. */
CO_MUST_CHECK int shard_saver_result(
    struct shard_saver *sv, uint64_t ticket, struct ckpt_part *ret, struct co_err *err);

/* The tables begin as in checkpoint `number` of dir; nothing that was begun before is this job's
 * future any more.  Ends the open part, unless it is of that checkpoint (CO_CANCELED), and refuses
 * its commit.  number 0: only that; the checkpoint is not chosen yet. */
void shard_saver_go_back(struct shard_saver *sv, const char *dir, uint64_t number);
/* Checkpoint `number` of dir is in the tables: what was completed up to there is this job's past,
 * which later commits may remove. */
void shard_saver_restored(struct shard_saver *sv, const char *dir, uint64_t number);

/* The tables [n] that a commit describes; they must outlive the saver.  Before shard_saver_submit.
 */
void shard_saver_describe(
    struct shard_saver *sv, const struct ps_table *tables, uint32_t n, bool sync);
/* Starts a commit, a find or the check before a restore.  Wakes all shards when it is done.  A
 * request that comes again on a new connection is not begun again: there is one result.  waits:
 * somebody waits for the result of the one before, so another one is refused while that lasts
 * (CO_CONFLICT).  Else it takes its place. */
CO_MUST_CHECK int shard_saver_submit(
    struct shard_saver *sv, Rpc__Control *request_own, bool waits, struct co_err *err);
/* Of the last request, 1: it is done; *ret is the result of a find.  0: not yet. */
CO_MUST_CHECK int shard_saver_answer(
    struct shard_saver *sv, Rpc__CkptFound *ret, struct co_err *err);

/* CO_PERMISSION: dir is neither root nor below it.  CO_INVALID: it is not absolute, or too long. */
CO_MUST_CHECK int shard_saver_check_dir(const char *root, const char *dir, struct co_err *err);
