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

/* All frames of a request, empty rows; floats = payload floats a row. */
static int make_parts(struct rt_client *c, const struct batch *b, uint32_t table, uint8_t kind,
    size_t floats, struct rt_call *call, struct co_err *err) {
    for (uint32_t s = 0; s < c->n_links; s++) {
        for (uint32_t g = c->base[s]; g < c->base[s + 1]; g++) {
            uint32_t left = b->ids.count[g];
            for (uint32_t i = b->begin[g]; i < b->begin[g + 1]; i++) {
                uint32_t n = left < b->per ? left : b->per;
                struct rt_frame *f = NULL;
                int rc = rt_frame_new(kind, n * (8 + floats * sizeof(float)), &f, err);
                if (rc < 0) {
                    return rc;
                }
                f->head.table = (uint16_t)table;
                f->head.shard = g - c->base[s];
                f->head.count = n;
                rt_call_part(call, i, s, f);
                call->parts[i].n = n;
                left -= n;
            }
        }
    }
    return 0;
}

static int check_ids(struct rt_client *c, uint32_t table, size_t n,
    const struct rt_table **ret_table, struct co_err *err) {
    int rc = rt_client_table(c, table, RT_SPARSE, ret_table, err);
    if (rc == 0 && n > IDS_MAX) {
        return co_err_set(err, CO_INVALID, "%zu ids in one call, at most %d", n, IDS_MAX);
    }
    return rc;
}

/* ---- pull ---- */

/* What is needed to put answered rows where they belong. */
struct places {
    size_t dim;
    uint32_t *first; /* by part and row: first place, RT_NONE never */
    uint32_t *next;  /* [n] */
};

static void places_free(struct places *p) {
    free(p->first);
    free(p->next);
    free(p);
}

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

/* Fills ids and remembers the places; part i's rows begin at parts[i].begin of places.first. */
static struct places *fill_pull(
    struct rt_call *call, struct batch *b, const uint64_t *ids, size_t dim) {
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
        co_put_u64(call->parts[i].frame->payload + row * 8UL, ids[b->ids.first[u]]);
        pl->first[call->parts[i].begin + row] = b->ids.first[u];
    }
    return pl;
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
    rc = make_parts(c, &b, table, RT_FRAME_PULL_SPARSE, 0, call, err);
    if (rc == 0) {
        call->arg = fill_pull(call, &b, ids, t->spec.dim);
        call->take = take_rows;
        call->out = ret_rows;
        rt_call_start(call);
        *ret_call = call;
    } else {
        rt_call_free(call);
    }
    batch_done(&b);
    return rc;
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

static void fill_push(struct rt_call *call, const struct batch *b, const uint64_t *ids,
    const float *gradients, size_t dim) {
    for (uint32_t u = 0; u < b->ids.n_unique; u++) {
        uint32_t row, i = part_of(b, u, &row);
        struct rt_part *p = &call->parts[i];
        uint32_t at = b->ids.first[u];
        co_put_u64(p->frame->payload + row * 8UL, ids[at]);
        /* Rows stand behind the ids; 8 n + 4 dim row keeps them aligned for floats. */
        float *to = (float *)(void *)(p->frame->payload + p->n * 8UL) + row * dim;
        memcpy(to, gradients + at * dim, dim * sizeof(float));
        for (at = b->ids.next[at]; at != RT_NONE; at = b->ids.next[at]) {
            for (size_t k = 0; k < dim; k++) {
                to[k] += gradients[at * dim + k];
            }
        }
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
        rt_copy_f32(to, to, dim);
#endif
    }
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
    call->done = rt_call_free;
    rc = make_parts(c, &b, table, kind, floats, call, err);
    if (rc == 0) {
        fill_push(call, &b, ids, rows, floats);
        rc = rt_call_detach(call, true, err);
    } else {
        rt_call_free(call);
    }
    batch_done(&b);
    return rc;
}

int rt_push_sparse(struct rt_client *c, uint32_t table, const uint64_t *ids, size_t n,
    const float *gradients, struct co_err *err) {
    const struct rt_table *t = NULL;
    int rc = rt_client_table(c, table, RT_SPARSE, &t, err);
    return rc < 0
               ? rc
               : rt_send_rows(c, table, RT_FRAME_PUSH_SPARSE, ids, n, gradients, t->spec.dim, err);
}
