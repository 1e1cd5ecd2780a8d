/* A shard's snapshot: the cursor, the rows that are written before they change, and the records of
 * changes for deltas.  snapshot.h explains them.  Runs on the shard's thread. */
#include <string.h>

#include "common/contract.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/snapshot_internal.h"

enum {
    SLICE = 128 << 10,      /* bytes that a slice writes */
    LOOKS = 4096,           /* slots that a slice visits */
    ROWS = 32,              /* rows that are found before they are written, see step_rows */
    COLD_BYTES = 64 << 10,  /* of cold rows that are visited at a time */
    DENSE_VALUES = 4 << 10, /* values of a chunk, each with its state */
};

/* ---- the tables ---- */

/* The first slot from `from` on that holds a row; SHARD_BITS_NONE: there is none. */
static size_t next_row(const struct shard_table *st, size_t from) {
    uint32_t slot =
        from < TABLE_SLOT_NONE ? table_store_next(st->rows, (uint32_t)from) : TABLE_SLOT_NONE;
    return slot == TABLE_SLOT_NONE ? SHARD_BITS_NONE : slot;
}

static size_t count_slots(const struct shard_table *st) {
    return st->rows ? table_store_slots(st->rows) : st->n_blocks;
}

/* ---- the running snapshot ---- */

void shard_snapshot_give_up(struct shard_snapshot *s) {
    for (uint32_t i = 0; i < s->tables->config.n_tables; i++) {
        shard_save_chunk_drop(co_steal_ptr(s->tracks[i].open));
    }
    table_rocks_instant_free(co_steal_ptr(s->cold));
    s->ticket = 0;
}

/* No delta is possible until the next full checkpoint. */
static void forget_erased(struct shard_snapshot *s) {
    for (uint32_t i = 0; i < s->tables->config.n_tables; i++) {
        shard_erased_clear(&s->tracks[i].erased, &s->erased_room);
        shard_erased_clear(&s->tracks[i].erased_pending, &s->erased_room);
    }
    s->last = s->before = 0;
}

/* ---- what is due ---- */

/* Whether the running snapshot still has to write the slot as it is now. */
static bool is_due(const struct shard_snapshot *s, uint32_t table, size_t slot) {
    const struct shard_track *k = &s->tracks[table];
    bool passed = table < s->table || (table == s->table && slot < s->slot);
    return !passed && slot < k->limit && (s->full || shard_bits_has(&k->pending, slot)) &&
           !shard_bits_has(&k->changed, slot);
}

/* Writes what the cursor has not written of the block. */
static void write_block(struct shard_snapshot *s, uint32_t table, size_t block) {
    size_t from = table == s->table && block == s->slot ? (size_t)s->value : 0;
    size_t n = s->tables->tables[table].blocks[block].n;
    for (; from < n && s->ticket; from += DENSE_VALUES) {
        shard_snapshot_write_values(
            s, table, block, from, n - from < DENSE_VALUES ? n - from : DENSE_VALUES);
    }
}

void shard_snapshot_touch(struct shard_snapshot *s, uint32_t table, size_t slot) {
    struct shard_track *k = &s->tracks[table];
    if (s->ticket && is_due(s, table, slot)) {
        if (s->tables->tables[table].rows) {
            shard_snapshot_write_row(s, table, slot);
        } else {
            write_block(s, table, slot);
        }
    }
    shard_bits_add(&k->changed, slot);
}

void shard_snapshot_made(struct shard_snapshot *s, uint32_t table, size_t slot) {
    if (s && s->tracking) {
        shard_bits_add(&s->tracks[table].changed, slot); /* it was free at the instant */
    }
}

void shard_snapshot_erase(struct shard_snapshot *s, uint32_t table, size_t slot, uint64_t id) {
    if (!s || !s->tracking) {
        return;
    }
    shard_snapshot_touch(s, table, slot);
    shard_snapshot_gone(s, table, id);
}

void shard_snapshot_gone(struct shard_snapshot *s, uint32_t table, uint64_t id) {
    if (!s || !s->tracking) {
        return;
    }
    if (!shard_erased_add(
            &s->tracks[table].erased, &s->erased_room, table, s->tables->config.index, id)) {
        forget_erased(s);
    }
}

/* ---- rows that move ---- */

enum table_cold_age shard_snapshot_leaves(struct shard_snapshot *s, uint32_t table, size_t slot) {
    if (!s || !s->tracking) {
        return TABLE_COLD_SAVED; /* the next checkpoint is a full one, which ignores ages */
    }
    if (s->ticket && is_due(s, table, slot)) {
        shard_snapshot_write_row(s, table, slot);
    }
    const struct shard_track *k = &s->tracks[table];
    return shard_bits_has(&k->changed, slot)   ? TABLE_COLD_CHANGED
           : shard_bits_has(&k->pending, slot) ? TABLE_COLD_PENDING
                                               : TABLE_COLD_SAVED;
}

void shard_snapshot_comes(
    struct shard_snapshot *s, uint32_t table, size_t slot, enum table_cold_age age) {
    if (!s || !s->tracking) {
        return;
    }
    struct shard_track *k = &s->tracks[table];
    shard_bits_remove(&k->changed, slot); /* the bits of a row that had this slot before */
    shard_bits_remove(&k->pending, slot);
    if (age != TABLE_COLD_SAVED) {
        shard_bits_add(age == TABLE_COLD_CHANGED ? &k->changed : &k->pending, slot);
    }
}

/* ---- begin ---- */

/* Whether it is known what has changed since the order's `previous`.  Forgets it if the newest
 * snapshot was not completed, and the ids erased before and after it are too many for one delta:
 * without this limit they would grow for as long as no checkpoint is completed. */
static bool knows(struct shard_snapshot *s, const struct shard_snapshot_order *o) {
    bool here = s->dir && strcmp(s->dir, o->dir) == 0 && o->previous > 0;
    if (here && o->previous == s->last) {
        return true;
    }
    /* A DAY snapshot that was not completed has changed day counts, which no bit records. */
    if (!here || o->previous != s->before || s->mode == RT_SAVE_DAY) {
        return false;
    }
    for (uint32_t i = 0; i < s->tables->config.n_tables; i++) {
        const struct shard_track *k = &s->tracks[i];
        if (k->erased.n + k->erased_pending.n > SHARD_ERASED_CHUNKS_MAX) {
            forget_erased(s);
            return false;
        }
    }
    return true;
}

/* Makes `changed` all that has changed since `previous`.  If that is `before`, the newest snapshot
 * was not completed, and what it contained has to be saved again. */
static void settle(struct shard_snapshot *s, uint64_t previous, bool known) {
    for (uint32_t i = 0; i < s->tables->config.n_tables; i++) {
        if (s->tables->tables[i].cold) {
            table_cold_instant(s->tables->tables[i].cold, known && previous == s->before);
        }
    }
    for (uint32_t i = 0; i < s->tables->config.n_tables && known; i++) {
        struct shard_track *k = &s->tracks[i];
        if (previous == s->before) {
            shard_bits_join(&k->changed, &k->pending);
            shard_erased_join(&k->erased, &k->erased_pending);
        } else {
            shard_bits_clear(&k->pending);
            shard_erased_clear(&k->erased_pending, &s->erased_room);
        }
    }
}

/* The instant of one table: what has changed so far becomes pending. */
static void take_instant(struct shard_snapshot *s, struct shard_track *k, size_t limit) {
    shard_bits_clear(&k->pending);
    shard_erased_clear(&k->erased_pending, &s->erased_room);
    k->pending = k->changed;
    k->changed = (struct shard_bits){0};
    k->erased_pending = k->erased;
    k->erased = (struct shard_erased){0};
    k->limit = limit;
    for (size_t i = 0; i < k->erased_pending.n && !s->full && s->ticket; i++) {
        shard_snapshot_add(s, shard_save_chunk_hold(k->erased_pending.chunks[i]));
    }
}

static void write_all_kept(struct shard_snapshot *s) {
    for (uint32_t i = 0; s->kept && i < s->tables->config.trainers; i++) {
        for (uint32_t k = 0; k < SHARD_KEPT_N && s->ticket; k++) {
            if (s->kept[i][k].data) {
                shard_snapshot_write_kept(s, i, &s->kept[i][k]);
            }
        }
    }
}

static bool is_newest(const struct shard_snapshot *s, const struct shard_snapshot_order *o) {
    return o->number == s->last && o->maker == s->maker && o->previous == s->previous &&
           o->full == s->full && o->mode == s->ordered;
}

/* Modes change counts of the rows that they save, in tables with evict "ctr".  A cold row is read
 * from a view of the past, where no new count can be stored. */
static int check_mode(
    const struct shard_snapshot *s, const struct shard_snapshot_order *o, struct co_err *err) {
    for (uint32_t i = 0; i < s->tables->config.n_tables && o->mode != RT_SAVE_ALL; i++) {
        const struct shard_table *st = &s->tables->tables[i];
        if (st->cold && st->table->evict.kind == TABLE_EVICT_CTR) {
            return co_err_set(err, CO_INVALID,
                "table \"%s\" may have rows on the servers' disks (%s): a checkpoint of save mode "
                "%u "
                "is not possible, rt_save_as is",
                st->table->name, co_contract[CO_VAR_PS_COLD_DIR].name, (unsigned)o->mode);
        }
    }
    return 0;
}

static int check_order(const struct shard_snapshot *s, const struct shard_snapshot_order *o,
    bool known, struct co_err *err) {
    if (s->dir && s->last > 0 && o->number <= s->last && strcmp(s->dir, o->dir) == 0) {
        return co_err_set(
            err, CO_CONFLICT, "checkpoint %llu was begun before", (unsigned long long)o->number);
    }
    if (!o->full && !known) {
        return co_err_set(err, CO_CONFLICT,
            "what changed since checkpoint %llu is not known here: a full one is needed",
            (unsigned long long)o->previous);
    }
    return check_mode(s, o, err);
}

int shard_snapshot_begin(struct shard_snapshot *s, const struct shard_snapshot_order *order,
    uint64_t *ret_ticket, struct co_err *err) {
    bool here = s->dir && strcmp(s->dir, order->dir) == 0;
    if (here && is_newest(s, order)) {
        *ret_ticket = s->newest;
        return 0;
    }
    bool known = knows(s, order);
    CO_TRY(check_order(s, order, known, err));
    shard_tables_settle(s->tables); /* a step that was made belongs to it */
    CO_TRY(shard_saver_begin(
        s->saver, order->dir, order->number, order->previous, order->maker, ret_ticket, err));
    shard_snapshot_give_up(s);
    /* A snapshot that was not completed may have reset delta scores: DELTA would omit such rows. */
    bool again = known && order->previous != s->last;
    s->ordered = order->mode;
    s->mode = again && order->mode == RT_SAVE_DELTA ? RT_SAVE_BASE : order->mode;
    settle(s, order->previous, known);
    free(s->dir);
    s->dir = co_xstrdup(order->dir);
    s->before = known ? order->previous : 0;
    s->previous = order->previous;
    s->maker = order->maker;
    s->last = order->number;
    s->newest = s->ticket = *ret_ticket;
    s->full = order->full;
    s->tracking = true;
    s->table = 0;
    s->slot = s->value = s->key = 0;
    if (s->tables->config.rocks) {
        s->cold = table_rocks_instant_new(s->tables->config.rocks);
    }
    for (uint32_t i = 0; i < s->tables->config.n_tables; i++) {
        take_instant(s, &s->tracks[i], count_slots(&s->tables->tables[i]));
        s->tracks[i].now = shard_row_clock(&s->tables->tables[i]);
        if (s->ticket) {
            shard_snapshot_write_rate(s, i);
        }
    }
    write_all_kept(s);
    return 0;
}

/* ---- the cursor ---- */

/* The next slot from `slot` on that is due unless it has changed; the limit: there is none. */
static size_t next_due(const struct shard_snapshot *s, size_t slot) {
    const struct shard_table *st = &s->tables->tables[s->table];
    const struct shard_track *k = &s->tracks[s->table];
    if (!s->full) {
        slot = shard_bits_next(&k->pending, slot);
    } else if (st->rows) {
        slot = next_row(st, slot);
    }
    return slot < k->limit ? slot : k->limit;
}

/* Writes some values of the block under the cursor.  Returns the bytes. */
static size_t step_block(struct shard_snapshot *s) {
    const struct shard_track *k = &s->tracks[s->table];
    const struct shard_dense_block *b = &s->tables->tables[s->table].blocks[s->slot];
    bool changed = shard_bits_has(&k->changed, s->slot);
    size_t left = changed ? 0 : b->n - (size_t)s->value;
    size_t n = left < DENSE_VALUES ? left : DENSE_VALUES;
    if (n > 0) {
        shard_snapshot_write_values(s, s->table, s->slot, (size_t)s->value, n);
        s->value += n;
    }
    if (changed || s->value == b->n) {
        s->slot++;
        s->value = 0;
    }
    return (n + b->n_state / (b->n ? b->n : 1) * n) * sizeof(float);
}

static void take_cold(void *arg, uint64_t id, const void *body) {
    struct shard_snapshot *s = arg;
    if (s->ticket) {
        shard_snapshot_write_body(
            s, s->table, id, (void *)(uintptr_t)body); /* check_mode: changes no count */
    }
}

/* Writes some cold rows of the table under the cursor.  False: there are no more. */
static bool step_cold(struct shard_snapshot *s) {
    struct table_cold *cold = s->tables->tables[s->table].cold;
    size_t looks = COLD_BYTES / s->tracks[s->table].row_bytes + 1;
    struct co_err err = {0};
    bool more = false;
    if (cold &&
        table_cold_walk(cold, s->cold, s->full, &s->key, looks, take_cold, s, &more, &err) < 0) {
        shard_saver_fail(s->saver, s->ticket, &err);
        shard_snapshot_give_up(s);
    }
    return more;
}

/* Writes some rows from the cursor on, and returns their bytes.  It first finds and prefetches
 * them, so that they are in the cache when they are written.  Adds the visited slots to *looks. */
static size_t step_rows(struct shard_snapshot *s, unsigned *looks) {
    const struct shard_table *st = &s->tables->tables[s->table];
    const struct shard_track *k = &s->tracks[s->table];
    uint32_t due[ROWS];
    size_t n = 0, slot = s->slot;
    for (unsigned i = 0; i < 4 * ROWS && n < ROWS && slot < k->limit; i++, slot++) {
        slot = next_due(s, slot);
        if (slot < k->limit && !shard_bits_has(&k->changed, slot) &&
            table_store_has(st->rows, (uint32_t)slot)) {
            table_store_fetch(st->rows, (uint32_t)slot);
            due[n++] = (uint32_t)slot;
        }
        ++*looks;
    }
    s->slot = slot < k->limit ? slot : k->limit;
    for (size_t i = 0; i < n && s->ticket; i++) {
        shard_snapshot_write_row(s, s->table, due[i]);
    }
    return n * k->row_bytes;
}

static size_t step_cursor(struct shard_snapshot *s, unsigned *looks) {
    const struct shard_table *st = &s->tables->tables[s->table];
    const struct shard_track *k = &s->tracks[s->table];
    size_t slot = next_due(s, s->slot);
    ++*looks;
    s->value = slot == s->slot ? s->value : 0;
    s->slot = slot;
    if (slot < k->limit) {
        return st->rows ? step_rows(s, looks) : step_block(s);
    }
    if (step_cold(s)) {
        return COLD_BYTES;
    }
    shard_snapshot_flush(s, s->table);
    s->table++;
    s->slot = s->key = 0;
    return 0;
}

bool shard_snapshot_slice(struct shard_snapshot *s) {
    size_t bytes = 0;
    if (!s->ticket || !shard_saver_has_room(s->saver)) {
        return false;
    }
    for (unsigned looks = 0; s->ticket && bytes < SLICE && looks < LOOKS;) {
        if (s->table == s->tables->config.n_tables) {
            shard_saver_end(s->saver, s->ticket);
            shard_snapshot_give_up(s); /* only resets the snapshot: all is written */
            return false;
        }
        bytes += step_cursor(s, &looks);
    }
    return s->ticket != 0;
}

/* ---- start and end ---- */

void shard_snapshot_init(
    struct shard_snapshot *s, struct shard_tables *tables, struct shard_saver *saver) {
    *s = (struct shard_snapshot){
        .tables = tables, .saver = saver, .erased_room = shard_erased_room(&tables->config)};
    s->tracks = co_xcalloc(tables->config.n_tables, sizeof(*s->tracks));
    for (uint32_t i = 0; i < tables->config.n_tables; i++) {
        const struct shard_table *st = &tables->tables[i];
        s->tracks[i].row_bytes = 8 + ps_table_row(st->table) * sizeof(float);
    }
}

void shard_snapshot_forget(struct shard_snapshot *s) {
    shard_snapshot_give_up(s);
    for (uint32_t i = 0; i < s->tables->config.n_tables; i++) {
        struct shard_track *k = &s->tracks[i];
        shard_bits_clear(&k->changed);
        shard_bits_clear(&k->pending);
        shard_erased_clear(&k->erased, &s->erased_room);
        shard_erased_clear(&k->erased_pending, &s->erased_room);
    }
    s->tracking = false;
    s->last = s->before = 0;
}

void shard_snapshot_done(struct shard_snapshot *s) {
    if (s->tracks) {
        shard_snapshot_forget(s);
    }
    free(s->tracks);
    free(s->dir);
    s->tracks = NULL;
}
