#include <string.h>

#include "runtime/train/ps/client_internal.h"
#include "runtime/train/rpc/bytes.h"

enum { IDS_MAX = 1 << 24 };

/* The rows of a group that go into one frame. */
static uint32_t rows_a_frame(size_t dim) {
    size_t row = 8 + dim * sizeof(float);
    return (uint32_t)(RT_SPARSE_FRAME / row > 0 ? RT_SPARSE_FRAME / row : 1);
}

struct batch {
    struct rt_ids ids;
    uint32_t per;    /* rows a frame */
    uint32_t *begin; /* [groups + 1] first part of the group */
};

static void batch_init(
    struct batch *b, const struct rt_client *c, const uint64_t *ids, uint32_t n, size_t dim) {
    uint32_t groups = c->base[c->n_links];
    rt_ids_init(&b->ids, ids, n, c->base, c->n_links);
    b->per = rows_a_frame(dim);
    b->begin = co_xcalloc((size_t)groups + 1, sizeof(*b->begin));
    for (uint32_t g = 0; g < groups; g++) {
        b->begin[g + 1] = b->begin[g] + (b->ids.count[g] + b->per - 1) / b->per;
    }
}

static void batch_done(struct batch *b) {
    rt_ids_done(&b->ids);
    free(b->begin);
}

/* The part that holds distinct id u, and its row there. */
static uint32_t part_of(const struct batch *b, uint32_t u, uint32_t *ret_row) {
    *ret_row = b->ids.place[u] % b->per;
    return b->begin[b->ids.target[u]] + b->ids.place[u] / b->per;
}

/* All parts of a request; floats and answer: payload floats a row that go and come. */
static void make_parts(struct rt_client *c, const struct batch *b, uint32_t table, uint8_t kind,
    size_t floats, size_t answer, struct rt_call *call) {
    for (uint32_t s = 0; s < c->n_links; s++) {
        for (uint32_t g = c->base[s]; g < c->base[s + 1]; g++) {
            uint32_t left = b->ids.count[g];
            for (uint32_t i = b->begin[g]; i < b->begin[g + 1]; i++) {
                uint32_t n = left < b->per ? left : b->per;
                struct rt_frame_head head = {.kind = kind,
                    .table = (uint16_t)table,
                    .shard = g - c->base[s],
                    .count = n,
                    .bytes = (uint32_t)(n * (8 + floats * sizeof(float)))};
                rt_call_part(call, i, s, &head, n * answer * sizeof(float));
                call->parts[i].n = n;
                left -= n;
            }
        }
    }
}

static int check_ids(struct rt_client *c, uint32_t table, size_t n,
    const struct rt_table **ret_table, struct co_err *err) {
    int rc = rt_client_table(c, table, RT_SPARSE, ret_table, err);
    if (rc == 0 && n > IDS_MAX) {
        return co_err_set(err, CO_INVALID, "%zu ids in one call, at most %d", n, IDS_MAX);
    }
    return rc;
}

/* Where the rows of a call's parts stand in what the caller gave; part i's begin at
 * parts[i].begin of first. */
struct places {
    size_t dim;          /* floats of a row */
    const uint64_t *ids; /* the caller's, for push */
    uint32_t *first;     /* by part and row: first place */
    uint32_t *next;      /* [n] next place with the same id, RT_NONE at the end */
};

static void places_free(struct places *p) {
    if (p) {
        free(p->first);
        free(p->next);
        free(p);
    }
}

static struct places *find_places(struct rt_call *call, const struct batch *b, size_t dim) {
    struct places *pl = co_xcalloc(1, sizeof(*pl));
    pl->dim = dim;
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

/* ---- pull ---- */

static int take_rows(
    struct rt_call *call, struct rt_part *p, const struct rt_frame *a, struct co_err *err) {
    const struct places *pl = call->arg;
    if (a->head.bytes != (uint64_t)p->n * pl->dim * sizeof(float)) {
        return co_err_set(
            err, CO_INVALID, "%u bytes for %u rows of %zu", a->head.bytes, p->n, pl->dim);
    }
    const unsigned char *row = a->payload;
    for (uint32_t k = 0; k < p->n; k++, row += pl->dim * sizeof(float)) {
        for (uint32_t i = pl->first[p->begin + k]; i != RT_NONE; i = pl->next[i]) {
            rt_copy_f32(call->out + i * pl->dim, row, pl->dim);
        }
    }
    return 0;
}

/* Ids are the caller's only until the call has started: frames are made at once, they are small
 * beside their answers. */
static int fill_ids(
    struct rt_call *call, const struct places *pl, const uint64_t *ids, struct co_err *err) {
    for (uint32_t i = 0; i < call->n_parts; i++) {
        struct rt_part *p = &call->parts[i];
        int rc = rt_frame_new(p->head.kind, p->head.bytes, &p->frame, err);
        if (rc < 0) {
            return rc;
        }
        p->frame->head = p->head;
        for (uint32_t k = 0; k < p->n; k++) {
            co_put_u64(p->frame->payload + k * 8UL, ids[pl->first[p->begin + k]]);
        }
    }
    return 0;
}

int rt_pull_sparse_start(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct rt_call **ret_call, struct co_err *err) {
    const struct rt_table *t = NULL;
    int rc = check_ids(c, table, n, &t, err);
    if (rc < 0) {
        return rc;
    }
    struct batch b;
    batch_init(&b, c, ids, (uint32_t)n, t->spec.dim);
    struct rt_call *call = rt_call_new(c, "pull", t, b.begin[c->base[c->n_links]]);
    make_parts(c, &b, table, RT_FRAME_PULL_SPARSE, 0, t->spec.dim, call);
    struct places *pl = find_places(call, &b, t->spec.dim);
    batch_done(&b);
    rc = fill_ids(call, pl, ids, err);
    if (rc < 0) {
        places_free(pl);
        rt_call_free(call);
        return rc;
    }
    call->arg = pl;
    call->take = take_rows;
    call->out = ret_rows;
    rt_call_start(call);
    *ret_call = call;
    return 0;
}

int rt_wait(struct rt_call *call, struct co_err *err) {
    struct places *pl = call->arg;
    int rc = rt_call_wait(call, call->c->options.call_timeout_ms, err);
    places_free(pl);
    return rc;
}

int rt_pull_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    float *ret_rows, struct co_err *err) {
    struct rt_call *call = NULL;
    int rc = rt_pull_sparse_start(c, table, ids, n, ret_rows, &call, err);
    return rc ? rc : rt_wait(call, err);
}

/* ---- push ---- */

static void fill_push(const struct rt_call *call, const struct rt_part *p, unsigned char *payload) {
    const struct places *pl = call->arg;
    /* Rows stand behind the ids; 8 n + 4 dim row keeps them aligned for floats. */
    float *to = (float *)(void *)(payload + p->n * 8UL);
    for (uint32_t k = 0; k < p->n; k++, to += pl->dim) {
        uint32_t at = pl->first[p->begin + k];
        co_put_u64(payload + k * 8UL, pl->ids[at]);
        memcpy(to, call->in + at * pl->dim, pl->dim * sizeof(float));
        for (at = pl->next[at]; at != RT_NONE; at = pl->next[at]) {
            for (size_t i = 0; i < pl->dim; i++) {
                to[i] += call->in[at * pl->dim + i];
            }
        }
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
        rt_copy_f32(to, to, pl->dim);
#endif
    }
}

static void push_over(struct rt_call *call) {
    places_free(call->arg);
    rt_call_free(call);
}

int rt_send_rows(struct rt_client *c, uint32_t table, uint8_t kind, const uint64_t *ids, size_t n,
    const float *rows, size_t floats, struct co_err *err) {
    const struct rt_table *t = NULL;
    int rc = check_ids(c, table, n, &t, err);
    if (rc < 0) {
        return rc;
    }
    struct batch b;
    batch_init(&b, c, ids, (uint32_t)n, floats);
    struct rt_call *call = rt_call_new(c, "push", t, b.begin[c->base[c->n_links]]);
    make_parts(c, &b, table, kind, floats, 0, call);
    struct places *pl = find_places(call, &b, floats);
    batch_done(&b);
    pl->ids = ids;
    call->arg = pl;
    call->in = rows;
    call->fill = fill_push;
    call->done = push_over;
    return rt_call_detach(call, true, err);
}

int rt_push_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    const float *gradients, struct co_err *err) {
    const struct rt_table *t = NULL;
    int rc = rt_client_table(c, table, RT_SPARSE, &t, err);
    return rc < 0
               ? rc
               : rt_send_rows(c, table, RT_FRAME_PUSH_SPARSE, ids, n, gradients, t->spec.dim, err);
}
