/* Tests calls on GPUs: every kind and type, started calls, groups of groups, and calls in main
 * memory between them. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/train/coll/gpu_testing.h"

enum { SMALL = 100, LARGE = 30000, ROOM = LARGE * WORLD_MAX };

/* ---- every kind of call ---- */

/* Element i of a rank's `in`. */
static int32_t value(uint32_t rank, size_t i) {
    return (int32_t)(rank * 100000 + i % 99991);
}

static size_t gather_count(uint32_t rank, size_t n) {
    return rank == 1 ? 0 : n / 2 + 3 * rank;
}

static size_t exchange_count(uint32_t from, uint32_t to, size_t n) {
    return from == 1 && to == 0 ? 0 : n / 4 + from + 2 * to;
}

static int32_t sum(uint32_t ranks, size_t i) {
    int32_t s = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        s += value(r, i);
    }
    return s;
}

/* What out must be; how many elements. */
static size_t expect(
    enum rt_kind kind, uint32_t ranks, uint32_t me, uint32_t root, size_t n, int32_t *ret) {
    size_t at = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        bool one = r == 0;
        size_t count = kind == RT_ALL_GATHERV   ? gather_count(r, n)
                       : kind == RT_ALL_TO_ALLV ? exchange_count(r, me, n)
                                                : n;
        size_t before = 0;
        for (uint32_t p = 0; p < me; p++) {
            before += exchange_count(r, p, n);
        }
        for (size_t i = 0; i < count; i++) {
            switch (kind) {
            case RT_ALL_GATHER:
            case RT_ALL_GATHERV:
                ret[at++] = value(r, i);
                break;
            case RT_ALL_TO_ALL:
                ret[at++] = value(r, me * n + i);
                break;
            case RT_ALL_TO_ALLV:
                ret[at++] = value(r, before + i);
                break;
            case RT_GATHER:
                if (me == root) {
                    ret[at++] = value(r, i);
                }
                break;
            case RT_REDUCE:
            case RT_ALL_REDUCE:
                if (one && (kind == RT_ALL_REDUCE || me == root)) {
                    ret[at++] = sum(ranks, i);
                }
                break;
            case RT_REDUCE_SCATTER:
                if (one) {
                    ret[at++] = sum(ranks, me * n + i);
                }
                break;
            case RT_SCATTER:
            case RT_BROADCAST:
                if (one) {
                    ret[at++] = value(root, kind == RT_SCATTER ? me * n + i : i);
                }
                break;
            default:
                break;
            }
        }
    }
    return at;
}

static int one_kind(
    struct rt_group *g, enum rt_kind kind, size_t n, uint32_t root, struct co_err *err) {
    uint32_t me = rt_group_rank(g), ranks = rt_group_size(g);
    CO_AUTOFREE int32_t *host = co_xcalloc(ROOM, sizeof(*host));
    CO_AUTOFREE int32_t *want = co_xcalloc(ROOM, sizeof(*want));
    size_t counts[WORLD_MAX], out_counts[WORLD_MAX];
    for (size_t i = 0; i < ROOM; i++) {
        host[i] = value(me, i);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        counts[r] = kind == RT_ALL_GATHERV ? gather_count(r, n) : exchange_count(me, r, n);
        out_counts[r] = exchange_count(r, me, n);
    }
    void *in = gk_upload(g, host, ROOM * sizeof(*host)),
         *out = gk_upload(g, host, ROOM * sizeof(*host));
    struct rt_coll c = {.kind = kind,
        .dtype = RT_I32,
        .root = root,
        .in = in,
        .out = out,
        .n = kind == RT_ALL_GATHERV || kind == RT_ALL_TO_ALLV ? 0 : n,
        .counts = counts,
        .out_counts = out_counts};
    CO_TRY(rt_coll_run(g, &c, err)); /* closing g frees both after a failure */
    size_t len = expect(kind, ranks, me, root, n, want);
    CO_TRY(gk_compare(g, out, want, len, rt_kind_name(kind), err));
    rt_group_free(g, in);
    rt_group_free(g, out);
    return 0;
}

static int in_place(struct rt_group *g, size_t n, struct co_err *err) {
    uint32_t me = rt_group_rank(g), ranks = rt_group_size(g);
    CO_AUTOFREE int32_t *host = co_xcalloc(ROOM, sizeof(*host));
    CO_AUTOFREE int32_t *want = co_xcalloc(ROOM, sizeof(*want));
    for (size_t i = 0; i < n; i++) {
        host[i] = host[me * n + i] = value(me, i);
    }
    int32_t *both = gk_upload(g, host, ROOM * sizeof(*host)), *own = both + me * n;
    CO_TRY(rt_all_gather(g, own, both, n, RT_I32, err));
    size_t len = expect(RT_ALL_GATHER, ranks, me, 0, n, want);
    CO_TRY(gk_compare(g, both, want, len, "all_gather in place", err));
    CO_TRY(rt_group_copy(g, both, host, ROOM * sizeof(*host), err));
    CO_TRY(rt_all_reduce(g, own, own, n, RT_I32, RT_SUM, err));
    len = expect(RT_ALL_REDUCE, ranks, me, 0, n, want);
    CO_TRY(gk_compare(g, own, want, len, "all_reduce in place", err));
    rt_group_free(g, both);
    return 0;
}

/* Round in a circle; rank 0 begins. */
static int circle(struct rt_group *g, size_t n, struct co_err *err) {
    uint32_t me = rt_group_rank(g), ranks = rt_group_size(g);
    CO_AUTOFREE int32_t *host = co_xcalloc(n, sizeof(*host));
    for (size_t i = 0; i < n; i++) {
        host[i] = value(me == 0 ? 7 : 0, i);
    }
    void *memory = gk_upload(g, host, n * sizeof(*host));
    uint32_t next = (me + 1) % ranks, last = (me + ranks - 1) % ranks;
    if (me == 0) {
        CO_TRY(rt_send(g, memory, n, RT_I32, next, err));
    }
    CO_TRY(rt_recv(g, memory, n, RT_I32, last, err));
    if (me != 0) {
        CO_TRY(rt_send(g, memory, n, RT_I32, next, err));
    }
    for (size_t i = 0; i < n; i++) {
        host[i] = value(7, i);
    }
    CO_TRY(gk_compare(g, memory, host, n, "a circle", err));
    rt_group_free(g, memory);
    return 0;
}

static int kinds(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const size_t sizes[] = {0, 1, SMALL, LARGE};
    (void)w;
    (void)rank;
    for (size_t s = 0; s < CO_ARRAY_LEN(sizes); s++) {
        for (enum rt_kind k = 0; k < RT_KINDS; k++) {
            if (k != RT_SEND && k != RT_RECV) {
                CO_TRY(one_kind(g, k, sizes[s], rt_group_size(g) - 1, err));
            }
        }
        if (sizes[s] > 0) {
            CO_TRY(in_place(g, sizes[s], err));
        }
        if (sizes[s] > 0 && rt_group_size(g) > 1) {
            CO_TRY(circle(g, sizes[s], err));
        }
    }
    return 0;
}

static void every_kind_of_call(void **state) {
    (void)state;
    (void)setenv("STANDIN_NCCL_ORDERLY", "1", 1);
    for (uint32_t n = 1; n <= gk_gpus; n++) {
        struct coll_world w = {.n = n, .nodes = n / 2, .set = gk_on_gpus};
        assert_int_equal(world_run(&w, kinds), 0);
    }
    (void)unsetenv("STANDIN_NCCL_ORDERLY");
}

static void every_call_works_with_an_old_nccl(void **state) {
    (void)state;
    CO_AUTOFREE char *plain = co_xasprintf("%s/plain", gk_standins);
    (void)setenv("FLAGS_nccl_dir", plain, 1);
    struct coll_world w = {.n = 3, .set = gk_on_gpus};
    assert_int_equal(world_run(&w, kinds), 0);
    (void)unsetenv("FLAGS_nccl_dir");
}

/* ---- what is summed ---- */

static void put(enum rt_dtype dtype, double v, void *ret) {
    float f = (float)v;
    uint32_t bits;
    int exponent = 0;
    double part = v;
    memcpy(&bits, &f, sizeof(bits));
    while (part >= 2) {
        part /= 2;
        exponent++;
    }
    uint16_t bf16 = (uint16_t)(bits >> 16),
             f16 = (uint16_t)((exponent + 15) << 10 | (int)((part - 1) * 1024));
    int64_t i64 = (int64_t)v;
    int32_t i32 = (int32_t)v;
    uint8_t u8 = (uint8_t)v;
    const void *from[RT_DTYPES] = {[RT_F32] = &f,
        [RT_F64] = &v,
        [RT_F16] = &f16,
        [RT_BF16] = &bf16,
        [RT_I64] = &i64,
        [RT_I32] = &i32,
        [RT_U8] = &u8};
    memcpy(ret, from[dtype], rt_dtype_size(dtype));
}

/* Ranks bring 2, 4, 6, ...: results that every type holds. */
static double result_of(enum rt_op op, uint32_t ranks) {
    double sum = 0, product = 1;
    for (uint32_t r = 0; r < ranks; r++) {
        sum += 2 * (r + 1);
        product *= 2 * (r + 1);
    }
    return op == RT_SUM   ? sum
           : op == RT_AVG ? sum / ranks
           : op == RT_MAX ? 2 * ranks
           : op == RT_MIN ? 2
                          : product;
}

static int types(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { N = 50 };
    unsigned char host[N * 8], want[N * 8];
    (void)w;
    for (enum rt_dtype t = 0; t < RT_DTYPES; t++) {
        for (enum rt_op op = 0; op < RT_OPS; op++) {
            size_t size = rt_dtype_size(t);
            bool integer = t == RT_I64 || t == RT_I32 || t == RT_U8;
            if (op == RT_AVG && integer) {
                continue;
            }
            for (size_t i = 0; i < N; i++) {
                put(t, 2 * (rank + 1), host + i * size);
                put(t, result_of(op, rt_group_size(g)), want + i * size);
            }
            void *memory = gk_upload(g, host, N * size);
            CO_TRY(rt_all_reduce(g, memory, memory, N, t, op, err));
            CO_TRY(rt_group_copy(g, host, memory, N * size, err));
            rt_group_free(g, memory);
            if (memcmp(host, want, N * size) != 0) {
                return co_err_set(
                    err, CO_INTERNAL, "%s of %s is wrong", rt_op_name(op), rt_dtype_name(t));
            }
        }
    }
    return 0;
}

static void every_type_and_reduction(void **state) {
    (void)state;
    struct coll_world w = {.n = gk_least(3), .set = gk_on_gpus};
    assert_int_equal(world_run(&w, types), 0);
}

/* ---- started calls, groups of groups ---- */

static int started(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { CALLS = 8 };
    struct rt_work *work[CALLS];
    int32_t *memory[CALLS], one = 1, want = (int32_t)rt_group_size(g);
    (void)w;
    (void)rank;
    int rc = 0;
    uint32_t begun = 0;
    for (; rc == 0 && begun < CALLS; begun += rc == 0) {
        memory[begun] = gk_upload(g, &one, sizeof(one));
        struct rt_coll c = {.kind = RT_ALL_REDUCE,
            .dtype = RT_I32,
            .in = memory[begun],
            .out = memory[begun],
            .n = 1};
        rc = rt_coll_start(g, &c, &work[begun], err);
    }
    for (uint32_t i = 0; i < begun; i++) {
        int ended = rt_work_wait(work[i], rc == 0 ? err : NULL);
        rc = rc == 0 ? ended : rc;
        if (rc == 0) {
            rc = gk_compare(g, memory[i], &want, 1, "a started call", err);
        }
    }
    CO_TRY(rc);
    return rt_group_barrier(g, err);
}

static int divided(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *half = NULL;
    CO_CLEANUP(rt_group_closep) struct rt_group *pair = NULL;
    uint32_t ranks[] = {0, w->n - 1};
    char device[16];
    CO_TRY(rt_group_split(g, (int32_t)(rank % 2), 0, &half, err));
    CO_TRY(gk_ones(half, (w->n + 1 - rank % 2) / 2, err));
    if (rank == 0 || rank == w->n - 1) {
        CO_TRY(rt_group_sub(g, ranks, 2, 5, &pair, err));
        CO_TRY(gk_ones(pair, 2, err));
    }
    (void)snprintf(device, sizeof(device), "gpu:%u", rank);
    if (strcmp(rt_group_device(half), device) != 0 || !rt_group_stream(half)) {
        return co_err_set(err, CO_INTERNAL, "%s, not %s", rt_group_device(half), device);
    }
    return gk_ones(g, w->n, err);
}

/* Element i of the k-th message between two ranks. */
static int32_t letter(uint32_t from, uint32_t to, uint32_t k, size_t i) {
    return value(from * 64 + to * 8 + k, i);
}

struct post {
    struct rt_work *work;
    void *memory;
};

static int post_start(struct rt_group *g, enum rt_kind kind, uint32_t peer, uint32_t k,
    struct post *p, struct co_err *err) {
    CO_AUTOFREE int32_t *host = co_xcalloc(LARGE, sizeof(*host));
    for (size_t i = 0; kind == RT_SEND && i < LARGE; i++) {
        host[i] = letter(rt_group_rank(g), peer, k, i);
    }
    p->memory = gk_upload(g, host, LARGE * sizeof(*host));
    struct rt_coll c = {
        .kind = kind, .dtype = RT_I32, .root = peer, .in = p->memory, .out = p->memory, .n = LARGE};
    return rt_coll_start(g, &c, &p->work, err);
}

static int post_end(struct rt_group *g, enum rt_kind kind, uint32_t peer, uint32_t k,
    struct post *p, struct co_err *err) {
    CO_AUTOFREE int32_t *want = co_xcalloc(LARGE, sizeof(*want));
    for (size_t i = 0; i < LARGE; i++) {
        want[i] = letter(peer, rt_group_rank(g), k, i);
    }
    CO_TRY(rt_work_wait(p->work, err));
    if (kind == RT_RECV) {
        CO_TRY(gk_compare(g, p->memory, want, LARGE, "a letter", err));
    }
    rt_group_free(g, p->memory);
    return 0;
}

/* All send two messages to all others before they receive any, and wait in the order in which
 * they started; in the second turn a call of all ranks follows before anybody waits. */
static int posts(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { EACH = 2, POSTS = 2 * EACH * WORLD_MAX };
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct post post[POSTS] = {{0}};
        uint32_t all = 2 * EACH * w->n;
        for (uint32_t i = 0; i < all; i++) {
            uint32_t peer = i / EACH % w->n;
            enum rt_kind kind = i < all / 2 ? RT_SEND : RT_RECV;
            CO_TRY(peer == rank ? 0 : post_start(g, kind, peer, i % EACH, &post[i], err));
        }
        if (turn > 0) {
            CO_TRY(gk_ones(g, w->n, err));
        }
        for (uint32_t i = 0; i < all; i++) {
            uint32_t peer = i / EACH % w->n;
            enum rt_kind kind = i < all / 2 ? RT_SEND : RT_RECV;
            CO_TRY(peer == rank ? 0 : post_end(g, kind, peer, i % EACH, &post[i], err));
        }
    }
    return 0;
}

/* Rank 0 has started all; rank 1 sends only when it has received both. */
static int one_after_the_other(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct post post[3] = {{0}};
    bool first = rank == 0;
    enum rt_kind kind = first ? RT_SEND : RT_RECV;
    (void)w;
    CO_TRY(post_start(g, kind, 1 - rank, 0, &post[0], err));
    CO_TRY(post_start(g, kind, 1 - rank, 1, &post[1], err));
    if (first) {
        CO_TRY(post_start(g, RT_RECV, 1, 0, &post[2], err));
        while (!rt_work_test(post[2].work)) {
            CO_TRY(rt_group_check(g, err));
            (void)sched_yield();
        }
    }
    CO_TRY(post_end(g, kind, 1 - rank, 0, &post[0], err));
    CO_TRY(post_end(g, kind, 1 - rank, 1, &post[1], err));
    if (!first) {
        CO_TRY(post_start(g, RT_SEND, 0, 0, &post[2], err));
    }
    return post_end(g, first ? RT_RECV : RT_SEND, 1 - rank, 0, &post[2], err);
}

static void started_sends_and_receives_go_at_the_same_time(void **state) {
    (void)state;
    (void)setenv("STANDIN_NCCL_ORDERLY", "1", 1);
    struct coll_world w = {.n = gk_least(4), .set = gk_on_gpus, .call_ms = 60000};
    assert_int_equal(world_run(&w, posts), 0);
    struct coll_world two = {.n = gk_least(2), .set = gk_on_gpus, .call_ms = 60000};
    assert_int_equal(two.n < 2 ? 0 : world_run(&two, one_after_the_other), 0);
    (void)unsetenv("STANDIN_NCCL_ORDERLY");
}

static void started_calls_are_made_in_order(void **state) {
    (void)state;
    struct coll_world w = {.n = gk_least(3), .set = gk_on_gpus};
    assert_int_equal(world_run(&w, started), 0);
}

static void groups_of_groups_stay_on_their_gpus(void **state) {
    (void)state;
    struct coll_world w = {.n = gk_least(4), .set = gk_on_gpus};
    if (w.n < 2) {
        printf("# one GPU\n");
        skip();
    }
    assert_int_equal(world_run(&w, divided), 0);
}

/* ---- arguments ---- */

static int refused(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    float host = 1;
    void *memory = gk_upload(g, &host, sizeof(host)), *none = NULL;
    (void)w;
    (void)rank;
    if (rt_all_reduce(g, &host, memory, 1, RT_F32, RT_SUM, err) != CO_INVALID ||
        !strstr(co_err_text(err), "all_reduce: one buffer is a GPU's memory, the other one is") ||
        rt_all_reduce(g, memory, &host, 1, RT_F32, RT_SUM, err) != CO_INVALID ||
        rt_reduce_scatter(g, memory, memory, 1, RT_F32, RT_SUM, err) != CO_UNSUPPORTED ||
        !strstr(co_err_text(err), "reduce_scatter: not in place on GPUs") ||
        rt_group_alloc(g, (size_t)1 << 40, &none, err) != CO_NOMEMORY) {
        return co_err_set(err, CO_INTERNAL, "an argument was taken");
    }
    return gk_ones(g, rt_group_size(g), err); /* and the group is as good as before */
}

/* Calls of main memory among those of the GPU's. */
static int both(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    uint32_t size = rt_group_size(g), all[WORLD_MAX] = {0};
    (void)w;
    for (int i = 0; i < 5; i++) {
        CO_TRY(gk_ones(g, size, err));
        CO_TRY(rt_all_gather(g, &rank, all, 1, RT_I32, err));
        for (uint32_t r = 0; r < size; r++) {
            if (all[r] != r) {
                return co_err_set(err, CO_INTERNAL, "rank %u is %u", r, all[r]);
            }
        }
    }
    return 0;
}

static void groups_with_gpus_also_reduce_main_memory(void **state) {
    (void)state;
    struct coll_world w = {.n = gk_least(3), .nodes = 2, .set = gk_on_gpus};
    assert_int_equal(world_run(&w, both), 0);
}

static int adds_ones(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)rank;
    return gk_ones(g, w->n, err);
}

/* While a graph is captured from the group's stream, or from another group's, which stands for one
 * of the program's own, a call is refused; the groups, and what is captured, stay whole. */
static int captured(struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    void (*begin)(void *stream) = NULL;
    bool (*end)(void *stream) = NULL;
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    struct rt_group *other = NULL;
    *(void **)&begin = dlsym(cuda, "standin_capture_begin");
    *(void **)&end = dlsym(cuda, "standin_capture_end");
    CO_TRY(rt_group_split(g, 0, (int32_t)rank, &other, err));
    float one = 1, *memory = gk_upload(g, &one, sizeof(one));
    int rc = 0;
    for (int own = 0; own < 2 && rc == 0; own++) {
        struct rt_work *work = NULL;
        struct co_err why[4] = {{0}};
        void *stream = rt_group_stream(own ? g : other), *more = NULL;
        const struct rt_coll c = {
            .kind = RT_ALL_REDUCE, .dtype = RT_F32, .in = memory, .out = memory, .n = 1};
        begin(stream);
        bool refused = rt_coll_run(g, &c, &why[0]) == CO_INVALID &&
                       rt_coll_start(g, &c, &work, &why[1]) == CO_INVALID &&
                       rt_group_copy(g, &one, memory, sizeof(one), &why[2]) == CO_INVALID &&
                       rt_group_alloc(g, 4, &more, &why[3]) == CO_INVALID;
        bool whole = end(stream);
        for (size_t i = 0; i < CO_ARRAY_LEN(why) && refused; i++) {
            refused = strstr(co_err_text(&why[i]), "a CUDA graph is being captured") != NULL;
        }
        rc = !refused ? co_err_set(err, CO_INTERNAL, "stream %d: %s", own, co_err_text(&why[0]))
             : own && !whole ? co_err_set(err, CO_INTERNAL, "the graph is broken")
                             : gk_ones(g, w->n, err);
    }
    rt_group_free(g, memory);
    rt_group_close(other);
    (void)dlclose(cuda);
    return rc;
}

static void calls_during_a_capture_are_refused(void **state) {
    (void)state;
    struct coll_world w = {.n = gk_least(2), .set = gk_on_gpus};
    assert_int_equal(world_run(&w, captured), 0);
}

/* NCCL, which does not encrypt, would send between the machines. */
static void encrypted_groups_stay_on_one_machine(void **state) {
    (void)state;
    struct coll_world w = {.n = gk_least(2), .set = gk_on_gpus, .encrypt = true};
    assert_int_equal(world_run(&w, adds_ones), 0);
    w.nodes = 2;
    world_start(&w, adds_ones);
    assert_int_equal(world_end(&w, UINT32_MAX), 0);
    for (uint32_t r = 0; r < w.n; r++) {
        if (w.shared->rank[r].code != CO_UNSUPPORTED || !strstr(w.shared->rank[r].text, "NCCL")) {
            world_print(&w);
            fail();
        }
    }
    world_done(&w);
}

static void arguments_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct coll_world w = {.n = gk_least(2), .set = gk_on_gpus};
    assert_int_equal(world_run(&w, refused), 0);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest real[] = {
        cmocka_unit_test(every_kind_of_call),
        cmocka_unit_test(every_type_and_reduction),
        cmocka_unit_test(started_calls_are_made_in_order),
        cmocka_unit_test(started_sends_and_receives_go_at_the_same_time),
        cmocka_unit_test(groups_of_groups_stay_on_their_gpus),
        cmocka_unit_test(arguments_that_do_not_fit_are_refused),
        cmocka_unit_test(groups_with_gpus_also_reduce_main_memory),
    };
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_call),
        cmocka_unit_test(every_call_works_with_an_old_nccl),
        cmocka_unit_test(every_type_and_reduction),
        cmocka_unit_test(started_calls_are_made_in_order),
        cmocka_unit_test(started_sends_and_receives_go_at_the_same_time),
        cmocka_unit_test(groups_of_groups_stay_on_their_gpus),
        cmocka_unit_test(arguments_that_do_not_fit_are_refused),
        cmocka_unit_test(groups_with_gpus_also_reduce_main_memory),
        cmocka_unit_test(encrypted_groups_stay_on_one_machine),
        cmocka_unit_test(calls_during_a_capture_are_refused),
    };
    return gk_begin(argc, argv) ? cmocka_run_group_tests_name("real", real, NULL, NULL)
                                : cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
