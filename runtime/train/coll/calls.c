/* The entry of every call: checks its arguments, then makes it on the GPU, in shared memory, or
 * with messages.  While started calls are pending, it goes through their queue (work.c), because
 * all ranks must make their calls in the same order. */
#include <assert.h>
#include <string.h>

#include "common/size.h"
#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/gpu.h"

const struct coll_needs coll_kinds[RT_KINDS] = {
    [RT_ALL_REDUCE] = {"all_reduce", .moves = true, .reduces = true},
    [RT_REDUCE] = {"reduce", .moves = true, .reduces = true, .rooted = true, .to_root = true},
    [RT_BROADCAST] = {"broadcast", .moves = true, .rooted = true},
    [RT_ALL_GATHER] = {"all_gather", .moves = true},
    [RT_ALL_GATHERV] = {"all_gatherv", .moves = true, .counts = true},
    [RT_REDUCE_SCATTER] = {"reduce_scatter", .moves = true, .reduces = true},
    [RT_SCATTER] = {"scatter", .moves = true, .rooted = true},
    [RT_GATHER] = {"gather", .moves = true, .rooted = true, .to_root = true},
    [RT_ALL_TO_ALL] = {"all_to_all", .moves = true, .apart = true},
    [RT_ALL_TO_ALLV] = {"all_to_allv", .moves = true, .counts = true, .out_counts = true,
        .apart = true},
    [RT_SEND] = {"send", .moves = true, .rooted = true, .to_root = true, .peer = true},
    [RT_RECV] = {"recv", .moves = true, .rooted = true, .peer = true},
    [RT_BARRIER] = {"barrier"},
};

const char *rt_kind_name(enum rt_kind kind) {
    return kind < RT_KINDS ? coll_kinds[kind].name : "?";
}

const struct coll_use_name *coll_use_name(enum rt_kind kind, unsigned op) {
    static const struct coll_use_name names[] = {
        [COLL_USE_SPLIT - RT_OPS] = {"split"},
        [COLL_USE_REDUCER - RT_OPS] = {"comparison of gradient lists"},
        [COLL_USE_COMPRESSED - RT_OPS] = {"all_gather of compressed gradients", .sized = true},
        [COLL_USE_NORM - RT_OPS] = {"batch normalisation", .sized = true},
        [COLL_USE_GROW - RT_OPS] = {"comparison of the larger group's options"},
        [COLL_USE_LOCAL_SGD - RT_OPS] = {"comparison of local SGD's steps"},
        [COLL_USE_NEWEST - RT_OPS] = {"broadcast of the newest values"},
    };
    bool used = kind == RT_ALL_GATHER && op >= RT_OPS && op < COLL_USES;
    return used ? &names[op - RT_OPS] : NULL;
}

const char *coll_call_name(const struct rt_coll *c) {
    const struct coll_use_name *use = coll_use_name(c->kind, c->op);
    return use ? use->text : rt_kind_name(c->kind);
}

/* ---- arguments ---- */

/* The part of a rank among what a call gathers or deals out, in elements. */
static size_t counted(const size_t *counts, size_t n, uint32_t ranks) {
    uint64_t sum = counts ? 0 : ranks * n;
    for (uint32_t r = 0; counts && r < ranks; r++) {
        sum = co_size_add(sum, counts[r]);
    }
    return sum;
}

/* The lengths of this rank's buffers in elements, 0 where it has none, and where in `out` its own
 * part is, which `in` may be as well. */
static void extents(const struct rt_group *g, const struct rt_coll *c, size_t *ret_in,
    size_t *ret_out, size_t *ret_own) {
    size_t n = c->n, all = g->size * n;
    bool root = c->root == g->rank;
    *ret_in = *ret_out = n;
    *ret_own = 0;
    switch (c->kind) {
    case RT_REDUCE:
        *ret_out = root ? n : 0;
        break;
    case RT_ALL_GATHER:
    case RT_GATHER:
        *ret_out = c->kind == RT_ALL_GATHER || root ? all : 0;
        *ret_own = g->rank * n;
        break;
    case RT_ALL_GATHERV:
        *ret_in = c->counts[g->rank];
        *ret_out = counted(c->counts, 0, g->size);
        *ret_own = counted(c->counts, 0, g->rank);
        break;
    case RT_REDUCE_SCATTER:
        *ret_in = all;
        break;
    case RT_SCATTER:
        *ret_in = root ? all : 0;
        break;
    case RT_ALL_TO_ALL:
        *ret_in = *ret_out = all;
        break;
    case RT_ALL_TO_ALLV:
        *ret_in = counted(c->counts, 0, g->size);
        *ret_out = counted(c->out_counts, 0, g->size);
        break;
    case RT_SEND:
        *ret_out = 0;
        break;
    case RT_BROADCAST:
    case RT_RECV:
        *ret_in = 0;
        break;
    case RT_ALL_REDUCE:
        break;
    default: /* no buffer */
        *ret_in = *ret_out = 0;
        break;
    }
}

static int check_buffer(
    const struct rt_coll *c, const char *what, const void *buffer, size_t n, struct co_err *err) {
    const char *name = coll_kinds[c->kind].name, *dtype = rt_dtype_name(c->dtype);
    size_t size = rt_dtype_size(c->dtype);
    if (co_size_mul(n, size) > PTRDIFF_MAX) {
        return co_err_set(err, CO_INVALID, "%s: %s of %zu elements is too large", name, what, n);
    }
    if (n > 0 && !buffer) {
        return co_err_set(err, CO_INVALID, "%s: %s is NULL, expected %zu %s", name, what, n, dtype);
    }
    if (n > 0 && (uintptr_t)buffer % size != 0) {
        return co_err_set(err, CO_INVALID,
            "%s: %s is at %p, expected it aligned to %zu bytes for %s", name, what, buffer, size,
            dtype);
    }
    return 0;
}

static int check_places(const struct rt_group *g, const struct rt_coll *c, struct co_err *err) {
    size_t size = rt_dtype_size(c->dtype), n_in, n_out, own;
    uintptr_t in = (uintptr_t)c->in, out = (uintptr_t)c->out;
    extents(g, c, &n_in, &n_out, &own);
    CO_TRY(check_buffer(c, "in", c->in, n_in, err));
    CO_TRY(check_buffer(c, "out", c->out, n_out, err));
    if (in == out && !coll_kinds[c->kind].apart) {
        return 0;
    }
    bool apart = n_in == 0 || n_out == 0 || in + n_in * size <= out || out + n_out * size <= in;
    if (apart || (own > 0 && in == out + own * size)) {
        return 0;
    }
    const char *name = coll_kinds[c->kind].name;
    if (in == out) {
        return co_err_set(
            err, CO_INVALID, "%s: not in place: in and out must be different buffers", name);
    }
    return co_err_set(err, CO_INVALID,
        "%s: in (%zu bytes) begins %zu bytes %s out (%zu bytes) and overlaps it, expected %s", name,
        n_in * size, in < out ? out - in : in - out, in < out ? "before" : "behind", n_out * size,
        coll_kinds[c->kind].apart ? "buffers apart" : "the same place, or buffers apart");
}

int coll_call_check(const struct rt_group *g, const struct rt_coll *c, struct co_err *err) {
    if (c->kind >= RT_KINDS || c->dtype >= RT_DTYPES || c->op >= RT_OPS) {
        return co_err_set(err, CO_INVALID, "kind %d, dtype %d or op %d is not one of rt.h",
            (int)c->kind, (int)c->dtype, (int)c->op);
    }
    const struct coll_needs *k = &coll_kinds[c->kind];
    const char *name = k->name;
    bool integer = c->dtype == RT_I64 || c->dtype == RT_I32 || c->dtype == RT_U8;
    if (k->reduces && c->op == RT_AVG && integer) {
        return co_err_set(
            err, CO_INVALID, "%s: op avg has no meaning for %s", name, rt_dtype_name(c->dtype));
    }
    if (k->rooted && (c->root >= g->size || (k->peer && c->root == g->rank))) {
        return co_err_set(err, CO_INVALID, "%s %s rank %u, expected %s from 0 to %u", name,
            k->to_root ? "to" : "from", c->root, k->peer ? "another rank" : "a rank", g->size - 1);
    }
    if ((k->counts && !c->counts) || (k->out_counts && !c->out_counts)) {
        return co_err_set(err, CO_INVALID, "%s: counts are missing", name);
    }
    /* A product, as two divisions would take longer than the rest of the check. */
    if (co_size_mul(c->n, rt_dtype_size(c->dtype) * g->size) > PTRDIFF_MAX) {
        return co_err_set(err, CO_INVALID, "%s: %zu elements", name, c->n);
    }
    int rc = check_places(g, c, err);
    return rc == 0 && g->gpu ? coll_gpu_check(g, c, err) : rc;
}

/* ---- making a call ---- */

typedef int (*call_fn)(struct rt_group *g, const struct rt_coll *c);

/* For groups on one machine.  NULL: the kind uses messages. */
static const call_fn in_memory[RT_KINDS] = {
    [RT_ALL_REDUCE] = coll_shm_all_reduce,
    [RT_REDUCE] = coll_shm_reduce,
    [RT_BROADCAST] = coll_shm_broadcast,
    [RT_ALL_GATHER] = coll_shm_all_gather,
    [RT_ALL_GATHERV] = coll_shm_all_gather,
    [RT_REDUCE_SCATTER] = coll_shm_reduce_scatter,
    [RT_BARRIER] = coll_shm_barrier,
};

/* A group of one rank: copies the input to the output. */
static void alone(const struct rt_coll *c) {
    size_t n = coll_kinds[c->kind].counts && c->counts ? c->counts[0] : c->n;
    bool moves = c->kind != RT_BROADCAST && c->kind != RT_BARRIER;
    if (moves && c->in && c->out && c->in != c->out && n > 0) {
        memcpy(c->out, c->in, n * rt_dtype_size(c->dtype));
    }
}

int coll_call_host(struct rt_group *g, const struct rt_coll *c) {
    CO_TRY(atomic_load_explicit(&g->failed, memory_order_acquire));
    if (g->size == 1) {
        alone(c);
        return 0;
    }
    g->patience = (struct coll_patience){.call = c};
    if (coll_kinds[c->kind].peer) {
        return coll_hier_make(g, c);
    }
    coll_call_begin(g, c);
    int code = g->n_local == g->size && in_memory[c->kind] ? in_memory[c->kind](g, c)
                                                           : coll_hier_make(g, c);
    coll_call_end(g);
    if (__builtin_expect(code == 0 && atomic_load(&g->calls.goodbyes), 0)) {
        return coll_goodbyes_compare(g);
    }
    return code;
}

int coll_call_make(struct rt_group *g, const struct rt_coll *c) {
    return g->gpu && coll_gpu_takes(g, c) ? coll_gpu_make(g, c, 1) : coll_call_host(g, c);
}

int coll_call_run(struct rt_group *g, const struct rt_coll *call, struct co_err *err) {
    CO_TRY(coll_group_enter(g, coll_call_name(call), err));
    if (__builtin_expect(coll_queue_busy(g), 0)) {
        struct rt_work *w = NULL;
        int rc = coll_queue_add(g, call, &w, err);
        if (rc == 0) {
            rc = rt_work_wait(w, err);
        }
        coll_group_leave(g);
        return rc;
    }
    int rc = coll_call_make(g, call);
    coll_group_leave(g);
    if (__builtin_expect(rc < 0, 0)) {
        (void)coll_group_why(g, err);
        return co_err_wrap(err, "%s", coll_call_name(call));
    }
    return 0;
}

int rt_coll_run(struct rt_group *g, const struct rt_coll *call, struct co_err *err) {
    CO_TRY(coll_call_check(g, call, err));
    return coll_call_run(g, call, err);
}

/* A program cannot give such an op, so the check does not know it. */
static int check_used(const struct rt_group *g, const struct rt_coll *call, struct co_err *err) {
    struct rt_coll plain = *call;
    assert(coll_use_name(call->kind, call->op));
    plain.op = RT_SUM;
    return coll_call_check(g, &plain, err);
}

int coll_use_run(struct rt_group *g, enum coll_use use, const void *in, void *out, size_t n,
    enum rt_dtype dtype, struct co_err *err) {
    const struct rt_coll call = {
        .kind = RT_ALL_GATHER, .op = (enum rt_op)use, .dtype = dtype, .in = in, .out = out, .n = n};
    CO_TRY(check_used(g, &call, err));
    return coll_call_run(g, &call, err);
}

int coll_use_start(
    struct rt_group *g, const struct rt_coll *call, struct rt_work **ret_work, struct co_err *err) {
    CO_TRY(check_used(g, call, err));
    return coll_call_start(g, call, ret_work, err);
}

int rt_all_reduce(struct rt_group *g, const void *in, void *out, size_t n, enum rt_dtype dtype,
    enum rt_op op, struct co_err *err) {
    struct rt_coll c = {
        .kind = RT_ALL_REDUCE, .in = in, .out = out, .n = n, .dtype = dtype, .op = op};
    return rt_coll_run(g, &c, err);
}

int rt_reduce(struct rt_group *g, const void *in, void *out, size_t n, enum rt_dtype dtype,
    enum rt_op op, uint32_t root, struct co_err *err) {
    struct rt_coll c = {
        .kind = RT_REDUCE, .in = in, .out = out, .n = n, .dtype = dtype, .op = op, .root = root};
    return rt_coll_run(g, &c, err);
}

int rt_broadcast(struct rt_group *g, void *buffer, size_t n, enum rt_dtype dtype, uint32_t root,
    struct co_err *err) {
    struct rt_coll c = {.kind = RT_BROADCAST, .out = buffer, .n = n, .dtype = dtype, .root = root};
    return rt_coll_run(g, &c, err);
}

int rt_all_gather(struct rt_group *g, const void *in, void *out, size_t n, enum rt_dtype dtype,
    struct co_err *err) {
    struct rt_coll c = {.kind = RT_ALL_GATHER, .in = in, .out = out, .n = n, .dtype = dtype};
    return rt_coll_run(g, &c, err);
}

int rt_reduce_scatter(struct rt_group *g, const void *in, void *out, size_t n, enum rt_dtype dtype,
    enum rt_op op, struct co_err *err) {
    struct rt_coll c = {
        .kind = RT_REDUCE_SCATTER, .in = in, .out = out, .n = n, .dtype = dtype, .op = op};
    return rt_coll_run(g, &c, err);
}

int rt_send(struct rt_group *g, const void *in, size_t n, enum rt_dtype dtype, uint32_t to,
    struct co_err *err) {
    struct rt_coll c = {.kind = RT_SEND, .in = in, .n = n, .dtype = dtype, .root = to};
    return rt_coll_run(g, &c, err);
}

int rt_recv(struct rt_group *g, void *out, size_t n, enum rt_dtype dtype, uint32_t from,
    struct co_err *err) {
    struct rt_coll c = {.kind = RT_RECV, .out = out, .n = n, .dtype = dtype, .root = from};
    return rt_coll_run(g, &c, err);
}

int rt_group_barrier(struct rt_group *g, struct co_err *err) {
    struct rt_coll c = {.kind = RT_BARRIER};
    return rt_coll_run(g, &c, err);
}
