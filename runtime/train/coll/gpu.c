/* Calls on GPU buffers: chooses the GPU, forms an NCCL communicator, and waits for NCCL while it
 * watches the other ranks.  NCCL itself may wait for ever for a rank that has died. */
#include "runtime/train/coll/gpu.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/log.h"
#include "common/parse.h"
#include "runtime/train/nccl/cuda.h"
#include "runtime/train/nccl/nccl.h"

enum {
    BLAME_MS = 10000, /* how long to wait for signs of life of all others; they are asked every */
    ASK_MS = 5,
    END_MS = 5000,  /* for a healthy communicator to end */
    SPIN_MS = 2,    /* a wait first yields for this long */
    SHORT_MS = 100, /* then it polls the GPU every SHORT_NS until this time, later every LONG_NS */
    SHORT_NS = 50 * 1000,
    LONG_NS = 1000 * 1000,
};

struct coll_gpu {
    struct nccl_cuda *cuda;
    struct nccl *nccl;
    void *one; /* an f32 for barriers */
    char name[24];
};

/* ---- which GPU ---- */

static int parse_number(const char *text, int *ret) {
    int64_t n = 0;
    if (co_parse_i64("device", text, 0, INT16_MAX, &n, NULL) < 0) {
        return CO_INVALID;
    }
    *ret = 1 + (int)n;
    return 0;
}

int coll_gpu_parse(const char *device, int *ret, struct co_err *err) {
    if (!device || strcmp(device, "cpu") == 0) {
        *ret = 0;
        return 0;
    }
    if (strcmp(device, "gpu") == 0) {
        *ret = COLL_DEVICE_ANY;
        return 0;
    }
    if (strncmp(device, "gpu:", 4) == 0 && parse_number(device + 4, ret) == 0) {
        return 0;
    }
    return co_err_set(err, CO_INVALID, "device \"%.40s\": expected cpu, gpu or gpu:N", device);
}

/* COLL_DEVICE_ANY takes the first GPU of FLAGS_selected_gpus, whose numbers count visible GPUs
 * only, as CUDA's do. */
static int choose(const struct rt_group *g, uint32_t *ret, struct co_err *err) {
    int device = g->device;
    const char *name = co_contract[CO_VAR_SELECTED_GPUS].name;
    const char *text = co_contract_getenv(CO_VAR_SELECTED_GPUS);
    if (device == COLL_DEVICE_ANY && text && *text) {
        CO_AUTOFREE char *first = co_xstrndup(text, strcspn(text, ","));
        if (parse_number(first, &device) < 0) {
            return co_err_set(
                err, CO_INVALID, "%s is \"%.40s\": expected GPUs' numbers", name, text);
        }
    }
    *ret = device == COLL_DEVICE_ANY ? g->local : (uint32_t)device - 1;
    return 0;
}

/* ---- waiting ---- */

/* The waits of one call for the GPU.  Start with zeroes. */
struct watch {
    struct coll_patience patience;
    int64_t left_ms;             /* when another rank was first seen to be gone */
    const struct rt_coll *pairs; /* [n] sends and receives: only their ranks matter */
    uint32_t n;                  /* 0: a call of all ranks, all matter */
};

static bool matters(const struct rt_group *g, const struct watch *w, uint32_t r) {
    bool all = w->n == 0;
    for (uint32_t i = 0; i < w->n; i++) {
        all |= w->pairs[i].root == r;
    }
    return r != g->rank && all;
}

/* The deadline has passed.  All ranks have had time to answer in which call they are.
 * Blames, in this order, a rank that is silent, and one in an earlier call. */
static int give_up(struct rt_group *g, const struct watch *w) {
    CO_TRY(coll_group_silent(g, w->patience.asked_ms));
    uint64_t own = atomic_load(&g->calls.begun);
    for (uint32_t r = 0; r < g->size; r++) {
        if (matters(g, w, r) && (w->n > 0 || atomic_load(&g->peers[r].begun) < own)) {
            return coll_group_late(g, w->patience.call, r);
        }
    }
    return coll_group_fail(g, CO_TIMEOUT, g->size, true,
        "all ranks have come, but NCCL did not end within %lld ms (NCCL_DEBUG=INFO makes it say "
        "more)",
        (long long)g->call_ms);
}

/* Fails the group if a rank that matters closed its group COLL_LEFT_MS ago. */
static int leavers(struct rt_group *g, struct watch *w, int64_t now) {
    for (uint32_t r = 0; r < g->size; r++) {
        if (matters(g, w, r) && atomic_load_explicit(&g->peers[r].left, memory_order_acquire)) {
            w->left_ms = w->left_ms ? w->left_ms : now;
            if (now - w->left_ms >= COLL_LEFT_MS) {
                return coll_group_left(g, r);
            }
        }
    }
    return 0;
}

/* One turn of a wait.  0: ask the GPU again; else the group has failed. */
static int watch_turn(struct rt_group *g, struct watch *w) {
    int64_t now = co_now_ms();
    int code = coll_patience_fails(g, &w->patience, now);
    if (code < 0) {
        return code;
    }
    bool over = coll_patience_over(g, &w->patience, now, g->call_ms);
    int64_t waited = now - w->patience.begun_ms;
    /* Nothing is known of whom NCCL waits for.  Where calls differ, some rank's next one differs.
     */
    coll_patience_turn(g, &w->patience, w->n > 0 ? w->pairs->root : (g->rank + 1) % g->size);
    code = leavers(g, w, now);
    if (code == 0 && over) {
        code = give_up(g, w);
    }
    if (waited < SPIN_MS) {
        (void)sched_yield();
    } else {
        struct pollfd alarm = {.fd = g->alarm, .events = POLLIN};
        struct timespec t = {.tv_nsec = waited < SHORT_MS ? SHORT_NS : LONG_NS};
        (void)ppoll(&alarm, 1, &t, NULL);
    }
    return code;
}

/* Waits until NCCL has finished what was begun and, if `marked`, until the GPU has finished all
 * work in its stream.  Negative with *err set: NCCL or CUDA failed; negative alone: the group has
 * failed. */
static int await(struct rt_group *g, struct watch *w, bool marked, struct co_err *err) {
    int rc;
    do {
        rc = nccl_pending(g->gpu->nccl, err);
        if (rc == 0 && marked) {
            rc = nccl_cuda_pending(g->gpu->cuda, err);
        }
    } while (rc == 1 && (rc = watch_turn(g, w)) == 0);
    return rc;
}

/* NCCL or CUDA reported an error.  Its cause may be that another rank has died: NCCL can notice
 * that before the monitor does, but only the monitor can name the rank.  So this rank takes the
 * blame only after all others have given a sign of life, and one that gives none takes it. */
static void blame(struct rt_group *g, const struct watch *w, const struct co_err *why) {
    struct pollfd alarm = {.fd = g->alarm, .events = POLLIN};
    int64_t begun = w->patience.begun_ms;
    int64_t now = co_now_ms(), asked = now, end = (begun ? begun : now) + g->call_ms;
    while (why->code && now - asked < BLAME_MS && now < end && !coll_group_answers(g, asked) &&
           atomic_load(&g->failed) == 0) {
        coll_monitor_ping(g);
        (void)poll(&alarm, 1, ASK_MS);
        now = co_now_ms();
    }
    if (why->code && now - asked >= BLAME_MS && coll_group_silent(g, asked) < 0) {
        co_log_warn("calls on the GPU failed, and a rank gives no sign of life", CO_E(why));
        return;
    }
    (void)coll_group_fail(g, why->code ? why->code : CO_INTERNAL, g->size, true, "rank %u: %s",
        g->rank, co_err_text(why));
}

/* ---- opening and closing ---- */

/* What each rank sends all others before NCCL begins. */
struct card {
    int32_t code; /* negative: this rank cannot take part, for the reason `why` */
    uint32_t version;
    unsigned char gpu[NCCL_GPU_ID_BYTES];
    unsigned char id[NCCL_ID_BYTES]; /* from rank 0: names the communicator */
    char why[300];
};

/* Does what a rank can do without the others: GPU, libraries, identity. */
static int prepare(struct rt_group *g, struct card *own, struct co_err *err) {
    struct coll_gpu *u = g->gpu;
    uint32_t ordinal = 0;
    CO_TRY(choose(g, &ordinal, err));
    CO_TRY(nccl_cuda_open(ordinal, &u->cuda, err));
    CO_TRY(nccl_cuda_alloc(u->cuda, sizeof(float), &u->one, err));
    CO_TRY(nccl_open(&u->nccl, err));
    (void)snprintf(u->name, sizeof(u->name), "gpu:%u", ordinal);
    g->device = 1 + (int)ordinal; /* groups made from this one use the same GPU */
    own->version = nccl_version(u->nccl);
    memcpy(own->gpu, nccl_cuda_id(u->cuda), sizeof(own->gpu));
    return g->rank == 0 ? nccl_id(u->nccl, own->id, err) : 0;
}

/* Checks that all ranks are ready, have the same NCCL, and use different GPUs. */
static int compare(const struct rt_group *g, const struct card *all, struct co_err *err) {
    for (uint32_t r = 0; r < g->size; r++) {
        if (all[r].code < 0) {
            return co_err_set(err, all[r].code, "rank %u (%.200s): %.*s", r, g->endpoints[r],
                (int)sizeof(all[r].why), all[r].why);
        }
    }
    for (uint32_t r = 1; r < g->size; r++) {
        if (all[r].version != all[0].version) {
            return co_err_set(err, CO_INVALID,
                "rank %u (%.200s) has NCCL %u, rank 0 has %u: all must have the same", r,
                g->endpoints[r], all[r].version, all[0].version);
        }
        for (uint32_t q = 0; q < r; q++) {
            if (memcmp(all[q].gpu, all[r].gpu, NCCL_GPU_ID_BYTES) == 0) {
                return co_err_set(err, CO_INVALID,
                    "ranks %u (%.200s) and %u use the same GPU: each needs its own", r,
                    g->endpoints[r], q);
            }
        }
    }
    return 0;
}

static int join(struct rt_group *g, const unsigned char *id, struct co_err *err) {
    struct coll_gpu *u = g->gpu;
    struct watch w = {0};
    struct co_err why = {0};
    CO_TRY(nccl_cuda_enter(u->cuda, err));
    int rc = nccl_join(u->nccl, id, g->rank, g->size, &why);
    if (rc == 0) {
        rc = await(g, &w, false, &why);
    }
    if (rc < 0) {
        blame(g, &w, &why);
        nccl_abort(u->nccl);
        rc = coll_group_why(g, err);
    }
    nccl_cuda_leave(u->cuda);
    return rc;
}

int coll_gpu_form(struct rt_group *g, struct co_err *err) {
    CO_AUTOFREE struct card *all = co_xcalloc(g->size, sizeof(*all));
    struct card own = {0};
    struct co_err why = {0};
    g->gpu = co_xcalloc(1, sizeof(*g->gpu));
    own.code = prepare(g, &own, &why);
    (void)snprintf(own.why, sizeof(own.why), "%s", own.code < 0 ? co_err_text(&why) : "");
    struct rt_coll c = {
        .kind = RT_ALL_GATHER, .dtype = RT_U8, .in = &own, .out = all, .n = sizeof(own)};
    int rc = coll_call_host(g, &c);
    if (rc < 0) {
        (void)coll_group_why(g, err);
        return co_err_wrap(err, "exchanging the ranks' GPUs");
    }
    bool joined = compare(g, all, err) == 0 && join(g, all[0].id, err) == 0;
    return joined ? 0 : co_err_wrap(err, "GPUs");
}

/* Ends a healthy communicator and waits for that; aborts any other, which might never end. */
static void end(struct rt_group *g) {
    struct coll_gpu *u = g->gpu;
    int64_t end_ms = co_now_ms() + END_MS;
    struct pollfd alarm = {.fd = g->alarm, .events = POLLIN};
    int rc = atomic_load(&g->failed) < 0 ? CO_GONE : nccl_leave(u->nccl, NULL);
    while (rc == 0 && (rc = nccl_pending(u->nccl, NULL)) == 1) {
        rc = atomic_load(&g->failed) < 0 || co_now_ms() > end_ms ? CO_GONE : 0;
        (void)poll(&alarm, 1, 1);
    }
    if (rc < 0) {
        nccl_abort(u->nccl);
    }
}

void coll_gpu_close(struct rt_group *g) {
    struct coll_gpu *u = g->gpu;
    if (!u) {
        return;
    }
    bool entered = u->nccl && nccl_cuda_enter(u->cuda, NULL) == 0;
    if (entered) {
        end(g);
    }
    nccl_close(u->nccl);
    if (entered) {
        nccl_cuda_leave(u->cuda);
    }
    nccl_cuda_close(u->cuda);
    free(u);
    g->gpu = NULL;
}

/* ---- calls ---- */

/* The buffers that the call reads and writes in this rank; NULL: none. */
static void buffers(
    const struct rt_group *g, const struct rt_coll *c, const void **ret_in, const void **ret_out) {
    bool root = c->root == g->rank;
    bool reads = c->kind != RT_BROADCAST && c->kind != RT_RECV && c->kind != RT_BARRIER &&
                 (c->kind != RT_SCATTER || root);
    bool writes = c->kind != RT_SEND && c->kind != RT_BARRIER &&
                  ((c->kind != RT_REDUCE && c->kind != RT_GATHER) || root);
    *ret_in = reads ? c->in : NULL;
    *ret_out = writes ? c->out : NULL;
}

/* Decides by a buffer that every rank has in this call, so that all ranks decide alike.  A call
 * without buffers goes to the GPU. */
bool coll_gpu_takes(const struct rt_group *g, const struct rt_coll *c) {
    const void *in, *out;
    buffers(g, c, &in, &out);
    const void *any = c->kind == RT_SCATTER || c->kind == RT_ALL_GATHERV || !in ? out : in;
    return !any || nccl_cuda_knows(g->gpu->cuda, any);
}

int coll_gpu_check(const struct rt_group *g, const struct rt_coll *c, struct co_err *err) {
    const void *in, *out;
    buffers(g, c, &in, &out);
    if (in && out && nccl_cuda_knows(g->gpu->cuda, in) != nccl_cuda_knows(g->gpu->cuda, out)) {
        return co_err_set(err, CO_INVALID,
            "%s: one buffer is a GPU's memory, the other one is main memory",
            rt_kind_name(c->kind));
    }
    if (!coll_gpu_takes(g, c)) {
        return 0;
    }
    CO_TRY(nccl_check(c, err));
    int rc = nccl_cuda_uncaptured(g->gpu->cuda, err);
    return rc < 0 ? co_err_wrap(err, "%s", rt_kind_name(c->kind)) : 0;
}

static int run_calls(struct rt_group *g, const struct rt_coll *calls, uint32_t n, struct watch *w,
    struct co_err *why) {
    struct coll_gpu *u = g->gpu;
    CO_TRY(nccl_call(u->nccl, calls, n, u->one, nccl_cuda_stream(u->cuda), why));
    CO_TRY(await(g, w, false, why));
    CO_TRY(nccl_cuda_mark(u->cuda, why));
    return await(g, w, true, why);
}

int coll_gpu_make(struct rt_group *g, const struct rt_coll *calls, uint32_t n) {
    struct coll_gpu *u = g->gpu;
    bool pairs = calls[0].kind == RT_SEND || calls[0].kind == RT_RECV;
    struct watch w = {
        .patience = {.call = calls, .uncounted = pairs}, .pairs = calls, .n = pairs ? n : 0};
    struct co_err why = {0};
    CO_TRY(atomic_load_explicit(&g->failed, memory_order_acquire));
    if (nccl_cuda_enter(u->cuda, &why) < 0) {
        blame(g, &w, &why);
        return atomic_load(&g->failed);
    }
    if (!pairs) {
        coll_call_begin(g, calls);
    }
    int rc = run_calls(g, calls, n, &w, &why);
    if (!pairs) {
        coll_call_end(g);
    }
    if (rc < 0) {
        blame(g, &w, &why);
        nccl_abort(u->nccl);
    }
    nccl_cuda_leave(u->cuda);
    return rc < 0 ? atomic_load(&g->failed) : 0;
}

/* ---- memory ---- */

int coll_gpu_alloc(struct rt_group *g, size_t bytes, void **ret_memory, struct co_err *err) {
    CO_TRY(nccl_cuda_uncaptured(g->gpu->cuda, err));
    return nccl_cuda_alloc(g->gpu->cuda, bytes, ret_memory, err);
}

void coll_gpu_free(struct rt_group *g, void *memory) {
    nccl_cuda_free(g->gpu->cuda, memory);
}

int rt_group_copy(
    struct rt_group *g, void *to, const void *from, size_t bytes, struct co_err *err) {
    if (g->gpu && g->fork.forked) {
        return co_fork_refuse("the group", err);
    }
    if (g->gpu && bytes > 0) {
        CO_TRY(nccl_cuda_uncaptured(g->gpu->cuda, err));
        return nccl_cuda_copy(g->gpu->cuda, to, from, bytes, err);
    }
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    return 0;
}

const char *rt_group_device(const struct rt_group *g) {
    return g->gpu ? g->gpu->name : "cpu";
}

void *rt_group_stream(const struct rt_group *g) {
    return g->gpu ? nccl_cuda_stream(g->gpu->cuda) : NULL;
}

int rt_gpu_count(uint32_t *ret, struct co_err *err) {
    return nccl_cuda_count(ret, err);
}
