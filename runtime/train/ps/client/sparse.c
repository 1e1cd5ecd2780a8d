/* Sparse tables on a trainer: pull, push, scan and shrink.  A call takes each id once, groups the
 * ids by the shards that own their rows (ids.h), and sends each shard frames of ids and rows.
 *
 * Calls run on the program's threads and on the communicator's.  take_* run on the thread that read
 * the answer. */
#include <string.h>

#include "common/bytes.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/geo.h"
#include "runtime/train/ps/finite.h"

/* How many rows go into one frame.  bytes: of a row, without its id. */
static uint32_t rows_a_frame(size_t bytes) {
    size_t row = 8 + bytes;
    return (uint32_t)(PSC_SPARSE_FRAME / row > 0 ? PSC_SPARSE_FRAME / row : 1);
}

/* The distinct ids of a call, cut into parts.  A group is a shard, counted over all servers. */
struct batch {
    struct psc_ids ids;
    uint32_t per;    /* rows a frame */
    uint32_t *begin; /* [groups + 1] first part of the group */
};

static void batch_init(
    struct batch *b, const struct rt_client *c, const uint64_t *ids, uint32_t n, size_t bytes) {
    uint32_t groups = c->base[c->n_servers];
    psc_ids_init(&b->ids, ids, n, c->base, c->n_servers);
    b->per = rows_a_frame(bytes);
    b->begin = co_xcalloc((size_t)groups + 1, sizeof(*b->begin));
    for (uint32_t g = 0; g < groups; g++) {
        b->begin[g + 1] = b->begin[g] + (b->ids.count[g] + b->per - 1) / b->per;
    }
}

static void batch_done(struct batch *b) {
    psc_ids_done(&b->ids);
    free(b->begin);
}

/* The part that holds distinct id u.  *ret_row: the number of its row there. */
static uint32_t part_of(const struct batch *b, uint32_t u, uint32_t *ret_row) {
    *ret_row = b->ids.place[u] % b->per;
    return b->begin[b->ids.target[u]] + b->ids.place[u] / b->per;
}

/* Makes all parts of a request.  bytes: what is sent of a row, besides its id; answer: what comes
 * back. */
static void make_parts(struct rt_client *c, const struct batch *b, uint32_t table, uint8_t kind,
    size_t bytes, size_t answer, struct rt_call *call) {
    for (uint32_t s = 0; s < c->n_servers; s++) {
        for (uint32_t g = c->base[s]; g < c->base[s + 1]; g++) {
            uint32_t left = b->ids.count[g];
            for (uint32_t i = b->begin[g]; i < b->begin[g + 1]; i++) {
                uint32_t n = left < b->per ? left : b->per;
                struct rpc_frame_head head = {.kind = kind,
                    .table = (uint16_t)table,
                    .shard = g - c->base[s],
                    .count = n,
                    .bytes = (uint32_t)(n * (8 + bytes))};
                psc_call_part(call, i, s, &head, n * answer);
                call->parts[i].n = n;
                left -= n;
            }
        }
    }
}

int psc_sparse_check(struct rt_client *c, uint32_t table, size_t n,
    const struct ps_table **ret_table, struct co_err *err) {
    CO_TRY(psc_client_table(c, table, RT_SPARSE, ret_table, err));
    if (n > PSC_SPARSE_IDS_MAX) {
        return co_err_set(
            err, CO_INVALID, "%zu ids in one call, at most %d", n, PSC_SPARSE_IDS_MAX);
    }
    return 0;
}

/* Where the caller's arrays have the rows of a call's parts.  `first` has the parts one after the
 * other: part i begins at first[parts[i].begin]. */
struct places {
    size_t dim;                  /* floats of a row */
    enum rt_dtype wire;          /* the type in which rows travel */
    const uint64_t *ids;         /* the caller's, for push */
    const float *shows, *clicks; /* NULL: a push without them */
    uint32_t *first;             /* by part and row: the first place of its id */
    uint32_t *next;              /* [n] next place with the same id, PSC_NONE at the end */
};

static void places_free(struct places *p) {
    if (p) {
        free(p->first);
        free(p->next);
        free(p);
    }
}

static struct places *find_places(
    struct rt_call *call, const struct batch *b, size_t dim, enum rt_dtype wire) {
    struct places *pl = co_xcalloc(1, sizeof(*pl));
    pl->dim = dim;
    pl->wire = wire;
    pl->first = co_xmalloc(b->ids.n_unique * sizeof(*pl->first));
    pl->next = co_xmalloc(b->ids.n * sizeof(*pl->next));
    memcpy(pl->next, b->ids.next, b->ids.n * sizeof(*pl->next));
    uint64_t at = 0;
    for (uint32_t i = 0; i < call->n_parts; i++) {
        call->parts[i].begin = at;
        at += call->parts[i].n;
    }
    for (uint32_t u = 0; u < b->ids.n_unique; u++) {
        uint32_t row, i = part_of(b, u, &row);
        pl->first[call->parts[i].begin + row] = b->ids.first[u];
    }
    return pl;
}

/* How many rows of a part, from row k on, the caller's array has one after the other, each id once.
 * 0: the id of row k is there several times.  A call with one shard and distinct ids is one run,
 * and to copy 256 KiB at once takes half the time of a thousand rows: the processor need not read
 * what it overwrites. */
static uint32_t run_of(const struct places *pl, const struct psc_part *p, uint32_t k) {
    const uint32_t *at = &pl->first[p->begin + k];
    uint32_t n = 0, left = p->n - k;
    while (n < left && at[n] == at[0] + n && pl->next[at[n]] == PSC_NONE) {
        n++;
    }
    return n;
}

/* ---- pull ---- */

static int take_rows(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    const struct places *pl = call->arg;
    size_t bytes = pl->dim * table_storage_size(pl->wire);
    if (a->head.bytes != p->n * bytes) {
        return co_err_set(
            err, CO_INVALID, "%u bytes for %u rows of %zu", a->head.bytes, p->n, pl->dim);
    }
    const unsigned char *row = a->payload;
    for (uint32_t k = 0, run; k < p->n; k += run ? run : 1) {
        uint32_t i = pl->first[p->begin + k];
        run = run_of(pl, p, k);
        if (run > 0) {
            table_widen(pl->wire, call->out + i * pl->dim, row, run * pl->dim);
            row += run * bytes;
            continue;
        }
        for (; i != PSC_NONE; i = pl->next[i]) {
            table_widen(pl->wire, call->out + i * pl->dim, row, pl->dim);
        }
        row += bytes;
    }
    return 0;
}

/* Makes the frames at once, because the caller's ids are valid only until the call has started.
 * They are small compared with their answers. */
static int fill_ids(
    struct rt_call *call, const struct places *pl, const uint64_t *ids, struct co_err *err) {
    for (uint32_t i = 0; i < call->n_parts; i++) {
        struct psc_part *p = &call->parts[i];
        CO_TRY(rpc_frame_new(p->head.kind, p->head.bytes, &p->frame, err));
        p->frame->head = p->head;
        for (uint32_t k = 0; k < p->n; k++) {
            co_put_u64(p->frame->payload + k * 8UL, ids[pl->first[p->begin + k]]);
        }
    }
    return 0;
}

/* Makes a pull, and does not start it. */
static int make_pull(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct rt_call **ret_call, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_sparse_check(c, table, n, &t, err));
    struct batch b;
    size_t bytes = t->spec.dim * table_storage_size(t->wire);
    batch_init(&b, c, ids, (uint32_t)n, bytes);
    struct rt_call *call = psc_call_new(c, "pull", t, b.begin[c->base[c->n_servers]]);
    make_parts(c, &b, table, RPC_FRAME_PULL_SPARSE, 0, bytes, call);
    struct places *pl = find_places(call, &b, t->spec.dim, t->wire);
    batch_done(&b);
    int rc = fill_ids(call, pl, ids, err);
    if (rc < 0) {
        places_free(pl);
        psc_call_free(call);
        return rc;
    }
    call->arg = pl;
    call->take = take_rows;
    call->out = ret_rows;
    *ret_call = call;
    return 0;
}

int psc_pull_rows_start(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct rt_call **ret_call, struct co_err *err) {
    CO_TRY(make_pull(c, table, ids, n, ret_rows, ret_call, err));
    psc_call_start(*ret_call);
    return 0;
}

int psc_pull_rows_wait(struct rt_call *call, struct co_err *err) {
    struct places *pl = call->arg;
    int rc = psc_call_wait(call, call->c->options.call_timeout_ms, err);
    places_free(pl);
    return rc;
}

int rt_pull_sparse_start(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct rt_call **ret_call, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_sparse_check(c, table, n, &t, err));
    if (t->spec.mode == RT_GEO) {
        return psc_geo_pull_start(c->geo, table, ids, n, ret_rows, ret_call, err);
    }
    CO_TRY(psc_pull_rows_start(c, table, ids, n, ret_rows, ret_call, err));
    (*ret_call)->reads = true;
    return 0;
}

int rt_wait(struct rt_call *call, struct co_err *err) {
    CO_TRY(psc_client_here(call->c, err)); /* else the call stays: it is the parent's */
    return call->geo ? psc_geo_pull_wait(call, err) : psc_pull_rows_wait(call, err);
}

int rt_pull_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct co_err *err) {
    struct rt_call *call = NULL;
    CO_TRY(rt_pull_sparse_start(c, table, ids, n, ret_rows, &call, err));
    return rt_wait(call, err);
}

/* With geo tables, pulls one after the other: most rows are in the trainer's own copies, so little
 * travels. */
static int pull_in_turn(
    struct rt_client *c, const struct rt_pull *pulls, size_t n, struct co_err *err) {
    for (size_t i = 0; i < n; i++) {
        CO_TRY(rt_pull_sparse(c, pulls[i].table, pulls[i].ids, pulls[i].n, pulls[i].ret_rows, err));
    }
    return 0;
}

int rt_pull_sparse_many(
    struct rt_client *c, const struct rt_pull *pulls, size_t n, struct co_err *err) {
    struct rt_call *calls[RT_PULLS_MAX] = {NULL};
    size_t made = 0;
    int rc = n <= RT_PULLS_MAX ? 0
                               : co_err_set(err, CO_INVALID,
                                     "%zu pulls in one call, expected at most %d", n, RT_PULLS_MAX);
    if (rc == 0 && c->geo) {
        return pull_in_turn(c, pulls, n, err);
    }
    for (; made < n && rc == 0; made += rc == 0) {
        const struct rt_pull *p = &pulls[made];
        rc = make_pull(c, p->table, p->ids, p->n, p->ret_rows, &calls[made], err);
        if (rc == 0) {
            calls[made]->reads = true;
        }
    }
    if (rc == 0) {
        psc_calls_start(calls, n);
    }
    for (size_t i = 0; i < made; i++) {
        struct places *pl = calls[i]->arg;
        if (rc == 0) {
            rc = psc_call_wait(calls[i], c->options.call_timeout_ms, err);
        } else if (made == n) { /* no answer may write to the caller's rows after the return */
            (void)!psc_call_wait(calls[i], c->options.call_timeout_ms, NULL);
        } else {
            psc_call_free(calls[i]);
        }
        places_free(pl);
    }
    return rc;
}

/* ---- push ---- */

/* Sums show and click of one id over all its places. */
static void fill_clicks(const struct places *pl, uint32_t at, unsigned char *ret) {
    float sums[2] = {0, 0};
    for (; at != PSC_NONE; at = pl->next[at]) {
        sums[0] += pl->shows[at];
        sums[1] += pl->clicks[at];
    }
    co_copy_f32(ret, sums, 2);
}

/* Sums the rows of one id over all its places. */
static void fill_sum(const struct rt_call *call, uint32_t at, float *ret) {
    const struct places *pl = call->arg;
    memcpy(ret, call->in + at * pl->dim, pl->dim * sizeof(float));
    for (at = pl->next[at]; at != PSC_NONE; at = pl->next[at]) {
        for (size_t i = 0; i < pl->dim; i++) {
            ret[i] += call->in[at * pl->dim + i];
        }
    }
}

static void fill_push(
    const struct rt_call *call, const struct psc_part *p, unsigned char *payload) {
    const struct places *pl = call->arg;
    CO_AUTOFREE float *row = co_xmalloc(pl->dim * sizeof(float));
    const size_t bytes = pl->dim * table_storage_size(pl->wire);
    unsigned char *clicks = payload + p->n * 8UL;
    unsigned char *rows = clicks + (pl->shows ? p->n * 8UL : 0); /* aligned to 8 */
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t at = pl->first[p->begin + k];
        if (pl->shows) {
            fill_clicks(pl, at, clicks + k * 8UL);
        }
        co_put_u64(payload + k * 8UL, pl->ids[at]);
    }
    for (uint32_t k = 0, run; k < p->n; k += run ? run : 1) {
        uint32_t at = pl->first[p->begin + k];
        run = run_of(pl, p, k);
        if (run == 0) {
            fill_sum(call, at, row);
        }
        table_narrow(pl->wire, rows + k * bytes, run > 0 ? call->in + at * pl->dim : row,
            (run > 0 ? run : 1) * pl->dim);
    }
}

static void push_over(struct rt_call *call) {
    places_free(call->arg);
    psc_call_free(call);
}

/* What a push sends. */
struct push_payload {
    uint8_t kind;
    const uint64_t *ids;
    size_t n;
    const float *rows; /* [n][floats] */
    size_t floats;
    const float *shows, *clicks; /* [n] each, or NULL */
};

static int send_load(
    struct rt_client *c, uint32_t table, const struct push_payload *l, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_sparse_check(c, table, l->n, &t, err));
    struct batch b;
    enum rt_dtype wire = l->kind == RPC_FRAME_RESTORE_SPARSE ? RT_F32 : t->wire;
    size_t bytes = l->floats * table_storage_size(wire) + (l->shows ? 2 * sizeof(float) : 0);
    batch_init(&b, c, l->ids, (uint32_t)l->n, bytes);
    struct rt_call *call = psc_call_new(c, "push", t, b.begin[c->base[c->n_servers]]);
    make_parts(c, &b, table, l->kind, bytes, 0, call);
    struct places *pl = find_places(call, &b, l->floats, wire);
    batch_done(&b);
    pl->ids = l->ids;
    pl->shows = l->shows;
    pl->clicks = l->clicks;
    call->arg = pl;
    call->in = l->rows;
    call->fill = fill_push;
    call->done = push_over;
    return psc_call_detach(call, true, err);
}

/* Servers may refuse NaN and Inf.  A refused push must have no effect at all, but a shard that gets
 * none of the bad rows would apply its rows.  So only the bad rows are sent; the servers count and
 * name them. */
static int send_push(
    struct rt_client *c, uint32_t table, const struct push_payload *l, struct co_err *err) {
    if (ps_all_finite_f32(l->rows, l->n * l->floats) ||
        psc_client_nonfinite(c) > RT_NONFINITE_REFUSE) {
        return send_load(c, table, l, err);
    }
    CO_AUTOFREE uint64_t *ids = co_xmalloc(l->n * sizeof(*ids));
    CO_AUTOFREE float *rows = co_xmalloc(l->n * l->floats * sizeof(*rows));
    struct push_payload bad = {
        .kind = RPC_FRAME_PUSH_SPARSE, .ids = ids, .rows = rows, .floats = l->floats};
    for (size_t i = 0; i < l->n; i++) {
        const float *row = l->rows + i * l->floats;
        if (!ps_all_finite_f32(row, l->floats)) {
            ids[bad.n] = l->ids[i];
            memcpy(rows + bad.n++ * l->floats, row, l->floats * sizeof(*row));
        }
    }
    return send_load(c, table, &bad, err);
}

int psc_send_rows(struct rt_client *c, uint32_t table, uint8_t kind, const uint64_t *ids, size_t n,
    const float *rows, size_t floats, struct co_err *err) {
    const struct push_payload l = {
        .kind = kind, .ids = ids, .n = n, .rows = rows, .floats = floats};
    return kind == RPC_FRAME_PUSH_SPARSE ? send_push(c, table, &l, err)
                                         : send_load(c, table, &l, err);
}

int rt_push_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    const float *gradients, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_sparse_check(c, table, n, &t, err));
    CO_TRY(psc_client_refusal(c, err));
    if (t->spec.mode == RT_GEO) {
        return psc_geo_push_sparse(c->geo, table, ids, n, gradients, err);
    }
    if (c->communicator && t->spec.mode == RT_ASYNC) {
        return psc_communicator_push(c->communicator, table, ids, n, gradients, err);
    }
    return psc_send_rows(c, table, RPC_FRAME_PUSH_SPARSE, ids, n, gradients, t->spec.dim, err);
}

/* The servers check this too.  It is checked here for the same reason as in send_push. */
static int check_clicks(
    const struct ps_table *t, const struct push_payload *l, struct co_err *err) {
    for (size_t i = 0; i < 2 * l->n; i++) {
        float x = i % 2 ? l->clicks[i / 2] : l->shows[i / 2];
        if (!(x >= 0 && x <= PS_CLICKS_MAX)) {
            return co_err_set(err, CO_INVALID, "table \"%s\", row %llu: %s %g is not 0 to 1e9",
                t->name, (unsigned long long)l->ids[i / 2], i % 2 ? "click" : "show", (double)x);
        }
    }
    return 0;
}

int rt_push_sparse_clicks(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    const float *gradients, const float *shows, const float *clicks, struct co_err *err) {
    const struct ps_table *t = NULL;
    CO_TRY(psc_client_table(c, table, RT_SPARSE, &t, err));
    if (t->spec.mode == RT_GEO) {
        return co_err_set(err, CO_UNSUPPORTED,
            "table \"%s\" is in geo mode, which has no shows and clicks", t->name);
    }
    const struct push_payload l = {.kind = RPC_FRAME_PUSH_CLICKS,
        .ids = ids,
        .n = n,
        .rows = gradients,
        .floats = t->spec.dim,
        .shows = shows,
        .clicks = clicks};
    CO_TRY(check_clicks(t, &l, err));
    CO_TRY(psc_client_refusal(c, err));
    return send_push(c, table, &l, err);
}

/* ---- scan, shrink ---- */

static int take_slice(
    struct rt_call *call, struct psc_part *p, const struct rpc_frame *a, struct co_err *err) {
    struct psc_scan *s = call->arg;
    (void)p;
    s->next = a->head.aux;
    return s->take(s, a, err);
}

static int scan_shard(struct rt_client *c, uint32_t table, uint32_t server, uint32_t shard,
    struct psc_scan *s, struct co_err *err) {
    for (s->next = 0; s->next != UINT64_MAX;) {
        const struct rpc_frame_head head = {.kind = s->kind,
            .table = (uint16_t)table,
            .shard = shard,
            .aux = s->next,
            .count = s->count};
        struct rt_call *call = psc_call_new(c, s->what, &c->tables[table], 1);
        call->take = take_slice;
        call->reads = s->kind == RPC_FRAME_SCAN_SPARSE;
        call->arg = s;
        psc_call_part(call, 0, server, &head, 0);
        psc_call_start(call);
        CO_TRY(psc_call_wait(call, c->options.call_timeout_ms, err));
        if (s->after) {
            CO_TRY(s->after(s, err));
        }
    }
    return 0;
}

int psc_sparse_scan(struct rt_client *c, uint32_t table, struct psc_scan *s, struct co_err *err) {
    int rc = 0;
    for (uint32_t server = 0; server < c->n_servers; server++) {
        for (uint32_t g = c->base[server]; g < c->base[server + 1] && rc == 0; g++) {
            rc = scan_shard(c, table, server, g - c->base[server], s, err);
        }
    }
    return rc;
}

struct shrink {
    struct psc_scan scan;
    uint64_t erased; /* rows */
};

static int take_shrink(struct psc_scan *s, const struct rpc_frame *a, struct co_err *err) {
    (void)err;
    ((struct shrink *)s)->erased += a->head.count;
    return 0;
}

int psc_sparse_clear(struct rt_client *c, uint32_t table, struct co_err *err) {
    struct shrink s = {.scan = {.what = "load",
                           .kind = RPC_FRAME_SHRINK,
                           .count = RPC_FRAME_SHRINK_ALL,
                           .take = take_shrink}};
    return psc_sparse_scan(c, table, &s.scan, err);
}

int rt_shrink(struct rt_client *c, uint32_t table, uint64_t *ret_erased, struct co_err *err) {
    const struct ps_table *t = NULL;
    struct shrink s = {.scan = {.what = "shrink", .kind = RPC_FRAME_SHRINK, .take = take_shrink}};
    CO_TRY(psc_client_table(c, table, RT_SPARSE, &t, err));
    CO_TRY(rt_flush(c, err));
    CO_TRY(psc_sparse_scan(c, table, &s.scan, err));
    if (ret_erased) {
        *ret_erased = s.erased;
    }
    return 0;
}
