/* Checks table specs, and computes which server, shard and chunk owns each value of a table.  Any
 * thread. */
#include "runtime/train/ps/spec.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/mem.h"
#include "common/mix.h"

static const char wire_int8[] = "int8";

static int check_name(const char *name, struct co_err *err) {
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t len = name ? strlen(name) : 0;
    if (len < 1 || len >= PS_TABLE_NAME_MAX || strspn(name, allowed) != len || name[0] == '.') {
        return co_err_set(err, CO_INVALID,
            "table name \"%.80s\" is not 1 to %d of letters, digits, '_', '-' and (not first) '.'",
            name ? name : "", PS_TABLE_NAME_MAX - 1);
    }
    return 0;
}

static int check_shape(const struct rt_table_spec *s, struct co_err *err) {
    if (s->kind == RT_DENSE && (s->size < 1 || s->size > PS_DENSE_SIZE_MAX)) {
        return co_err_set(err, CO_INVALID, "size %llu is not 1 to %llu",
            (unsigned long long)s->size, PS_DENSE_SIZE_MAX);
    }
    if (s->kind == RT_SPARSE && (s->dim < 1 || s->dim > PS_DIM_MAX)) {
        return co_err_set(err, CO_INVALID, "dim %u is not 1 to %d", s->dim, PS_DIM_MAX);
    }
    if (s->mode > RT_GEO) {
        return co_err_set(err, CO_INVALID,
            "mode %d is unknown, expected RT_ASYNC, RT_SYNC or RT_GEO", (int)s->mode);
    }
    if (s->kind != RT_DENSE && s->kind != RT_SPARSE) {
        return co_err_set(err, CO_INVALID, "kind %d is neither dense nor sparse", (int)s->kind);
    }
    return 0;
}

/* Refuses optimizers that need whole rows for dense tables, since those are cut into pieces. */
static int check_rule(const struct ps_table *t, struct co_err *err) {
    if (t->spec.kind == RT_DENSE && optim_is_whole(&t->optim)) {
        return co_err_set(err, CO_INVALID,
            "optimizer \"%s\" looks at whole rows (%s): a dense table, which is cut into pieces, "
            "cannot have it",
            t->optimizer, t->optim.rule->whole ? t->optim.rule->name : "clip_norm");
    }
    return 0;
}

static int set_rules(struct ps_table *t, const char *optimizer, struct co_err *err) {
    CO_TRY(optim_parse(optimizer, &t->optim, err));
    if (t->spec.mode == RT_GEO) {
        t->local_optim = t->optim;
        CO_TRY(optim_format(&t->local_optim, t->local, sizeof(t->local), err));
        CO_TRY(optim_parse("sum", &t->optim, err));
    }
    return optim_format(&t->optim, t->optimizer, sizeof(t->optimizer), err);
}

/* Copies text or, if there is none, `empty`. */
static int copy_text(const char *what, const char *text, const char *empty, char *ret, size_t size,
    struct co_err *err) {
    text = text && *text ? text : empty;
    if (strlen(text) >= size) {
        return co_err_set(err, CO_INVALID, "%s of %zu bytes is too long", what, strlen(text));
    }
    memcpy(ret, text, strlen(text) + 1);
    return 0;
}

static void point_spec(struct ps_table *t) {
    t->spec.name = t->name;
    t->spec.optimizer = t->spec.mode == RT_GEO ? t->local : t->optimizer;
    t->spec.init = t->init;
    t->spec.schedule = t->schedule;
    t->spec.storage = table_storage_name(t->storage);
    t->spec.wire = t->int8 ? wire_int8 : table_storage_name(t->wire);
    t->spec.admit = t->admit_text;
    t->spec.evict = t->evict_text;
}

/* The fields that only sparse tables use. */
static int make_rows(const struct rt_table_spec *spec, struct ps_table *t, struct co_err *err) {
    CO_TRY(table_storage_parse("storage", spec->storage, &t->storage, err));
    CO_TRY(table_admit_parse(spec->admit, &t->admit, err));
    t->zeros = t->admit.kind != TABLE_ADMIT_ALL;
    CO_TRY(table_evict_parse(spec->evict, &t->evict, err));
    CO_TRY(copy_text("admit", spec->admit, "", t->admit_text, sizeof(t->admit_text), err));
    return copy_text("evict", spec->evict, "", t->evict_text, sizeof(t->evict_text), err);
}

static int set_wire(const struct rt_table_spec *spec, struct ps_table *t, struct co_err *err) {
    t->int8 = spec->wire && strcmp(spec->wire, wire_int8) == 0;
    if (t->int8) {
        return spec->kind == RT_DENSE
                   ? 0
                   : co_err_set(err, CO_INVALID,
                         "wire \"%s\" is for dense tables, rows can have f16 or bf16", wire_int8);
    }
    return table_storage_parse("wire", spec->wire, &t->wire, err) == 0
               ? 0
               : co_err_set(err, CO_INVALID,
                     "wire \"%.40s\" is not f32, f16, bf16 or (dense, sync) %s", spec->wire,
                     wire_int8);
}

static int make_parts(const struct rt_table_spec *spec, struct ps_table *t, struct co_err *err) {
    CO_TRY(check_shape(spec, err));
    CO_TRY(set_rules(t, spec->optimizer ? spec->optimizer : "sgd", err));
    CO_TRY(check_rule(t, err));
    CO_TRY(optim_initializer_parse(spec->init, spec->seed, &t->initializer, err));
    CO_TRY(optim_schedule_parse(spec->schedule, &t->rates, err));
    CO_TRY(copy_text("initializer", spec->init, "zero", t->init, sizeof(t->init), err));
    CO_TRY(
        copy_text("schedule", spec->schedule, "constant", t->schedule, sizeof(t->schedule), err));
    CO_TRY(set_wire(spec, t, err));
    return spec->kind == RT_SPARSE ? make_rows(spec, t, err) : 0;
}

int ps_table_make(const struct rt_table_spec *spec, struct ps_table *ret, struct co_err *err) {
    CO_TRY(check_name(spec->name, err));
    struct ps_table t = {.spec = *spec};
    if (make_parts(spec, &t, err) < 0) {
        return co_err_wrap(err, "table \"%s\"", spec->name);
    }
    /* ps_table_same must ignore fields that the kind does not use. */
    t.spec.size = spec->kind == RT_DENSE ? spec->size : 0;
    t.spec.dim = spec->kind == RT_SPARSE ? spec->dim : 0;
    (void)snprintf(t.name, sizeof(t.name), "%s", spec->name);
    *ret = t;
    point_spec(ret);
    return 0;
}

void ps_table_absent_row(const struct ps_table *t, uint64_t id, float *ret_row) {
    if (t->zeros) {
        memset(ret_row, 0, t->spec.dim * sizeof(float));
    } else {
        optim_initializer_row(&t->initializer, id, t->spec.dim, ret_row);
    }
}

static const char *kind_name(const struct ps_table *t) {
    return t->spec.kind == RT_DENSE ? "dense" : "sparse";
}

const char *ps_mode_name(enum rt_mode mode) {
    static const char *const names[] = {
        [RT_MODE_UNSET] = "unset", [RT_ASYNC] = "async", [RT_SYNC] = "sync", [RT_GEO] = "geo"};
    return (size_t)mode < CO_ARRAY_LEN(names) ? names[mode] : "unknown";
}

int ps_table_fits(const struct ps_table *t, enum rt_mode job, struct co_err *err) {
    if (t->spec.mode == RT_SYNC && job != RT_SYNC) {
        return co_err_set(err, CO_INVALID,
            "table \"%s\" is in sync mode, which needs a job in sync mode, not in %s", t->name,
            ps_mode_name(job));
    }
    if (t->int8 && t->spec.mode != RT_SYNC) {
        return co_err_set(err, CO_INVALID,
            "table \"%s\" has wire \"%s\", which needs sync mode, not %s: f16 and bf16 can have "
            "any",
            t->name, wire_int8, ps_mode_name(t->spec.mode));
    }
    return 0;
}

int ps_table_same(const struct ps_table *t, const struct ps_table *as, struct co_err *err) {
    const struct {
        const char *name;
        bool equal;
        const char *is, *expected;
    } texts[] = {
        {"name", strcmp(t->name, as->name) == 0, t->name, as->name},
        {"kind", t->spec.kind == as->spec.kind, kind_name(t), kind_name(as)},
        {"optimizer", strcmp(t->spec.optimizer, as->spec.optimizer) == 0, t->spec.optimizer,
            as->spec.optimizer},
        {"init", strcmp(t->init, as->init) == 0, t->init, as->init},
        {"schedule", strcmp(t->schedule, as->schedule) == 0, t->schedule, as->schedule},
        {"storage", t->storage == as->storage, t->spec.storage, as->spec.storage},
        {"wire", t->wire == as->wire && t->int8 == as->int8, t->spec.wire, as->spec.wire},
        {"admit", table_policy_equal(&t->admit, &as->admit), t->admit_text, as->admit_text},
        {"evict", table_policy_equal(&t->evict, &as->evict), t->evict_text, as->evict_text},
        {"mode", t->spec.mode == as->spec.mode, ps_mode_name(t->spec.mode),
            ps_mode_name(as->spec.mode)},
    };
    const struct {
        const char *name;
        uint64_t is, expected;
    } numbers[] = {
        {"size", t->spec.size, as->spec.size},
        {"dim", t->spec.dim, as->spec.dim},
        {"seed", t->spec.seed, as->spec.seed},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        if (!texts[i].equal) {
            return co_err_set(err, CO_INVALID, "%s is \"%.160s\", expected \"%.160s\"",
                texts[i].name, texts[i].is, texts[i].expected);
        }
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(numbers); i++) {
        if (numbers[i].is != numbers[i].expected) {
            return co_err_set(err, CO_INVALID, "%s is %llu, expected %llu", numbers[i].name,
                (unsigned long long)numbers[i].is, (unsigned long long)numbers[i].expected);
        }
    }
    return 0;
}

size_t ps_table_state(const struct ps_table *t, size_t n) {
    return optim_state_floats(&t->optim, n);
}

void ps_mean(float *g, size_t n, uint32_t by) {
    if (by > 1) {
        for (size_t i = 0; i < n; i++) {
            g[i] /= (float)by;
        }
    }
}

size_t ps_table_row(const struct ps_table *t) {
    return t->spec.dim + ps_table_state(t, t->spec.dim) + table_evict_words(&t->evict);
}

void ps_tables_take_turns(struct ps_table *tables, uint32_t n) {
    uint32_t turn = 0;
    for (uint32_t i = 0; i < n; i++) {
        tables[i].turn = tables[i].spec.kind == RT_DENSE ? turn++ : 0;
    }
}

/* Cuts a range into `parts` and returns part i.  Later parts may be empty. */
static struct ps_range cut(struct ps_range whole, uint32_t parts, uint32_t i) {
    uint64_t per = (whole.n + parts - 1) / parts;
    per = (per + 15) / 16 * 16; /* 64 bytes: parts share no cache line */
    uint64_t begin = per * i < whole.n ? per * i : whole.n;
    uint64_t left = whole.n - begin;
    return (struct ps_range){whole.begin + begin, left < per ? left : per};
}

struct ps_range ps_dense_share(const struct ps_table *t, const struct ps_shard_position *p) {
    struct ps_range whole = {0, t->spec.size};
    uint32_t server = t->turn % p->servers, shard = t->turn / p->servers % p->shards;
    struct ps_range part = cut(whole, p->servers, (p->server + p->servers - server) % p->servers);
    return cut(part, p->shards, (p->shard + p->shards - shard) % p->shards);
}

/* Of a shard with n floats. */
static uint64_t chunk_floats(uint64_t n) {
    return n > PS_DENSE_MANY ? PS_DENSE_CHUNK_LARGE : PS_DENSE_CHUNK;
}

uint32_t ps_dense_chunks(uint64_t n) {
    return (uint32_t)((n + chunk_floats(n) - 1) / chunk_floats(n));
}

struct ps_range ps_dense_chunk(struct ps_range shard, uint32_t chunk) {
    uint64_t most = chunk_floats(shard.n), at = chunk * most;
    uint64_t left = at < shard.n ? shard.n - at : 0;
    return (struct ps_range){shard.begin + at, left < most ? left : most};
}

uint32_t ps_sparse_server(uint64_t id, uint32_t servers) {
    return (uint32_t)((co_mix64(id) >> 32) * servers >> 32);
}

uint32_t ps_sparse_shard(uint64_t id, uint32_t shards) {
    return (uint32_t)((co_mix64(id) & 0xffffffffU) * shards >> 32);
}

bool ps_sparse_all_live(
    const struct ps_shard_position *p, const uint64_t *ids, size_t n, size_t *ret_i) {
    for (size_t i = 0; (p->servers > 1 || p->shards > 1) && i < n; i++) {
        uint64_t mix = co_mix64(ids[i]);
        if ((mix >> 32) * p->servers >> 32 != p->server ||
            (mix & 0xffffffffU) * p->shards >> 32 != p->shard) {
            *ret_i = i;
            return false;
        }
    }
    return true;
}

int rt_table_init_row(
    const struct rt_table_spec *spec, uint64_t id, float *ret_row, struct co_err *err) {
    struct optim_initializer in;
    CO_TRY(optim_initializer_parse(spec->init, spec->seed, &in, err));
    optim_initializer_row(&in, id, spec->dim, ret_row);
    return 0;
}

uint64_t ps_incarnation(void) {
    uint64_t n = 0;
    while (n == 0) {
        ssize_t got = getrandom(&n, sizeof(n), 0);
        n = got == (ssize_t)sizeof(n) ? n : 0; /* a signal may interrupt it early at boot */
    }
    return n;
}
