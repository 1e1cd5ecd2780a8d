/* A snapshot: a shard's tables as they were at one instant, written while the shard continues.
 *
 *     slots of a table:   0 ........ cursor ........ limit ........
 *                         written    due, unless     created since:
 *                                    `changed`       not part of it
 *
 * The shard's thread writes a slice of what is due whenever it has time (shard_snapshot_slice).  It
 * writes a row that is due before it changes it (shard_snapshot_change).  So every row is written
 * as it was at the instant.  Dense tables have blocks instead of rows.
 *
 * From the first snapshot on, two bits a slot show which rows have changed:
 *
 *     changed   since the instant of the newest snapshot.  The cursor skips these rows: if they
 *               were due, they were written before the change.
 *     pending   between the snapshot before and the newest one: what a delta contains.  The next
 *               order says whether the newest snapshot was completed.  If it was not, these rows
 *               still have to be saved, and join `changed`.
 *
 * Cold rows, those on disk (table/cold.h), come after all slots of their table.  They are read from
 * a view of the disk that was taken at the instant.  A row that goes to disk is written first if it
 * is due.  A row that came back from disk is in that view.  The cursor may meet it in its slot as
 * well; both copies are equal.
 *
 * A save mode may omit rows.  If a delta omits a row, the row is not pending any more: only a push
 * can make a mode include it, and a push marks it as changed.
 *
 * Belongs to the shard's thread. */
#pragma once

#include "runtime/train/ps/shard/bits.h"
#include "runtime/train/ps/shard/erased.h"
#include "runtime/train/ps/shard/kept.h"
#include "runtime/train/ps/shard/saver.h"
#include "runtime/train/ps/shard/tables.h"

/* What the snapshot knows of one table. */
struct shard_track {
    struct shard_bits changed, pending;
    struct shard_erased erased, erased_pending;
    size_t limit;                  /* number of slots, or blocks, at the instant */
    uint32_t now;                  /* the policy's clock at the instant: rows have ages of then */
    struct shard_save_chunk *open; /* the chunk that is being filled; NULL: none */
    size_t row_bytes;              /* of a row in a chunk */
};

struct shard_snapshot {
    struct shard_tables *tables;
    struct shard_saver *saver;
    struct shard_track *tracks; /* [n_tables] */
    struct shard_kept (
        *kept)[SHARD_KEPT_N];        /* [trainers]; NULL: this shard keeps no data of trainers */
    bool tracking;                   /* a snapshot was taken: changes are recorded */
    bool full;                       /* the newest snapshot contains all rows */
    uint64_t ticket;                 /* the saver's, of the running snapshot; 0: none */
    char *dir;                       /* owned; directory of the newest snapshot and these: */
    uint64_t last, before;           /* its number; what `pending` is relative to; 0: unknown */
    uint64_t newest;                 /* its ticket */
    uint64_t previous, maker;        /* order->previous and maker of it */
    enum rt_save_mode ordered, mode; /* the mode of its order; the mode that is used */
    /* The cursor: all that comes before it is written. */
    uint32_t table;
    size_t slot;
    uint64_t value; /* dense: index in the block `slot` */
    uint64_t key;   /* sparse, after all slots: where the walk over cold rows continues */
    struct table_rocks_instant *cold; /* the view of the disk */
    uint64_t bytes;                   /* of rows and values, written by all snapshots so far */
    struct shard_erased_room erased_room;
};

struct shard_snapshot_order {
    const char *dir;
    uint64_t number, previous; /* previous: the last completed checkpoint; 0: none */
    bool full;
    enum rt_save_mode mode;
    uint64_t maker; /* incarnation of the trainer that gives the order */
};

void shard_snapshot_init(
    struct shard_snapshot *s, struct shard_tables *tables, struct shard_saver *saver);
void shard_snapshot_done(struct shard_snapshot *s);

/* Takes a snapshot: the instant is now.  Gives up the running snapshot.  A repetition of the newest
 * order only returns its ticket.  After an error nothing is begun.  CO_CONFLICT: a delta is not
 * possible, since the changes since `previous` are not known; or the number was used.  CO_INVALID:
 * the mode changes counts of rows that may be cold. */
CO_MUST_CHECK int shard_snapshot_begin(struct shard_snapshot *s,
    const struct shard_snapshot_order *order, uint64_t *ret_ticket, struct co_err *err);
/* Writes up to some hundred KiB.  False: nothing is left, or the saver has no room.
 * shard_saver_result returns whether the part succeeded. */
bool shard_snapshot_slice(struct shard_snapshot *s);
/* All tables are being replaced: gives up the snapshot, and no delta is possible next. */
void shard_snapshot_forget(struct shard_snapshot *s);

/* ---- before a change ---- */

void shard_snapshot_touch(struct shard_snapshot *s, uint32_t table, size_t slot);

/* Row `slot` of a sparse table, or block `slot` of a dense one, will change. */
static inline void shard_snapshot_change(struct shard_snapshot *s, uint32_t table, size_t slot) {
    if (s && s->tracking && !shard_bits_has(&s->tracks[table].changed, slot)) {
        shard_snapshot_touch(s, table, slot);
    }
}
/* Prefetches what shard_snapshot_change of that slot needs.  A loop over slots calls it some ten
 * slots ahead.  TABLE_SLOT_NONE: does nothing. */
__attribute__((always_inline)) static inline void shard_snapshot_fetch(
    const struct shard_snapshot *s, uint32_t table, uint32_t slot) {
    if (s && s->tracking) {
        shard_bits_fetch(&s->tracks[table].changed, slot);
        shard_bits_fetch(&s->tracks[table].pending, slot);
    }
}
/* A row was created in that slot. */
void shard_snapshot_made(struct shard_snapshot *s, uint32_t table, size_t slot);
/* The row will be erased. */
void shard_snapshot_erase(struct shard_snapshot *s, uint32_t table, size_t slot, uint64_t id);
/* A cold row was erased, which has no slot. */
void shard_snapshot_gone(struct shard_snapshot *s, uint32_t table, uint64_t id);
/* The row leaves its slot for the disk; it has come back to that slot.  See table_cold_watch. */
enum table_cold_age shard_snapshot_leaves(struct shard_snapshot *s, uint32_t table, size_t slot);
void shard_snapshot_comes(
    struct shard_snapshot *s, uint32_t table, size_t slot, enum table_cold_age age);
