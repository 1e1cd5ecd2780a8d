/* The entry of every call: checks its arguments, then makes it on the GPU, in shared memory, or
 * with messages.  While started calls are pending, it goes through their queue (work.c), because
 * all ranks must make their calls in the same order. */
#include <string.h>

#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/gpu.h"

/* What a call of each kind needs.  peer: root names the other rank.  apart: cannot be in place, as
 * a part comes before all have gone out that it would replace. */
static const struct {
    const char *name;
    bool reduces, rooted, peer, counts, out_counts, apart;
} kinds[RT_KINDS] = {
    [RT_ALL_REDUCE] = {"all_reduce", .reduces = true},
    [RT_REDUCE] = {"reduce", .reduces = true, .rooted = true},
    [RT_BROADCAST] = {"broadcast", .rooted = true},
    [RT_ALL_GATHER] = {"all_gather"},
    [RT_ALL_GATHERV] = {"all_gatherv", .counts = true},
    [RT_REDUCE_SCATTER] = {"reduce_scatter", .reduces = true},
    [RT_SCATTER] = {"scatter", .rooted = true},
    [RT_GATHER] = {"gather", .rooted = true},
    [RT_ALL_TO_ALL] = {"all_to_all", .apart = true},
    [RT_ALL_TO_ALLV] = {"all_to_allv", .counts = true, .out_counts = true, .apart = true},
    [RT_SEND] = {"send", .rooted = true, .peer = true},
    [RT_RECV] = {"recv", .rooted = true, .peer = true},
    [RT_BARRIER] = {"barrier"},
};

const char *rt_kind_name(enum rt_kind kind) {
    return kind < RT_KINDS ? kinds[kind].name : "?";
}

int rt_call_differs(struct rt_group *g, uint32_t rank) {
    return rt_group_fail(g, CO_INVALID, g->size, true,
        "rank %u makes another call than rank %u, or with other arguments", rank, g->rank);
}

int rt_call_check(const struct rt_group *g, const struct rt_coll *c, struct co_err *err) {
    if (c->kind >= RT_KINDS || c->dtype >= RT_DTYPES || c->op >= RT_OPS) {
        return co_err_set(err, CO_INVALID, "no such call: kind %d, dtype %d, op %d", (int)c->kind,
            (int)c->dtype, (int)c->op);
    }
    const char *name = kinds[c->kind].name;
    bool integer = c->dtype == RT_I64 || c->dtype == RT_I32 || c->dtype == RT_U8;
    if (kinds[c->kind].reduces && c->op == RT_AVG && integer) {
        return co_err_set(err, CO_INVALID, "%s: no averages of %s", name, rt_dtype_name(c->dtype));
    }
    if (kinds[c->kind].rooted &&
        (c->root >= g->size || (kinds[c->kind].peer && c->root == g->rank))) {
        return co_err_set(err, CO_INVALID, "%s: root %u of %u ranks, called by rank %u", name,
            c->root, g->size, g->rank);
    }
    if ((kinds[c->kind].counts && !c->counts) || (kinds[c->kind].out_counts && !c->out_counts)) {
        return co_err_set(err, CO_INVALID, "%s: counts are missing", name);
    }
    if (kinds[c->kind].apart && c->in && c->in == c->out) {
        return co_err_set(
            err, CO_INVALID, "%s: not in place: in and out must be different buffers", name);
    }
    if (c->n > PTRDIFF_MAX / rt_dtype_size(c->dtype) / g->size) {
        return co_err_set(err, CO_INVALID, "%s: %zu elements", name, c->n);
    }
    return g->gpu ? rt_gpu_check(g, c, err) : 0;
}

typedef int (*call_fn)(struct rt_group *g, const struct rt_coll *c);

/* For groups on one machine.  NULL: the kind uses messages. */
static const call_fn in_memory[RT_KINDS] = {
    [RT_ALL_REDUCE] = rt_shm_all_reduce,
    [RT_REDUCE] = rt_shm_reduce,
    [RT_BROADCAST] = rt_shm_broadcast,
    [RT_ALL_GATHER] = rt_shm_all_gather,
    [RT_ALL_GATHERV] = rt_shm_all_gather,
    [RT_REDUCE_SCATTER] = rt_shm_reduce_scatter,
    [RT_BARRIER] = rt_shm_barrier,
};

/* A group of one rank: copies the input to the output. */
static void alone(const struct rt_coll *c) {
    size_t n = kinds[c->kind].counts && c->counts ? c->counts[0] : c->n;
    bool moves = c->kind != RT_BROADCAST && c->kind != RT_BARRIER;
    if (moves && c->in && c->out && c->in != c->out && n > 0) {
        memcpy(c->out, c->in, n * rt_dtype_size(c->dtype));
    }
}

int rt_call_host(struct rt_group *g, const struct rt_coll *c) {
    int code = atomic_load_explicit(&g->failed, memory_order_acquire);
    if (code < 0) {
        return code;
    }
    g->patience = (struct rt_patience){0};
    if (g->n_local == g->size && in_memory[c->kind] && g->size > 1) {
        return in_memory[c->kind](g, c);
    }
    if (g->size == 1) {
        alone(c);
        return 0;
    }
    return rt_hier_make(g, c);
}

int rt_call_make(struct rt_group *g, const struct rt_coll *c) {
    return g->gpu && rt_gpu_takes(g, c) ? rt_gpu_make(g, c, 1) : rt_call_host(g, c);
}

int rt_coll_run(struct rt_group *g, const struct rt_coll *call, struct co_err *err) {
    int rc = rt_call_check(g, call, err);
    if (rc < 0) {
        return rc;
    }
    if (__builtin_expect(rt_queue_busy(g), 0)) {
        struct rt_work *w = NULL;
        rc = rt_coll_start(g, call, &w, err);
        return rc < 0 ? rc : rt_work_wait(w, err);
    }
    rc = rt_call_make(g, call);
    if (__builtin_expect(rc < 0, 0)) {
        (void)rt_group_why(g, err);
        return co_err_wrap(err, "%s", kinds[call->kind].name);
    }
    return 0;
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
