/* Loads a shard's tables from a chain of checkpoints; restore.h explains the order.  Runs on the
 * shard's thread. */
#include "runtime/train/ps/shard/restore.h"

#include <math.h>
#include <string.h>

#include "common/bytes.h"
#include "common/size.h"
#include "runtime/train/ps/fit.h"
#include "runtime/train/ps/shard/part.h"
#include "runtime/train/table/index.h"

enum {
    GROUP = 256, /* rows for which room is made at a time */
    /* Memory for ids that were erased: 1 / GONE_SHARE of the budget for all shards, but enough for
     * some ten thousand ids. */
    GONE_SHARE = 64,
    GONE_FEW = 1 << 20,
    GONE_TABLE = 128 << 10, /* what a store needs for its first row */
};

/* ---- the tables of a checkpoint ---- */

/* A table of the checkpoint. */
struct source {
    const struct ckpt_table *saved;
    struct ps_table was;    /* made from `saved` */
    struct shard_table *to; /* NULL: the job has no such table, its chunks are skipped */
    /* sparse: */
    struct table_store *gone; /* ids that were erased later than the rows now read were written */
    float *row;               /* scratch for a row */
};

struct checkpoint_load {
    const char *dir;
    struct shard_tables *tables;
    struct source *sources; /* [n], by the table's index in the checkpoint */
    uint32_t n;
    uint64_t values; /* how many values of dense tables were found so far */
    /* A pass over the rows takes the ids whose place is in from .. from + width - 1. */
    uint64_t from, width;
    struct table_budget gone; /* of all sources' `gone` */
    bool crowded;             /* it did not suffice in this pass */
};

#define PLACES (UINT64_C(1) << 32)

/* Uses bits by which no table_store sorts its rows: those of a pass are found as fast as any. */
static uint64_t place_of(uint64_t id) {
    return table_index_hash(id) % PLACES;
}

static int find_saved(const struct ckpt_point *p, const char *name) {
    for (uint32_t i = 0; i < p->n_tables; i++) {
        if (strcmp(p->tables[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static const struct ckpt_point *newest_of(const struct ckpt_chain *chain) {
    return &chain->points[chain->n - 1];
}

int shard_restore_fits(
    const struct ps_table *tables, uint32_t n, const struct ckpt_chain *chain, struct co_err *err) {
    const struct ckpt_point *p = newest_of(chain);
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        int at = find_saved(p, tables[i].name);
        rc = at < 0 ? co_err_set(err, CO_INVALID, "it has no table \"%s\"", tables[i].name)
                    : ps_fit_check(&tables[i], &p->tables[at], err);
    }
    return rc < 0 ? co_err_wrap(err, "checkpoint %llu in \"%s\" does not fit",
                        (unsigned long long)p->number, chain->dir)
                  : 0;
}

/* As many servers and shards as wrote it: each shard reads its own chunks. */
static bool is_alike(
    const struct ckpt_point *p, uint32_t server, uint32_t servers, uint32_t shards) {
    return p->n_parts == servers && p->parts[server].shards == shards;
}

int shard_restore_verify(const struct ckpt_chain *chain, uint32_t server, uint32_t servers,
    uint32_t shards, struct co_err *err) {
    const bool alike = is_alike(newest_of(chain), server, servers, shards);
    for (uint32_t i = 0; i < chain->n; i++) {
        for (uint32_t k = 0; k < chain->points[i].n_parts; k++) {
            CO_CLEANUP(ckpt_part_reader_closep) struct ckpt_part_reader *r = NULL;
            CO_TRY(alike && k != server ? ckpt_chain_part(chain, i, k, &r, err)
                                        : ckpt_chain_verify_part(chain, i, k, err));
        }
    }
    return 0;
}

static int open_sources(
    struct checkpoint_load *l, const struct ckpt_chain *chain, struct co_err *err) {
    const struct ckpt_point *p = newest_of(chain);
    const struct shard_config *c = &l->tables->config;
    size_t share = c->budget ? c->budget->max / GONE_SHARE / c->shards : 0;
    l->gone.max = share > GONE_FEW ? share : GONE_FEW;
    l->n = p->n_tables;
    l->sources = co_xcalloc(l->n, sizeof(*l->sources));
    for (uint32_t i = 0; i < l->tables->config.n_tables; i++) {
        struct shard_table *st = &l->tables->tables[i];
        struct source *s = &l->sources[find_saved(p, st->table->name)];
        s->saved = &p->tables[s - l->sources];
        s->to = st;
        if (l->tables->config.index == 0) {
            ps_fit_say(st->table, s->saved);
        }
        struct rt_table_spec spec = ps_table_spec_of(s->saved);
        int rc = ps_table_make(&spec, &s->was, err);
        if (rc < 0) {
            return co_err_wrap(err, "checkpoint in \"%s\"", chain->dir);
        }
        if (s->saved->sparse) {
            s->gone =
                table_store_new(&(struct table_store_shape){.dim = 1, .storage = RT_F32}, &l->gone);
            l->gone.max += GONE_TABLE;
            s->row = co_xcalloc(ps_table_row(st->table), sizeof(float));
        }
    }
    return 0;
}

static void close_sources(struct checkpoint_load *l) {
    for (uint32_t i = 0; l->sources && i < l->n; i++) {
        table_store_free(l->sources[i].gone);
        free(l->sources[i].row);
    }
    free(l->sources);
}

/* ---- sparse ---- */

/* Whether the id is this shard's, and of this pass. */
static bool is_mine(const struct checkpoint_load *l, uint64_t id) {
    const struct shard_config *c = &l->tables->config;
    return ps_sparse_server(id, c->servers) == c->server &&
           ps_sparse_shard(id, c->shards) == c->index && place_of(id) - l->from < l->width;
}

/* Prepares the next GROUP rows: brings those into memory that were read before and are on disk now,
 * and makes room for the others. */
static int bring_rows(const struct checkpoint_load *l, const struct source *s,
    const unsigned char *data, size_t each, uint32_t n, struct co_err *err) {
    uint64_t ids[GROUP];
    uint32_t mine = 0;
    for (uint32_t i = 0; s->to->cold && i < n && i < GROUP; i++, data += each) {
        uint64_t id = co_get_u64(data);
        bool wanted = is_mine(l, id) && table_store_find(s->gone, id) == TABLE_SLOT_NONE;
        ids[mine] = id;
        mine += wanted;
    }
    return shard_cold_bring(s->to, ids, mine, err);
}

static int take_rows(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct checkpoint_load *l = arg;
    struct source *s = &l->sources[c->table];
    if (!s->to) {
        return 0;
    }
    size_t each = ckpt_rows_bytes(s->saved, 1);
    for (uint32_t i = 0; i < c->items; i++, data += each) {
        uint64_t id = co_get_u64(data);
        uint32_t slot;
        bool fresh;
        if (i % GROUP == 0) {
            CO_TRY(bring_rows(l, s, data, each, c->items - i, err));
        }
        if (!is_mine(l, id) || table_store_find(s->gone, id) != TABLE_SLOT_NONE) {
            continue;
        }
        int rc = table_store_make(s->to->rows, id, &slot, &fresh, err);
        if (rc < 0) {
            return co_err_wrap(err, "table \"%s\"", s->saved->name);
        }
        if (fresh) {
            ps_fit_row(s->to->table, s->saved, data + 8, s->row);
            shard_row_load(s->to, slot, s->row);
        }
    }
    return 0;
}

static int take_erased(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct checkpoint_load *l = arg;
    struct source *s = &l->sources[c->table];
    if (!s->to) {
        return 0;
    }
    for (uint32_t i = 0; i < c->items; i++, data += 8) {
        uint32_t slot;
        bool fresh;
        uint64_t id = co_get_u64(data);
        int rc = is_mine(l, id) ? table_store_make(s->gone, id, &slot, &fresh, err) : 0;
        if (rc < 0) {
            l->crowded = rc == CO_NORESOURCE;
            return co_err_wrap(err, "table \"%s\": erased ids", s->saved->name);
        }
    }
    return 0;
}

/* ---- dense ---- */

/* Copies those values of a chunk, with their state, that belong to a block.  at: where the block
 * begins in the vector.  Returns how many values that are. */
static size_t take_overlap(const struct source *s, struct shard_dense_block *b, uint64_t at,
    const struct ckpt_part_chunk *c, const unsigned char *data) {
    uint64_t from = c->begin > at ? c->begin : at;
    uint64_t to = c->begin + c->items < at + b->n ? c->begin + c->items : at + b->n;
    if (from >= to) {
        return 0;
    }
    size_t skip = (size_t)(from - c->begin), put = (size_t)(from - at), n = (size_t)(to - from);
    const struct optim_rule *rule = s->was.optim.rule;
    size_t plane = co_size_mul(c->items, sizeof(float));
    co_copy_f32(b->w + put, data + skip * 4, n);
    if (!ps_fit_same_rule(s->to->table, s->saved)) {
        return n;
    }
    for (size_t p = 0; p < rule->planes; p++) {
        co_copy_f32(b->state + p * b->n + put, data + (1 + p) * plane + skip * 4, n);
    }
    if (rule->scalars > 0) {
        co_copy_f32(
            b->state + rule->planes * b->n, data + (1 + rule->planes) * plane, rule->scalars);
    }
    return n;
}

static int take_dense(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct checkpoint_load *l = arg;
    struct source *s = &l->sources[c->table];
    if (!s->to) {
        return 0;
    }
    const struct optim_rule *rule = s->was.optim.rule;
    uint64_t floats = co_size_add(co_size_mul(c->items, 1 + rule->planes), rule->scalars);
    if (c->bytes != co_size_mul(floats, sizeof(float))) { /* the rule is not that of the state */
        return co_err_set(err, CO_DAMAGED,
            "\"%s\": table \"%s\": %u values of optimizer \"%s\" have %u bytes", l->dir,
            s->saved->name, c->items, s->saved->optimizer, c->bytes);
    }
    const struct ps_shard_position here = shard_here(&l->tables->config);
    struct ps_range part = ps_dense_share(s->to->table, &here);
    for (uint32_t i = 0; i < s->to->n_blocks; i++) {
        l->values += take_overlap(s, &s->to->blocks[i], ps_dense_chunk(part, i).begin, c, data);
    }
    return 0;
}

/* ---- learning rates ---- */

/* All shards take the rates of the checkpoint's first shard.  A rate that rt_set_rate has changed
 * stays in effect, unless the lr of the spec was changed since: then the user wants that one. */
static int take_rate(
    void *arg, const struct ckpt_part_chunk *c, const unsigned char *data, struct co_err *err) {
    struct checkpoint_load *l = arg;
    struct source *s = &l->sources[c->table];
    (void)err;
    if (!s->to) {
        return 0;
    }
    uint64_t bits = co_get_u64(data + 8);
    double lr;
    memcpy(&lr, &bits, sizeof(lr));
    bool same = s->was.optim.hyper[OPTIM_LR] == s->to->table->optim.hyper[OPTIM_LR];
    lr = same ? lr : s->to->lr;
    if (isfinite(lr)) {
        shard_rate_set(s->to, co_get_u64(data), lr);
    }
    return 0;
}

/* ---- all ---- */

void shard_tables_clear(struct shard_tables *t) {
    t->ticks = 0;
    for (uint32_t i = 0; i < t->config.n_tables; i++) {
        struct shard_table *st = &t->tables[i];
        shard_rate_init(st);
        for (uint32_t k = 0; k < st->n_blocks; k++) {
            struct shard_dense_block *b = &st->blocks[k];
            memset(b->w, 0, b->n * sizeof(float));
            b->pushed = false;
            b->knows = SHARD_KNOWN_NOT;
            if (b->n_state > 0) {
                optim_state_init(&st->table->optim, b->n, b->state);
            }
        }
        if (st->rows) {
            table_store_empty(st->rows);
        }
        if (st->cold) {
            table_cold_clear(st->cold);
        }
        if (st->sums) {
            table_store_empty(st->sums);
        }
    }
}

static uint64_t count_values(const struct shard_tables *t) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < t->config.n_tables; i++) {
        for (uint32_t k = 0; k < t->tables[i].n_blocks; k++) {
            n += t->tables[i].blocks[k].n;
        }
    }
    return n;
}

/* Even if the number of shards is the same, some values may be in other shards' chunks: the job had
 * its tables in another order, or a version without ps_tables_take_turns wrote the checkpoint.  If
 * values are missing, this reads the chunks of all shards. */
static int load_dense(struct checkpoint_load *l, struct ckpt_walk *w, struct co_err *err) {
    w->kinds = 1U << CKPT_PART_DENSE;
    w->take = take_dense;
    CO_TRY(ckpt_walk_point(w, 0, err));
    if (w->one_shard && l->values < count_values(l->tables)) {
        w->one_shard = false;
        CO_TRY(ckpt_walk_point(w, 0, err));
    }
    for (uint32_t i = 1; i < w->chain->n; i++) {
        CO_TRY(ckpt_walk_point(w, i, err));
    }
    return 0;
}

/* Newest checkpoint first: the first version of a row that is met is its last one, unless the id
 * was erased later.  The rates of each point come before its rows: a row that counts its age in
 * steps counts it from the steps of the checkpoint that has it. */
static int load_points(struct checkpoint_load *l, struct ckpt_walk *w, struct co_err *err) {
    struct ckpt_walk rates = {.chain = w->chain,
        .arg = l,
        .one_shard = true,
        .kinds = 1U << CKPT_PART_RATE,
        .take = take_rate,
        .stop = w->stop};
    for (uint32_t i = w->chain->n; i > 0; i--) {
        CO_TRY(ckpt_walk_point(&rates, i - 1, err));
        w->kinds = 1U << CKPT_PART_ROWS;
        w->take = take_rows;
        CO_TRY(ckpt_walk_point(w, i - 1, err));
        if (i > 1) {
            w->kinds = 1U << CKPT_PART_ERASED;
            w->take = take_erased;
            CO_TRY(ckpt_walk_point(w, i - 1, err));
        }
    }
    return 0;
}

/* One pass over the rows of l->from .. l->from + l->width - 1. */
static int load_pass(struct checkpoint_load *l, struct ckpt_walk *w, struct co_err *err) {
    int rc = load_points(l, w, err);
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->sources[i].gone) { /* its memory is for all tables: the next pass divides it again */
            table_store_empty(l->sources[i].gone);
        }
    }
    return rc;
}

/* All rows in one pass or, if their memory does not suffice for the ids that were erased, in passes
 * of fewer ids.  A pass that breaks off may be repeated: what it has loaded is right. */
static int load_rows(struct checkpoint_load *l, struct ckpt_walk *w, struct co_err *err) {
    int rc = 0;
    l->width = PLACES;
    while (l->from < PLACES && rc == 0) {
        struct co_err why = {0};
        rc = load_pass(l, w, &why);
        if (rc == 0) {
            l->from += l->width;
        } else if (l->crowded && l->width > 1) {
            l->crowded = false;
            l->width /= 2;
            rc = 0;
        } else {
            rc = co_err_set(err, why.code, "%s", why.msg);
        }
    }
    return rc;
}

static int load_chain(
    struct checkpoint_load *l, const struct ckpt_chain *chain, struct co_err *err) {
    const struct shard_config *c = &l->tables->config;
    const struct ckpt_point *p = newest_of(chain);
    struct ckpt_walk w = {
        .chain = chain, .arg = l, .server = c->server, .shard = c->index, .stop = l->tables->stop};
    struct ckpt_walk rates = {.chain = chain,
        .arg = l,
        .one_shard = true,
        .kinds = 1U << CKPT_PART_RATE,
        .take = take_rate};
    w.one_shard = is_alike(p, c->server, c->servers, c->shards);
    CO_TRY(open_sources(l, chain, err));
    CO_TRY(load_rows(l, &w, err));
    CO_TRY(load_dense(l, &w, err));
    return ckpt_walk_point(&rates, chain->n - 1, err);
}

int shard_tables_restore(
    struct shard_tables *t, const struct ckpt_chain *chain, struct co_err *err) {
    CO_TRY(shard_restore_fits(t->config.tables, t->config.n_tables, chain, err));
    struct checkpoint_load l = {.dir = chain->dir, .tables = t};
    shard_tables_clear(t);
    int rc = load_chain(&l, chain, err);
    close_sources(&l);
    if (rc < 0) {
        shard_tables_clear(t);
    }
    return rc;
}
