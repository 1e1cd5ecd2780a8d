/* Moves rows between a store and its disk, within the budget, and keeps their ages (cold.h). */
#include "runtime/train/table/cold.h"

#include <string.h>

#include "common/mem.h"
#include "runtime/train/table/index.h"

/* A cold row on disk: stamp u32 | body. */
enum {
    STAMP = sizeof(uint32_t),
    GROUP_BYTES = 1 << 20, /* rows that are moved at once take at most that much */
    SIXTEENTHS = 13,       /* of the budget: beyond that, rows go to disk */
};
#define KEY_BITS (64 - TABLE_HASH_BITS) /* of a hash, after those that an index entry has */

void table_cold_init(struct table_cold *c, struct table_store *store, struct table_rocks *disk,
    struct table_budget *budget, struct table_cold_shard *shard, size_t share) {
    *c = (struct table_cold){.store = store,
        .disk = disk,
        .budget = budget,
        .shard = shard,
        .share = share,
        .space = table_rocks_space(disk),
        .stride = STAMP + table_store_body_bytes(store),
        .stamp = 1,
        .changed = 1,
        .pending = 1};
    size_t fit = GROUP_BYTES / c->stride;
    c->group = fit < 1 ? 1 : fit < TABLE_COLD_GROUP ? (uint32_t)fit : TABLE_COLD_GROUP;
    c->keys = co_xcalloc(c->group, sizeof(*c->keys));
    c->at = co_xcalloc(c->group, sizeof(*c->at));
    c->found = co_xcalloc(c->group, sizeof(*c->found));
    c->moved = co_xcalloc(c->group, sizeof(*c->moved));
    c->in = co_xcalloc(c->group, c->stride);
    c->out = co_xcalloc(c->group, c->stride);
    c->writes = co_xcalloc(c->group, sizeof(*c->writes));
    c->idle = co_xcalloc(c->group, sizeof(*c->idle));
    table_store_clock(store);
}

static void count(struct table_cold *c, size_t bytes) {
    c->shard->bytes += bytes - c->bytes;
    atomic_fetch_add(&c->budget->rows, bytes - c->bytes);
    c->bytes = bytes;
}

void table_cold_done(struct table_cold *c) {
    count(c, 0);
    free(c->keys);
    free(c->at);
    free(c->found);
    free(c->moved);
    free(c->in);
    free(c->out);
    free(c->writes);
    free(c->idle);
    *c = (struct table_cold){0};
}

uint64_t table_cold_bytes(const struct table_cold *c) {
    return c->rows * (sizeof(uint32_t) + sizeof(uint64_t) + c->stride);
}

/* ---- ages ---- */

static enum table_cold_age age_of(const struct table_cold *c, uint32_t stamp) {
    return stamp >= c->changed   ? TABLE_COLD_CHANGED
           : stamp >= c->pending ? TABLE_COLD_PENDING
                                 : TABLE_COLD_SAVED;
}

static uint32_t stamp_of(const struct table_cold *c, enum table_cold_age age) {
    return age == TABLE_COLD_CHANGED ? c->stamp : age == TABLE_COLD_PENDING ? c->changed - 1 : 0;
}

static uint32_t get_stamp(const void *row) {
    uint32_t stamp;
    memcpy(&stamp, row, STAMP);
    return stamp;
}

void table_cold_instant(struct table_cold *c, bool failed) {
    c->pending = failed ? c->pending : c->changed;
    c->changed = ++c->stamp;
}

/* ---- to the disk ---- */

/* Writes a group of idle rows to disk and erases them from the store.  Returns how many; 0: the
 * clock's hand found none in the remaining words. */
static int spill(struct table_cold *c, uint64_t *words, struct co_err *err) {
    uint32_t n = table_store_idle(c->store, c->idle, c->group, words);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = c->idle[i];
        enum table_cold_age age =
            c->watch.leaves ? c->watch.leaves(c->watch.arg, slot) : TABLE_COLD_SAVED;
        uint32_t stamp = stamp_of(c, age);
        unsigned char *row = c->out + i * c->stride;
        memcpy(row, &stamp, STAMP);
        memcpy(row + STAMP, table_store_body(c->store, slot), c->stride - STAMP);
        c->writes[i] = (struct table_rocks_row){
            table_index_hash(table_store_id(c->store, slot)), row, c->stride};
    }
    if (n > 0) {
        CO_TRY(table_rocks_write(c->disk, c->space, c->writes, n, err));
    }
    for (uint32_t i = 0; i < n; i++) {
        table_store_erase(c->store, c->idle[i]);
    }
    c->rows += n;
    return (int)n;
}

/* Memory that rows of this shard may use.  An equal part: a shard that fills later than the others
 * still gets as much. */
static size_t shard_most(const struct table_cold *c, size_t most) {
    size_t used = atomic_load(&c->budget->used), rows = atomic_load(&c->budget->rows);
    size_t others = used > rows ? used - rows : 0;
    return others < most ? (most - others) / c->shard->shards : 0;
}

/* Takes more memory for rows, if the budget has some. */
static bool grow(struct table_cold *c) {
    size_t max = c->budget->max, most = max / 16 * SIXTEENTHS;
    count(c, table_store_bytes(c->store));
    if (c->bytes < c->share) {
        return table_store_grow(c->store, max);
    }
    return c->shard->bytes < shard_most(c, most) && table_store_grow(c->store, most);
}

/* Grows the store, or sends idle rows to disk, until `need` rows can be added.  Rows in the n slots
 * stay in memory: they are marked at the start of each of the two rounds, and the clock removes a
 * mark only once a round. */
static int make_room(
    struct table_cold *c, uint64_t need, const uint32_t *slots, size_t n, struct co_err *err) {
    for (int round = 0; round < 2 && table_store_room(c->store) < need; round++) {
        uint64_t words = table_store_round(c->store);
        for (size_t i = 0; i < n; i++) {
            if (slots[i] != TABLE_SLOT_NONE) {
                table_store_mark(c->store, slots[i]);
            }
        }
        for (int rc = 1; rc > 0 && table_store_room(c->store) < need;) {
            rc = grow(c) ? 1 : spill(c, &words, err);
            if (rc < 0) {
                return rc;
            }
        }
    }
    if (table_store_room(c->store) < need) {
        return co_err_set(err, CO_NORESOURCE,
            "%zu rows are asked for at once, and the tables' memory, %zu KiB (memory_max), has no "
            "room for %llu of them",
            n, c->budget->max >> 10, (unsigned long long)(need - table_store_room(c->store)));
    }
    return 0;
}

/* ---- from the disk ---- */

static void find_hot(struct table_cold *c, const uint64_t *ids, size_t n, uint32_t *ret_slots) {
    table_store_find_many(c->store, ids, n, ret_slots);
    for (size_t i = 0; i < n; i++) {
        if (ret_slots[i] != TABLE_SLOT_NONE) {
            table_store_mark(c->store, ret_slots[i]);
        }
    }
}

/* Reads the rows of those ids that have no slot.  For missing id k: c->at[k] is its index in ids,
 * c->found[k] says whether the disk has its row, and c->in has a copy.  Returns how many ids are
 * missing. */
static int look(struct table_cold *c, const uint64_t *ids, size_t n, const uint32_t *slots,
    struct co_err *err) {
    uint32_t missing = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (slots[i] == TABLE_SLOT_NONE) {
            c->at[missing] = i;
            c->found[missing] = false;
            c->keys[missing++] = table_index_hash(ids[i]);
        }
    }
    if (c->rows > 0 && missing > 0) {
        CO_TRY(
            table_rocks_read(c->disk, c->space, c->keys, missing, c->stride, c->in, c->found, err));
    }
    return (int)missing;
}

static int move_in(struct table_cold *c, const uint64_t *ids, uint32_t missing, uint32_t *ret_slots,
    uint32_t *ret_moved, struct co_err *err) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < missing; k++) {
        c->moved[k] = false;
        if (!c->found[k]) {
            continue;
        }
        uint32_t *slot = &ret_slots[c->at[k]];
        CO_TRY(table_store_make(c->store, ids[c->at[k]], slot, &c->moved[k], err));
        if (c->moved[k]) { /* else the id repeats, and its row has been moved already */
            memcpy(table_store_body(c->store, *slot), c->in + k * c->stride + STAMP,
                c->stride - STAMP);
            c->writes[n++] = (struct table_rocks_row){.key = c->keys[k]};
        }
    }
    *ret_moved = n;
    return n > 0 ? table_rocks_write(c->disk, c->space, c->writes, n, err) : 0;
}

/* Makes the rows that were found hot: all of them or, after an error, none. */
static int move(struct table_cold *c, const uint64_t *ids, uint32_t missing, uint32_t *ret_slots,
    struct co_err *err) {
    uint32_t n = 0;
    memset(c->moved, 0, missing * sizeof(*c->moved));
    int rc = move_in(c, ids, missing, ret_slots, &n, err);
    for (uint32_t k = 0; k < missing; k++) {
        uint32_t *slot = &ret_slots[c->at[k]];
        if (rc < 0 && c->moved[k]) {
            table_store_erase(c->store, *slot);
        }
        if (rc < 0) {
            *slot = TABLE_SLOT_NONE;
        } else if (c->moved[k] && c->watch.comes) {
            c->watch.comes(c->watch.arg, *slot, age_of(c, get_stamp(c->in + k * c->stride)));
        }
    }
    c->rows -= rc < 0 ? 0 : n;
    return rc;
}

int table_cold_find(struct table_cold *c, const uint64_t *ids, size_t n, uint32_t *ret_slots,
    const void **ret_bodies, struct co_err *err) {
    find_hot(c, ids, n, ret_slots);
    memset(ret_bodies, 0, n * sizeof(*ret_bodies));
    int missing = look(c, ids, n, ret_slots, err);
    if (missing <= 0) {
        return missing;
    }
    uint64_t found = 0;
    for (int k = 0; k < missing; k++) {
        found += c->found[k];
    }
    /* If the rows cannot become hot, the caller reads the copies: it only reads. */
    if (found > 0 && (make_room(c, found, ret_slots, n, NULL) < 0 ||
                         move(c, ids, (uint32_t)missing, ret_slots, NULL) < 0)) {
        for (int k = 0; k < missing; k++) {
            ret_bodies[c->at[k]] = c->found[k] ? c->in + (size_t)k * c->stride + STAMP : NULL;
        }
    }
    return 0;
}

int table_cold_bring(
    struct table_cold *c, const uint64_t *ids, size_t n, uint32_t *ret_slots, struct co_err *err) {
    uint64_t need = 0;
    find_hot(c, ids, n, ret_slots);
    for (size_t i = 0; i < n; i++) {
        need += ret_slots[i] == TABLE_SLOT_NONE;
    }
    CO_TRY(make_room(c, need, ret_slots, n, err));
    for (size_t i = 0; i < n && need > 0 && c->rows > 0; i += c->group) {
        size_t m = n - i < c->group ? n - i : c->group;
        int missing = look(c, ids + i, m, ret_slots + i, err);
        CO_TRY(missing);
        if (missing > 0) {
            CO_TRY(move(c, ids + i, (uint32_t)missing, ret_slots + i, err));
        }
    }
    return 0;
}

/* The new space has a new number, so data that could not be removed is never read. */
void table_cold_clear(struct table_cold *c) {
    (void)!table_rocks_drop(c->disk, c->space, NULL);
    c->space = table_rocks_space(c->disk);
    c->rows = 0;
}

/* ---- instants ---- */

struct cold_walk {
    const struct table_cold *cold;
    bool all;
    size_t looks; /* rows that it may still look at */
    uint64_t next;
    bool more, damaged;
    void (*take)(void *arg, uint64_t id, const void *body);
    void *arg;
};

static bool walk_row(void *arg, uint64_t key, const void *row, size_t bytes) {
    struct cold_walk *w = arg;
    w->damaged = bytes != w->cold->stride;
    w->more = w->looks == 0;
    w->next = key;
    if (w->more || w->damaged) {
        return false;
    }
    w->looks--;
    if (w->all || age_of(w->cold, get_stamp(row)) == TABLE_COLD_PENDING) {
        w->take(w->arg, table_index_unhash(key), (const unsigned char *)row + STAMP);
    }
    return true;
}

static int damaged(const struct table_cold *c, struct co_err *err) {
    return co_err_set(
        err, CO_INTERNAL, "cold rows in \"%s\": a row has another size", table_rocks_dir(c->disk));
}

int table_cold_walk(struct table_cold *c, const struct table_rocks_instant *at, bool all,
    uint64_t *from, size_t looks, void (*take)(void *arg, uint64_t id, const void *body), void *arg,
    bool *ret_more, struct co_err *err) {
    struct cold_walk w = {.cold = c, .all = all, .looks = looks, .take = take, .arg = arg};
    int rc = table_rocks_walk(c->disk, c->space, at, *from, walk_row, &w, err);
    rc = rc == 0 && w.damaged ? damaged(c, err) : rc;
    *from = w.next;
    *ret_more = w.more;
    return rc;
}

/* ---- all rows ---- */

struct gather {
    struct table_cold_part *part;
    size_t most, cap, stride;
    bool damaged;
};

/* Collects cold rows.  A part never ends between two rows whose hashes begin with the same bits. */
static bool gather_row(void *arg, uint64_t key, const void *row, size_t bytes) {
    struct gather *g = arg;
    struct table_cold_part *p = g->part;
    uint64_t hash = key >> KEY_BITS;
    bool full = p->n_cold >= g->most && table_index_hash(p->ids[p->n_cold - 1]) >> KEY_BITS != hash;
    g->damaged = bytes != g->stride;
    if (hash >= p->end || full || g->damaged) {
        p->end = hash < p->end ? hash : p->end;
        return false;
    }
    if (p->n_cold == g->cap) {
        g->cap = g->cap ? g->cap * 2 : 64;
        p->ids = co_xrealloc(p->ids, g->cap, sizeof(*p->ids));
        p->rows = co_xrealloc(p->rows, g->cap, g->stride);
    }
    p->ids[p->n_cold] = table_index_unhash(key);
    memcpy(p->rows + p->n_cold++ * g->stride, row, bytes);
    return true;
}

/* Chooses the end of the part so that it has at most about `most` hot rows: first as if hashes were
 * spread evenly, then halving while there are too many. */
static void gather_hot(const struct table_cold *c, uint64_t from, size_t most, uint64_t rows,
    struct table_cold_part *p) {
    uint64_t width = TABLE_COLD_END / (rows + 1) * most;
    size_t cap = 2 * most;
    p->end = rows > most && width < TABLE_COLD_END - from ? from + width : TABLE_COLD_END;
    p->slots = co_xmalloc(cap * sizeof(*p->slots));
    while ((p->n_hot = table_store_range(c->store, from, p->end, p->slots, cap)) > cap &&
           p->end - from > 1) {
        p->end = from + (p->end - from) / 2;
    }
    if (p->n_hot > cap) {
        p->slots = co_xrealloc(p->slots, p->n_hot, sizeof(*p->slots));
        (void)table_store_range(c->store, from, p->end, p->slots, p->n_hot);
    }
}

int table_cold_part(struct table_cold *c, uint64_t from, size_t most, struct table_cold_part *ret,
    struct co_err *err) {
    *ret = (struct table_cold_part){0};
    from = from < TABLE_COLD_END ? from : TABLE_COLD_END - 1;
    gather_hot(c, from, most, table_store_rows(c->store), ret);
    uint64_t end = ret->end;
    struct gather g = {.part = ret, .most = most, .stride = c->stride};
    int rc = c->rows > 0
                 ? table_rocks_walk(c->disk, c->space, NULL, from << KEY_BITS, gather_row, &g, err)
                 : 0;
    rc = rc == 0 && g.damaged ? damaged(c, err) : rc;
    if (rc == 0 && ret->end < end) {
        ret->n_hot = table_store_range(c->store, from, ret->end, ret->slots, ret->n_hot);
    }
    ret->change = co_xcalloc(ret->n_cold + 1, 1);
    return rc;
}

void table_cold_part_done(struct table_cold_part *p) {
    free(p->slots);
    free(p->ids);
    free(p->rows);
    free(p->change);
    *p = (struct table_cold_part){0};
}

void *table_cold_part_body(const struct table_cold *c, const struct table_cold_part *p, size_t i) {
    return p->rows + i * c->stride + STAMP;
}

int table_cold_settle(struct table_cold *c, const struct table_cold_part *p, struct co_err *err) {
    CO_AUTOFREE struct table_rocks_row *writes = co_xmalloc((p->n_cold + 1) * sizeof(*writes));
    size_t n = 0, erased = 0;
    uint32_t stamp = stamp_of(c, TABLE_COLD_CHANGED);
    for (size_t i = 0; i < p->n_cold; i++) {
        unsigned char *row = p->rows + i * c->stride;
        bool erase = p->change[i] == TABLE_COLD_ERASE;
        if (p->change[i] == TABLE_COLD_CHANGE) {
            memcpy(row, &stamp, STAMP);
        }
        if (p->change[i] != TABLE_COLD_KEEP) {
            writes[n++] = (struct table_rocks_row){
                table_index_hash(p->ids[i]), erase ? NULL : row, c->stride};
        }
        erased += erase;
    }
    int rc = n > 0 ? table_rocks_write(c->disk, c->space, writes, n, err) : 0;
    c->rows -= rc < 0 ? 0 : erased;
    return rc;
}
