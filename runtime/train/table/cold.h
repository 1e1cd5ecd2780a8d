/* A store whose rows need not all fit into memory: rows that were not used for long go to disk.
 *
 *     hot    in the store: has a slot
 *     cold   in a space of the disk, under the hash of its id: its age and its body (store.h)
 *
 * A row is either hot or cold.  A lookup of a cold row makes it hot.  Lookups go to the store
 * first; the ids that it lacks go to the disk in one call.  The disk's filters answer for most ids
 * that never had a row, without a read.  When the budget has no more memory for rows, those that
 * the store's clock finds idle go to disk, some hundreds at a time.
 *
 * How the budget is split:
 *
 *     13/16   rows, and everything else that tables use.  What the rest leaves is divided evenly
 *             among the shards; the stores of a shard take it on demand
 *      1/16   guaranteed shares: each store may use its part, so that none has no memory at all
 *      2/16   what cannot go to disk: the sums of a step, copies that wait to be saved
 *
 * Ages say which rows a delta checkpoint must contain.  At the instant of a checkpoint
 *
 *     CHANGED --> PENDING --> SAVED    (PENDING stays PENDING if the checkpoint before failed)
 *
 * Belongs to the store's thread. */
#pragma once

#include "runtime/train/table/rocks.h"
#include "runtime/train/table/store.h"

enum table_cold_age { TABLE_COLD_SAVED, TABLE_COLD_PENDING, TABLE_COLD_CHANGED };

enum { TABLE_COLD_GROUP = 256 };

/* Callbacks for rows that move; the snapshot uses them (ps/snapshot.h). */
struct table_cold_watch {
    /* The row is about to go to disk and leave its slot.  Returns its age. */
    enum table_cold_age (*leaves)(void *arg, uint32_t slot);
    /* The row came back, to this slot. */
    void (*comes)(void *arg, uint32_t slot, enum table_cold_age age);
    void *arg;
};

/* The stores of one shard, in memory. */
struct table_cold_shard {
    uint32_t shards; /* how many share the budget */
    size_t bytes;
};

struct table_cold {
    struct table_store *store;
    struct table_rocks *disk;
    struct table_budget *budget;
    struct table_cold_shard *shard;
    struct table_cold_watch watch; /* functions may be NULL */
    size_t share;                  /* bytes that the store may always use: its guaranteed share */
    size_t bytes;                  /* the store's memory, as counted in shard and budget */
    uint32_t space;
    uint64_t rows;  /* cold rows */
    size_t stride;  /* bytes of a cold row */
    uint32_t group; /* rows that are handled at a time */
    /* Each cold row has the value of `stamp` at its last change.  Stamps >= changed mean CHANGED,
     * others >= pending mean PENDING. */
    uint32_t stamp, changed, pending;
    /* [group] scratch */
    uint64_t *keys;
    uint32_t *at;
    bool *found, *moved;
    unsigned char *in, *out; /* [group][stride] rows that are being moved */
    struct table_rocks_row *writes;
    uint32_t *idle;
};

/* store: empty.  share: see above.  store, disk, budget and shard must outlive it. */
void table_cold_init(struct table_cold *c, struct table_store *store, struct table_rocks *disk,
    struct table_budget *budget, struct table_cold_shard *shard, size_t share);
void table_cold_done(struct table_cold *c);

/* Bytes of the cold rows, without the disk's overhead. */
uint64_t table_cold_bytes(const struct table_cold *c);

/* Finds n <= c->group rows, for reading.  ret_slots[i] is the row's slot.  If that is
 * TABLE_SLOT_NONE, memory has no room for the row and ret_bodies[i] is a copy of it, valid until
 * the next call; NULL: there is no row.  CO_INTERNAL: the disk cannot be read. */
CO_MUST_CHECK int table_cold_find(struct table_cold *c, const uint64_t *ids, size_t n,
    uint32_t *ret_slots, const void **ret_bodies, struct co_err *err);

/* Makes the cold rows of these ids hot, and makes room for new rows of the others.  Until the next
 * call the store alone answers for these ids.  ret_slots is complete if ids do not repeat.
 * CO_NORESOURCE: memory is short, or the disk is, so that rows cannot leave memory.  CO_INTERNAL:
 * the disk cannot be read.  After an error some rows are hot and others are not; none is lost. */
CO_MUST_CHECK int table_cold_bring(
    struct table_cold *c, const uint64_t *ids, size_t n, uint32_t *ret_slots, struct co_err *err);

/* Erases all cold rows. */
void table_cold_clear(struct table_cold *c);

/* ---- instants ---- */

/* The instant of a new checkpoint: all ages advance.  failed: the checkpoint before did not
 * succeed. */
void table_cold_instant(struct table_cold *c, bool failed);
/* Calls take for cold rows as they were at an instant: for the PENDING ones, or all.  Begins at
 * hash *from, looks at up to `looks` rows, and moves *from on.  *ret_more false: that was the last
 * row. */
CO_MUST_CHECK int table_cold_walk(struct table_cold *c, const struct table_rocks_instant *at,
    bool all, uint64_t *from, size_t looks, void (*take)(void *arg, uint64_t id, const void *body),
    void *arg, bool *ret_more, struct co_err *err);

/* ---- all rows ---- */

/* A part of a pass over all rows, hot and cold, in the order of their hashes: those whose first
 * TABLE_HASH_BITS bits (index.h) are in from .. end - 1.  A pass from 0 to TABLE_COLD_END meets
 * every row that exists all the while exactly once, even if rows move between memory and disk. */
#define TABLE_COLD_END (UINT64_C(1) << 35)
enum table_cold_change { TABLE_COLD_KEEP, TABLE_COLD_CHANGE, TABLE_COLD_ERASE };
struct table_cold_part {
    uint64_t end;
    size_t n_hot, n_cold;
    uint32_t *slots;       /* [n_hot] */
    uint64_t *ids;         /* [n_cold] */
    unsigned char *rows;   /* [n_cold], copies */
    unsigned char *change; /* [n_cold], KEEP at first; the caller sets them */
};
/* Begins a part at `from`.  It has about `most` rows of each kind at most, but all rows of at least
 * one hash.  CO_INTERNAL: as table_cold_find. */
CO_MUST_CHECK int table_cold_part(struct table_cold *c, uint64_t from, size_t most,
    struct table_cold_part *ret, struct co_err *err);
void table_cold_part_done(struct table_cold_part *p);
void *table_cold_part_body(const struct table_cold *c, const struct table_cold_part *p, size_t i);
/* Applies the verdicts to the cold rows.  CHANGE writes the copy back, with age CHANGED.  All of
 * them or, with CO_NORESOURCE, none. */
CO_MUST_CHECK int table_cold_settle(
    struct table_cold *c, const struct table_cold_part *p, struct co_err *err);
