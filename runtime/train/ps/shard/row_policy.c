/* Admission and eviction of rows in a shard's tables, shrink, and rows as checkpoints have them.
 * table/policy.h has the rules for one row; this file says which rows they are applied to. */
#include <string.h>
#include <time.h>

#include "common/bytes.h"
#include "common/mix.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/ps/shard/snapshot.h"

enum {
    SWEEP = 2,            /* ttl: rows to look at for each row that is pushed, */
    SWEEP_FREE = 64,      /* or in place of a row so many free slots */
    SAMPLE = 16,          /* lfu: rows to look at; the one with the lowest count is evicted */
    FADE = 4,             /* more often, and rows in use are soon as rare as those used once */
    SHRINK_SLOTS = 32768, /* slots that one frame looks at: takes about a millisecond */
};
static const uint32_t earliest = UINT32_C(1) << 31; /* of now_of: 68 years */

static const struct table_policy *evict_of(const struct shard_table *st) {
    return &st->table->evict;
}

/* The policy's clock: seconds, or steps.  Seconds are those of a clock that nobody sets: a wrong
 * date that is put right would make all rows old.  They begin so high that a row may be older than
 * the machine's last start. */
static uint32_t now_of(const struct shard_table *st) {
    if (table_evict_by_steps(evict_of(st))) {
        return (uint32_t)st->steps;
    }
    struct timespec t;
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return earliest + (uint32_t)t.tv_sec;
}

/* ---- admission ---- */

void shard_rows_admit(struct shard_table *st, struct shard_rows *r) {
    if (!st->admission) {
        return;
    }
    size_t n = 0;
    table_store_find_many(st->rows, r->ids, r->n, r->slots);
    for (size_t i = 0; i < r->n; i++) {
        const float *seen = r->clicks ? r->clicks + 2UL * r->from[i] : (const float[]){1, 0};
        if (r->slots[i] != TABLE_SLOT_NONE ||
            table_admission_ask(st->admission, r->ids[i], seen[0], seen[1])) {
            r->ids[n] = r->ids[i];
            r->from[n++] = r->from[i];
        }
    }
    r->n = n;
}

/* ---- eviction ---- */

/* The rows that a push is for, by slot: what they have learned is not to be lost to its new rows.
 */
struct spared {
    uint32_t *at; /* by hash; TABLE_SLOT_NONE: none */
    size_t mask, n;
};

static void spared_done(struct spared *s) {
    free(s->at);
}

/* Where the slot is, or would be. */
static size_t place_of(const struct spared *s, uint32_t slot) {
    size_t i = co_mix64(slot) & s->mask;
    while (s->at[i] != TABLE_SLOT_NONE && s->at[i] != slot) {
        i = (i + 1) & s->mask;
    }
    return i;
}

static bool is_spared(const struct spared *s, uint32_t slot) {
    return s->n > 0 && s->at[place_of(s, slot)] == slot;
}

/* r has its slots. */
static struct spared spare(const struct shard_rows *r) {
    size_t room = 2;
    while (room < 2 * r->n) {
        room *= 2;
    }
    struct spared s = {.at = co_xmalloc(room * sizeof(*s.at)), .mask = room - 1};
    memset(s.at, 0xff, room * sizeof(*s.at));
    for (size_t i = 0; i < r->n; i++) {
        uint32_t slot = r->slots[i];
        uint32_t *at = slot == TABLE_SLOT_NONE ? NULL : &s.at[place_of(&s, slot)];
        if (at && *at != slot) {
            *at = slot;
            s.n++;
        }
    }
    return s;
}

/* The first row from that slot on that is not spared; wraps around. */
static uint32_t next_row(const struct shard_table *st, const struct spared *spared, uint32_t slot) {
    do {
        slot = table_store_next(st->rows, slot);
        slot = slot == TABLE_SLOT_NONE ? table_store_next(st->rows, 0) : slot;
    } while (is_spared(spared, slot) && ++slot);
    return slot;
}

/* Evicts the least pushed of SAMPLE rows, of those that are not spared: there are some.  They lie
 * far apart, as rows that came at one time, and may all be in use, lie side by side.  Also halves a
 * count now and then, so that old counts fade: by the time that FADE times as many rows were
 * evicted as the table has, every count is halved about once. */
static void evict_one(struct shard_table *st, const struct spared *spared) {
    uint32_t worst = TABLE_SLOT_NONE, least = UINT32_MAX, slots = table_store_slots(st->rows);
    uint32_t fades = (uint32_t)(co_mix64(st->evicted++) % (FADE * SAMPLE));
    st->hand = st->hand + 1 < slots ? st->hand + 1 : 0;
    for (uint32_t i = 0; i < SAMPLE; i++) {
        uint64_t at = st->hand + (uint64_t)slots * i / SAMPLE;
        uint32_t slot = next_row(st, spared, (uint32_t)(at % slots));
        void *head = table_store_head(st->rows, slot);
        if (table_evict_count(head) < least || worst == TABLE_SLOT_NONE) {
            worst = slot;
            least = table_evict_count(head);
        }
        if (i == fades) {
            shard_snapshot_change(st->snapshot, st->index, slot);
            table_evict_fade(evict_of(st), head);
        }
    }
    shard_row_erase(st, worst);
}

/* Looks at the next row and erases it if it has expired.  Few rows may be left among many free
 * slots, so one look is not for a row at any distance. */
static void sweep_one(struct shard_table *st, uint32_t now) {
    uint32_t slots = table_store_slots(st->rows), left = st->hand < slots ? slots - st->hand : 0;
    uint32_t end = st->hand + (left < SWEEP_FREE ? left : SWEEP_FREE);
    uint32_t slot = table_store_next_below(st->rows, st->hand, end);
    if (slot == TABLE_SLOT_NONE) {
        st->hand = end < slots ? end : 0;
        return;
    }
    st->hand = slot + 1;
    if (table_evict_expired(evict_of(st), table_store_head(st->rows, slot), now)) {
        shard_row_erase(st, slot);
    }
}

/* This shard's part of the table's capacity, in rows. */
static size_t share_of(const struct shard_tables *t, const struct shard_table *st) {
    double shards = (double)t->config.servers * (double)t->config.shards;
    double share = evict_of(st)->p[TABLE_EVICT_CAPACITY] / shards;
    return share > 1 ? (size_t)share : 1;
}

static size_t count_new(const struct shard_table *st, const struct shard_rows *r) {
    size_t n = 0;
    table_store_find_many(st->rows, r->ids, r->n, r->slots);
    for (size_t i = 0; i < r->n; i++) {
        n += r->slots[i] == TABLE_SLOT_NONE;
    }
    return n;
}

/* A push of more rows than the table may have leaves those of this push. */
static void evict_least(
    const struct shard_tables *t, struct shard_table *st, const struct shard_rows *r) {
    size_t want = table_store_rows(st->rows) + count_new(st, r), share = share_of(t, st);
    if (want <= share) {
        return;
    }
    CO_CLEANUP(spared_done) struct spared spared = spare(r);
    size_t may = table_store_rows(st->rows) - spared.n;
    for (size_t n = want - share < may ? want - share : may; n > 0; n--) {
        evict_one(st, &spared);
    }
}

int shard_rows_evict(const struct shard_tables *t, struct shard_table *st,
    const struct shard_rows *r, struct co_err *err) {
    if (evict_of(st)->kind == TABLE_EVICT_LFU) {
        evict_least(t, st, r);
    }
    if (evict_of(st)->kind == TABLE_EVICT_TTL) {
        uint32_t now = now_of(st);
        for (size_t i = 0; i < r->n * SWEEP; i++) {
            sweep_one(st, now);
        }
        return shard_cold_sweep(st, r->n * SWEEP, now, err);
    }
    return 0;
}

void shard_rows_seen(struct shard_table *st, const struct shard_rows *r) {
    uint32_t now = evict_of(st)->kind == TABLE_EVICT_NONE ? 0 : now_of(st);
    for (size_t i = 0; evict_of(st)->kind != TABLE_EVICT_NONE && i < r->n; i++) {
        const float *seen = r->clicks ? r->clicks + 2UL * r->from[i] : (const float[]){1, 0};
        shard_snapshot_change(st->snapshot, st->index, r->slots[i]);
        table_evict_seen(
            evict_of(st), table_store_head(st->rows, r->slots[i]), now, seen[0], seen[1]);
    }
}

/* ---- shrink ---- */

static size_t over(const struct shard_tables *t, const struct shard_table *st) {
    size_t rows = table_store_rows(st->rows), share = share_of(t, st);
    return rows > share ? rows - share : 0;
}

/* The first slot after a part of a shrink. */
static uint32_t end_of(const struct rpc_frame *f) {
    return f->head.aux < TABLE_SLOT_NONE - SHRINK_SLOTS ? (uint32_t)f->head.aux + SHRINK_SLOTS
                                                        : TABLE_SLOT_NONE;
}

int shard_shrunk(const struct shard_tables *t, const struct rpc_frame *f, struct rpc_frame **ret,
    struct co_err *err) {
    const struct shard_table *st =
        f->head.table < t->config.n_tables ? &t->tables[f->head.table] : NULL;
    int rc = rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, 0, ret, err);
    if (rc == 0 && st && st->cold) { /* its parts have no fixed length */
        (*ret)->head.aux = st->shrunk[0] == f->head.aux ? st->shrunk[1] : f->head.aux;
    } else if (rc == 0) {
        (*ret)->head.aux = end_of(f) == TABLE_SLOT_NONE ? UINT64_MAX : end_of(f);
    }
    return rc;
}

/* Shrinks a part of the table.  aux is the slot to begin at; in the answer, where to continue. */
int shard_shrink(struct shard_tables *t, struct shard_table *st, const struct rpc_frame *f,
    struct rpc_frame **ret, struct co_err *err) {
    const struct table_policy *evict = evict_of(st);
    const bool all = f->head.count == RPC_FRAME_SHRINK_ALL;
    if (!all && evict->kind == TABLE_EVICT_NONE) {
        return co_err_set(err, CO_INVALID, "table \"%s\" has no evict policy", st->table->name);
    }
    if (st->cold) {
        return shard_cold_shrink(st, f, now_of(st), ret, err);
    }
    CO_TRY(rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, 0, ret, err));
    uint32_t erased = 0, now = now_of(st), end = end_of(f);
    uint32_t slot = f->head.aux < TABLE_SLOT_NONE ? (uint32_t)f->head.aux : TABLE_SLOT_NONE;
    size_t too_many = !all && evict->kind == TABLE_EVICT_LFU ? over(t, st) : 0;
    for (; erased < too_many && erased < SHRINK_SLOTS / SAMPLE; erased++) {
        evict_one(st, &(struct spared){0});
    }
    bool again = erased > 0 && erased < too_many;
    while (!again && (slot = table_store_next(st->rows, slot)) < end) {
        shard_snapshot_change(st->snapshot, st->index, slot);
        if (all || table_evict_shrink(evict, table_store_head(st->rows, slot), now)) {
            shard_row_erase(st, slot);
            erased++;
        }
        slot++;
    }
    (*ret)->head.count = erased;
    (*ret)->head.aux = slot == TABLE_SLOT_NONE ? UINT64_MAX : slot;
    return 0;
}

/* ---- saved rows: values, optimizer state, the policy's counts ---- */

size_t shard_row_floats(const struct shard_table *st) {
    return st->dim + st->n_state + table_evict_words(evict_of(st));
}

bool shard_row_saves(const struct shard_table *st, const void *body, enum rt_save_mode mode) {
    return table_evict_saves(evict_of(st), body, mode);
}

/* A body begins with its head, the policy's counts. */
uint32_t shard_row_clock(const struct shard_table *st) {
    return now_of(st);
}

void shard_row_save(
    const struct shard_table *st, void *body, enum rt_save_mode mode, uint32_t now, float *ret) {
    if (st->table->storage == RT_F32) { /* the state follows the values */
        memcpy(
            ret, table_store_body_values(st->rows, body), (st->dim + st->n_state) * sizeof(float));
    } else {
        table_store_body_read(st->rows, body, ret);
        memcpy(ret + st->dim, table_store_body_state(st->rows, body), st->n_state * sizeof(float));
    }
    if (evict_of(st)->kind != TABLE_EVICT_NONE) {
        table_evict_saved(evict_of(st), body, mode);
        table_evict_save(evict_of(st), body, now, ret + st->dim + st->n_state);
    }
}

void shard_row_erase(struct shard_table *st, uint32_t slot) {
    shard_snapshot_erase(st->snapshot, st->index, slot, table_store_id(st->rows, slot));
    table_store_erase(st->rows, slot);
}

void shard_row_load(struct shard_table *st, uint32_t slot, const float *from) {
    table_store_write(st->rows, slot, from);
    memcpy(table_store_state(st->rows, slot), from + st->dim, st->n_state * sizeof(float));
    table_evict_load(
        evict_of(st), table_store_head(st->rows, slot), now_of(st), from + st->dim + st->n_state);
}
