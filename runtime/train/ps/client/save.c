/* Saves tables to files and loads them again (rt_save, rt_load).  The trainer that calls reads and
 * writes the files on its own machine; the servers see no files.  Runs on the caller's
 * thread; take_* and fill_* may run on others (call.h). */
#include <string.h>

#include "common/bytes.h"
#include "common/parse.h"
#include "runtime/train/ckpt/chain.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/fit.h"

enum { DENSE_CHUNK = 4 << 20 }; /* floats of a chunk in a file */

/* ---- dense: a file has one vector of values, then each plane of state, then scalars ---- */

/* Copies a chunk to its places in the whole vector.  A chunk has n values from `begin` on:
 *
 *     chunk  [values n | plane n | ... | scalars]
 *     whole  [values size | plane size | ... | scalars] */
static void spread_chunk(
    const struct ps_table *t, float *whole, const float *chunk, uint64_t begin, uint64_t n) {
    uint64_t size = t->spec.size;
    size_t planes = 1 + t->optim.rule->planes;
    for (size_t p = 0; p < planes; p++) {
        memcpy(whole + p * size + begin, chunk + p * n, n * sizeof(float));
    }
    memcpy(whole + planes * size, chunk + planes * n, t->optim.rule->scalars * sizeof(float));
}

/* Copies the other way. */
static void gather_chunk(
    const struct ps_table *t, const float *whole, float *chunk, uint64_t begin, uint64_t n) {
    uint64_t size = t->spec.size;
    size_t planes = 1 + t->optim.rule->planes;
    for (size_t p = 0; p < planes; p++) {
        memcpy(chunk + p * n, whole + p * size + begin, n * sizeof(float));
    }
    memcpy(chunk + planes * n, whole + planes * size, t->optim.rule->scalars * sizeof(float));
}

static int take_chunk(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    size_t want = p->n + ps_table_state(call->table, p->n);
    if (a->head.bytes != want * sizeof(float)) {
        return co_err_set(err, CO_INVALID, "%u bytes for %zu floats", a->head.bytes, want);
    }
    float *chunk = (float *)(void *)a->payload;
    co_copy_f32(chunk, chunk, want);
    spread_chunk(call->table, call->out, chunk, p->begin, p->n);
    return 0;
}

static int fetch_dense(struct rt_client *c, uint32_t table, float *whole, struct co_err *err) {
    struct rt_call *call = NULL;
    CO_TRY(psc_dense_call(c, "save", table, RPC_FRAME_GET_DENSE, NULL, &call, err));
    call->take = take_chunk;
    call->reads = true;
    call->out = whole;
    psc_call_start(call);
    return psc_call_wait(call, c->options.call_timeout_ms, err);
}

static size_t whole_floats(const struct ps_table *t) {
    return t->spec.size + ps_table_state(t, t->spec.size);
}

static int save_dense(
    struct rt_client *c, uint32_t table, struct ckpt_writer *w, struct co_err *err) {
    size_t n = whole_floats(&c->tables[table]);
    CO_AUTOFREE float *whole = co_xmalloc(n * sizeof(float));
    CO_TRY(fetch_dense(c, table, whole, err));
    co_copy_f32(whole, whole, n);
    for (size_t at = 0; at < n; at += DENSE_CHUNK) {
        size_t k = n - at < DENSE_CHUNK ? n - at : DENSE_CHUNK;
        CO_TRY(ckpt_chunk(w, (uint32_t)k, whole + at, k * sizeof(float), err));
    }
    return 0;
}

/* ---- sparse: a file has the answers of scans, unchanged ---- */

struct save {
    struct psc_scan scan;
    struct ckpt_writer *w;
    /* an answer: so many rows */
    uint32_t n;
    size_t bytes;
    unsigned char *rows; /* owned */
};

static int take_rows(struct psc_scan *scan, const struct rpc_frame *a, struct co_err *err) {
    struct save *s = (struct save *)scan;
    (void)err;
    s->n = a->head.count;
    s->bytes = a->head.bytes;
    s->rows = co_xrealloc(s->rows, s->bytes + 1, 1);
    if (s->bytes > 0) {
        memcpy(s->rows, a->payload, s->bytes);
    }
    return 0;
}

static int write_rows(struct psc_scan *scan, struct co_err *err) {
    struct save *s = (struct save *)scan;
    return s->n > 0 ? ckpt_chunk(s->w, s->n, s->rows, s->bytes, err) : 0;
}

static int save_sparse(struct rt_client *c, uint32_t table, struct ckpt_writer *w,
    enum rt_save_mode mode, struct co_err *err) {
    struct save s = {.scan = {.what = "save",
                         .kind = RPC_FRAME_SCAN_SPARSE,
                         .count = mode,
                         .take = take_rows,
                         .after = write_rows},
        .w = w};
    int rc = psc_sparse_scan(c, table, &s.scan, err);
    free(s.rows);
    return rc;
}

/* Describes what the spec does not say: an lr that was changed, and the steps that the schedule or
 * the rows' ages count. */
static int describe_rate(
    struct rt_client *c, uint32_t table, struct ckpt_table *ret, struct co_err *err) {
    const struct ps_table *t = &c->tables[table];
    struct rt_rate rate;
    CO_TRY(rt_get_rate(c, table, &rate, err));
    if (rate.lr != (double)t->optim.hyper[OPTIM_LR]) {
        (void)snprintf(ret->lr, sizeof(ret->lr), "%.17g", rate.lr);
    }
    bool counts = !optim_schedule_is_constant(&t->rates) || table_evict_by_steps(&t->evict);
    ret->steps = counts ? rate.steps : 0;
    return 0;
}

/* Restores an lr that was changed before the save.  If the spec's lr is not the one of the save,
 * the program wants that one.  A table in geo mode has the trainers' rate, which rt_set_rate does
 * not change: only the servers' steps are restored. */
static int load_rate(
    struct rt_client *c, uint32_t table, const struct ckpt_table *saved, struct co_err *err) {
    const struct ps_table *t = &c->tables[table];
    if (t->spec.mode == RT_GEO) {
        return psc_client_set_steps(c, table, saved->steps, err);
    }
    struct optim was;
    double lr = (double)t->optim.hyper[OPTIM_LR];
    CO_TRY(optim_parse(saved->optimizer, &was, err));
    if (saved->lr[0] && was.hyper[OPTIM_LR] == t->optim.hyper[OPTIM_LR]) {
        CO_TRY(co_parse_f64("lr", saved->lr, 0, 1e30, &lr, err));
    }
    CO_TRY(rt_set_rate(c, table, lr, err));
    return psc_client_set_steps(c, table, saved->steps, err);
}

int rt_save(struct rt_client *c, const char *dir, struct co_err *err) {
    return rt_save_as(c, dir, RT_SAVE_ALL, err);
}

static int save_table(struct rt_client *c, uint32_t table, struct ckpt_writer *w,
    enum rt_save_mode mode, struct co_err *err) {
    struct ckpt_table t;
    ps_table_describe(&c->tables[table], &t);
    t.adds = mode == RT_SAVE_DELTA && c->tables[table].evict.kind == TABLE_EVICT_CTR;
    CO_TRY(describe_rate(c, table, &t, err));
    CO_TRY(ckpt_begin(w, &t, err));
    CO_TRY(t.sparse ? save_sparse(c, table, w, mode, err) : save_dense(c, table, w, err));
    return ckpt_end(w, err);
}

static int save_tables(struct rt_client *c, const char *dir, enum rt_save_mode mode,
    struct ckpt_writer **ret, struct co_err *err) {
    CO_CLEANUP(ckpt_abortp) struct ckpt_writer *w = NULL;
    CO_TRY(psc_client_settle(c, err)); /* what was refused is not part of the model */
    CO_TRY(ckpt_create(dir, &w, err));
    for (uint32_t i = 0; i < c->n_tables; i++) {
        CO_TRY(save_table(c, i, w, mode, err));
    }
    *ret = co_steal_ptr(w);
    return 0;
}

int rt_save_as(struct rt_client *c, const char *dir, enum rt_save_mode mode, struct co_err *err) {
    struct ckpt_writer *w = NULL;
    CO_TRY(psc_client_whole(c, err));
    if (save_tables(c, dir, mode, &w, err) < 0) {
        return co_err_wrap(err, "save to \"%s\"", dir);
    }
    return ckpt_commit(w, err);
}

/* ---- load ---- */

/* Reads the first `want` floats of the file's vector.  CO_DAMAGED: it has fewer. */
static int read_vector(
    const struct ckpt *k, uint32_t index, float *to, size_t want, struct co_err *err) {
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = NULL;
    CO_TRY(ckpt_file_open(k, index, &f, err));
    size_t at = 0;
    for (;;) {
        uint32_t items;
        const void *data;
        size_t bytes;
        int ends = ckpt_next(f, &items, &data, &bytes, err);
        CO_TRY(ends);
        if (ends) {
            break;
        }
        size_t n = items < want - at ? items : want - at;
        co_copy_f32(to + at, data, n);
        at += n;
    }
    return at == want ? 0
                      : co_err_set(err, CO_DAMAGED, "\"%s\" has %zu values, expected %zu",
                            ckpt_table(k, index)->file, at, want);
}

static void fill_restore(
    const struct rt_call *call, const struct psc_part *p, unsigned char *payload) {
    float *chunk = (float *)(void *)payload;
    gather_chunk(call->table, call->in, chunk, p->begin, p->n);
    co_copy_f32(chunk, chunk, p->head.count);
}

static int load_dense(
    struct rt_client *c, uint32_t table, const struct ckpt *k, uint32_t index, struct co_err *err) {
    const struct ps_table *t = &c->tables[table];
    bool state = ps_fit_same_rule(t, ckpt_table(k, index));
    CO_AUTOFREE float *whole = co_xcalloc(whole_floats(t), sizeof(float));
    optim_state_init(&t->optim, t->spec.size, whole + t->spec.size);
    CO_TRY(read_vector(k, index, whole, state ? whole_floats(t) : t->spec.size, err));
    struct rt_call *call = NULL;
    CO_TRY(psc_dense_call(c, "load", table, RPC_FRAME_RESTORE_DENSE, whole, &call, err));
    call->fill = fill_restore;
    psc_call_start(call);
    return psc_call_wait(call, c->options.call_timeout_ms, err);
}

/* The rows of a chunk, with the state that this table's rule and policy need. */
static float *refit_rows(const struct ps_table *t, const struct ckpt_table *saved, uint32_t n,
    const float *rows, size_t *ret_stride) {
    size_t from = t->spec.dim + saved->state;
    size_t to = *ret_stride = ps_table_row(t);
    float *out = co_xmalloc(n * to * sizeof(float) + 1);
    for (uint32_t i = 0; i < n; i++) {
        ps_fit_row(t, saved, rows + i * from, out + i * to);
    }
    return out;
}

/* Rows that were made since the save are no part of it. */
static int load_sparse(
    struct rt_client *c, uint32_t table, const struct ckpt *k, uint32_t index, struct co_err *err) {
    CO_CLEANUP(ckpt_file_closep) struct ckpt_file *f = NULL;
    const struct ps_table *t = &c->tables[table];
    CO_TRY(ckpt_file_open(k, index, &f, err));
    if (!ckpt_table(k, index)->adds) {
        CO_TRY(psc_sparse_clear(c, table, err));
    }
    for (;;) {
        uint32_t n;
        const void *data;
        size_t bytes, stride;
        int ends = ckpt_next(f, &n, &data, &bytes, err);
        CO_TRY(ends);
        if (ends) {
            return rt_flush(c, err);
        }
        CO_AUTOFREE uint64_t *ids = co_xmalloc(n * sizeof(*ids));
        for (uint32_t i = 0; i < n; i++) {
            ids[i] = co_get_u64((const unsigned char *)data + i * 8UL);
        }
        const float *rows = (const float *)(const void *)((const char *)data + n * 8UL);
        CO_AUTOFREE float *fitted = refit_rows(t, ckpt_table(k, index), n, rows, &stride);
        CO_TRY(psc_send_rows(c, table, RPC_FRAME_RESTORE_SPARSE, ids, n, fitted, stride, err));
    }
}

static int check_tables(
    struct rt_client *c, const char *dir, const struct ckpt *k, struct co_err *err) {
    for (uint32_t i = 0; i < c->n_tables; i++) {
        int at = ckpt_find(k, c->tables[i].name);
        if (at < 0) {
            return co_err_set(err, CO_INVALID,
                "checkpoint \"%s\" does not fit: it has no table \"%s\"", dir, c->tables[i].name);
        }
        if (ps_fit_check(&c->tables[i], ckpt_table(k, (uint32_t)at), err) < 0) {
            return co_err_wrap(err, "checkpoint \"%s\" does not fit", dir);
        }
    }
    return 0;
}

static int load_tables(struct rt_client *c, const struct ckpt *k, struct co_err *err) {
    for (uint32_t i = 0; i < c->n_tables; i++) {
        uint32_t at = (uint32_t)ckpt_find(k, c->tables[i].name);
        ps_fit_say(&c->tables[i], ckpt_table(k, at));
        /* First the steps: rows may count their age in them. */
        CO_TRY(load_rate(c, i, ckpt_table(k, at), err));
        CO_TRY(c->tables[i].spec.kind == RT_DENSE ? load_dense(c, i, k, at, err)
                                                  : load_sparse(c, i, k, at, err));
    }
    return 0;
}

/* Some values of the tables are those of the save, others are not. */
static int tear(
    struct rt_client *c, const char *dir, const struct co_err *why, struct co_err *ret) {
    struct co_err err = {0};
    /* CO_NOTFOUND is what programs take for a fresh start. */
    co_err_set(&err, why->code == CO_NOTFOUND ? CO_UNAVAILABLE : why->code,
        "tables are loaded in part from \"%.200s\", and cannot be used before rt_load or "
        "rt_restore "
        "succeeds: %s",
        dir, why->msg);
    (void)psc_client_tear(c, &err);
    return co_err_set(ret, err.code, "%s", err.msg);
}

static int load_opened(
    struct rt_client *c, const char *dir, const struct ckpt *k, struct co_err *err) {
    CO_TRY(ckpt_verify(k, err)); /* all files, before the first is used */
    CO_TRY(check_tables(c, dir, k, err));
    CO_AUTOFREE uint64_t *servers = co_xcalloc(c->n_servers, sizeof(*servers));
    struct co_err why = {0};
    psc_client_servers(c, servers);
    (void)psc_client_tear(c, &why);
    psc_geo_forget(c->geo);
    /* Async mode continues with a server that came back with a checkpoint; what was loaded is
     * lost. */
    bool loaded = load_tables(c, k, &why) == 0 && psc_client_same_servers(c, servers, &why) == 0;
    return loaded ? 0 : tear(c, dir, &why, err);
}

/* ret_again: another save has taken its place meanwhile. */
static int load_newest(struct rt_client *c, const char *dir, bool *ret_again, struct co_err *err) {
    CO_CLEANUP(ckpt_closep) struct ckpt *k = NULL;
    *ret_again = false;
    CO_TRY(ckpt_open(dir, &k, err));
    int rc = load_opened(c, dir, k, err);
    *ret_again = rc == CO_DAMAGED && ckpt_is_replaced(k);
    return rc;
}

int rt_load(struct rt_client *c, const char *dir, struct co_err *err) {
    CO_TRY(psc_client_here(c, err));
    if (psc_client_behind(c)) {
        return 0;
    }
    CO_TRY(ckpt_expect(dir, CKPT_SAVE, err));
    c->progress.loads = true;
    struct co_err why = {0};
    int rc = 0;
    bool again = true;
    for (int i = 0; i < CKPT_READS_MAX && again; i++) {
        rc = load_newest(c, dir, &again, &why);
    }
    CO_TRY(rc < 0 ? co_err_set(err, rc, "%s", why.msg) : 0);
    psc_rates_forget(c);
    psc_saving_loaded(c);
    return 0;
}
