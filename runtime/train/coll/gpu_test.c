/* Whole jobs of GPUs.  By itself the program runs against the stand-ins of tests/nccl, which check
 * what is asked of them:
 *
 *     gpu_test          all tests
 *     gpu_test real     those that real GPUs can show, on as many as there are (make gpu-test)
 *     gpu_test wheel    what a real libnccl.so.2 shows without any (make nccl-test)
 *     gpu_test count    how many GPUs there are; ends with 1, and why, without any
 *     gpu_test say DEVICE   a group of one there: the name of its device, or why not */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>

#include "runtime/train/coll/testkit.h"

enum { SMALL = 100, LARGE = 30000, ROOM = LARGE * WORLD_MAX, CALL_MS = 2400, SOON_MS = 10000 };

static char self[PATH_MAX], standins[PATH_MAX];
static uint32_t gpus = 4; /* to run on */

static void on_gpus(const struct world *w, uint32_t rank, struct rt_group_options *ret) {
    static char device[16];
    (void)w;
    (void)snprintf(device, sizeof(device), "gpu:%u", rank);
    ret->device = device;
}

/* A group's memory with what is in main memory. */
static void *upload(struct rt_group *g, const void *from, size_t bytes) {
    struct co_err err = {0};
    void *memory = NULL;
    if (rt_group_alloc(g, bytes, &memory, &err) < 0 ||
        rt_group_write(g, memory, from, bytes, &err) < 0) {
        printf("# %s\n", co_err_text(&err));
        abort();
    }
    return memory;
}

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

static int compare(struct rt_group *g, const void *out, const int32_t *want, size_t n,
    const char *what, struct co_err *err) {
    CO_AUTOFREE int32_t *got = co_xcalloc(n + 1, sizeof(*got));
    int rc = rt_group_read(g, got, out, n * sizeof(*got), err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (got[i] != want[i]) {
            return co_err_set(err, CO_INTERNAL, "%s: element %zu of %zu is %d, not %d", what, i, n,
                got[i], want[i]);
        }
    }
    return rc;
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
    void *in = upload(g, host, ROOM * sizeof(*host)), *out = upload(g, host, ROOM * sizeof(*host));
    struct rt_coll c = {.kind = kind,
        .dtype = RT_I32,
        .root = root,
        .in = in,
        .out = out,
        .n = kind == RT_ALL_GATHERV || kind == RT_ALL_TO_ALLV ? 0 : n,
        .counts = counts,
        .out_counts = out_counts};
    int rc = rt_coll_run(g, &c, err);
    size_t len = expect(kind, ranks, me, root, n, want);
    rc = rc < 0 ? rc : compare(g, out, want, len, rt_kind_name(kind), err);
    rt_group_free(g, in);
    rt_group_free(g, out);
    return rc;
}

static int in_place(struct rt_group *g, size_t n, struct co_err *err) {
    uint32_t me = rt_group_rank(g), ranks = rt_group_size(g);
    CO_AUTOFREE int32_t *host = co_xcalloc(ROOM, sizeof(*host));
    CO_AUTOFREE int32_t *want = co_xcalloc(ROOM, sizeof(*want));
    for (size_t i = 0; i < n; i++) {
        host[i] = host[me * n + i] = value(me, i);
    }
    int32_t *both = upload(g, host, ROOM * sizeof(*host)), *own = both + me * n;
    int rc = rt_all_gather(g, own, both, n, RT_I32, err);
    size_t len = expect(RT_ALL_GATHER, ranks, me, 0, n, want);
    rc = rc < 0 ? rc : compare(g, both, want, len, "all_gather in place", err);
    rc = rc < 0 ? rc : rt_group_write(g, both, host, ROOM * sizeof(*host), err);
    rc = rc < 0 ? rc : rt_all_reduce(g, own, own, n, RT_I32, RT_SUM, err);
    len = expect(RT_ALL_REDUCE, ranks, me, 0, n, want);
    rc = rc < 0 ? rc : compare(g, own, want, len, "all_reduce in place", err);
    rt_group_free(g, both);
    return rc;
}

/* Round in a circle; rank 0 begins. */
static int circle(struct rt_group *g, size_t n, struct co_err *err) {
    uint32_t me = rt_group_rank(g), ranks = rt_group_size(g);
    CO_AUTOFREE int32_t *host = co_xcalloc(n, sizeof(*host));
    for (size_t i = 0; i < n; i++) {
        host[i] = value(me == 0 ? 7 : 0, i);
    }
    void *memory = upload(g, host, n * sizeof(*host));
    uint32_t next = (me + 1) % ranks, last = (me + ranks - 1) % ranks;
    int rc = 0;
    if (me == 0) {
        rc = rt_send(g, memory, n, RT_I32, next, err);
    }
    rc = rc < 0 ? rc : rt_recv(g, memory, n, RT_I32, last, err);
    if (rc == 0 && me != 0) {
        rc = rt_send(g, memory, n, RT_I32, next, err);
    }
    for (size_t i = 0; i < n; i++) {
        host[i] = value(7, i);
    }
    rc = rc < 0 ? rc : compare(g, memory, host, n, "a circle", err);
    rt_group_free(g, memory);
    return rc;
}

static int kinds(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const size_t sizes[] = {0, 1, SMALL, LARGE};
    (void)w;
    (void)rank;
    int rc = 0;
    for (size_t s = 0; rc == 0 && s < CO_ARRAY_LEN(sizes); s++) {
        for (enum rt_kind k = 0; rc == 0 && k < RT_KINDS; k++) {
            if (k != RT_SEND && k != RT_RECV) {
                rc = one_kind(g, k, sizes[s], rt_group_size(g) - 1, err);
            }
        }
        rc = rc < 0 || sizes[s] == 0 ? rc : in_place(g, sizes[s], err);
        rc = rc < 0 || sizes[s] == 0 || rt_group_size(g) == 1 ? rc : circle(g, sizes[s], err);
    }
    return rc;
}

static void every_kind_of_call(void **state) {
    (void)state;
    (void)setenv("STANDIN_NCCL_ORDERLY", "1", 1);
    for (uint32_t n = 1; n <= gpus; n++) {
        struct world w = {.n = n, .nodes = n / 2, .set = on_gpus};
        assert_int_equal(world_run(&w, kinds), 0);
    }
    (void)unsetenv("STANDIN_NCCL_ORDERLY");
}

static void every_kind_without_what_new_libraries_have(void **state) {
    (void)state;
    CO_AUTOFREE char *plain = co_xasprintf("%s/plain", standins);
    (void)setenv("FLAGS_nccl_dir", plain, 1);
    struct world w = {.n = 3, .set = on_gpus};
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

static int types(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
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
            void *memory = upload(g, host, N * size);
            int rc = rt_all_reduce(g, memory, memory, N, t, op, err);
            rc = rc < 0 ? rc : rt_group_read(g, host, memory, N * size, err);
            rt_group_free(g, memory);
            if (rc < 0 || memcmp(host, want, N * size) != 0) {
                return rc < 0 ? rc
                              : co_err_set(err, CO_INTERNAL, "%s of %s is wrong", rt_op_name(op),
                                    rt_dtype_name(t));
            }
        }
    }
    return 0;
}

static void every_type_and_reduction(void **state) {
    (void)state;
    struct world w = {.n = gpus < 3 ? gpus : 3, .set = on_gpus};
    assert_int_equal(world_run(&w, types), 0);
}

/* ---- started calls, groups of groups ---- */

static int started(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    enum { CALLS = 8 };
    struct rt_work *work[CALLS];
    int32_t *memory[CALLS], one = 1, want = (int32_t)rt_group_size(g);
    (void)w;
    (void)rank;
    int rc = 0;
    uint32_t begun = 0;
    for (; rc == 0 && begun < CALLS; begun += rc == 0) {
        memory[begun] = upload(g, &one, sizeof(one));
        struct rt_coll c = {.kind = RT_ALL_REDUCE,
            .dtype = RT_I32,
            .in = memory[begun],
            .out = memory[begun],
            .n = 1};
        rc = rt_coll_start(g, &c, &work[begun], err);
    }
    for (uint32_t i = 0; i < begun; i++) {
        int ended = rt_work_wait(work[i], rc < 0 ? NULL : err);
        rc = rc < 0 ? rc : ended;
        rc = rc < 0 ? rc : compare(g, memory[i], &want, 1, "a started call", err);
    }
    return rc < 0 ? rc : rt_group_barrier(g, err);
}

static int ones(struct rt_group *g, uint32_t expected, struct co_err *err) {
    int32_t one = 1, want = (int32_t)expected;
    void *memory = upload(g, &one, sizeof(one));
    int rc = rt_all_reduce(g, memory, memory, 1, RT_I32, RT_SUM, err);
    rc = rc < 0 ? rc : compare(g, memory, &want, 1, "ones", err);
    rt_group_free(g, memory);
    return rc;
}

static int divided(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    struct rt_group *half = NULL, *pair = NULL;
    uint32_t ranks[] = {0, w->n - 1};
    char device[16];
    int rc = rt_group_split(g, (int32_t)(rank % 2), 0, &half, err);
    rc = rc < 0 ? rc : ones(half, (w->n + 1 - rank % 2) / 2, err);
    if (rc == 0 && (rank == 0 || rank == w->n - 1)) {
        rc = rt_group_sub(g, ranks, 2, 5, &pair, err);
        rc = rc < 0 ? rc : ones(pair, 2, err);
    }
    (void)snprintf(device, sizeof(device), "gpu:%u", rank);
    if (rc == 0 && (strcmp(rt_group_device(half), device) != 0 || !rt_group_stream(half))) {
        rc = co_err_set(err, CO_INTERNAL, "%s, not %s", rt_group_device(half), device);
    }
    rc = rc < 0 ? rc : ones(g, w->n, err);
    rt_group_close(pair);
    rt_group_close(half);
    return rc;
}

static void started_calls_are_made_in_order(void **state) {
    (void)state;
    struct world w = {.n = gpus < 3 ? gpus : 3, .set = on_gpus};
    assert_int_equal(world_run(&w, started), 0);
}

static void groups_of_groups_stay_on_their_gpus(void **state) {
    (void)state;
    struct world w = {.n = 4, .set = on_gpus};
    assert_int_equal(world_run(&w, divided), 0);
}

/* ---- faults ---- */

static int endless(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const float zeros[SMALL];
    void *memory = upload(g, zeros, sizeof(zeros));
    (void)rank;
    int rc = 0;
    for (uint32_t i = 0; rc == 0; i++) {
        rc = rt_all_reduce(g, memory, memory, SMALL, RT_F32, RT_MAX, err);
        if (i == 5) {
            atomic_fetch_add(&w->shared->ready, 1);
        }
    }
    rt_group_free(g, memory); /* which waits for the GPU: nothing hangs there any more */
    return rc;
}

static void wait_ready(struct world *w) {
    int64_t end = world_now() + WORLD_MS;
    while (atomic_load(&w->shared->ready) < w->n && world_now() < end) {
        (void)sched_yield();
    }
    assert_int_equal(atomic_load(&w->shared->ready), w->n);
}

/* All ranks but that one end with the code and a text that has this in it. */
static void assert_end(struct world *w, uint32_t but, int code, const char *text) {
    assert_int_equal(world_end(w, UINT32_MAX), 0);
    for (uint32_t r = 0; r < w->n; r++) {
        if (r != but &&
            (w->shared->rank[r].code != code || !strstr(w->shared->rank[r].text, text))) {
            fail_msg("rank %u of %u: code %d: %s; expected %d: %s", r, w->n,
                w->shared->rank[r].code, w->shared->rank[r].text, code, text);
        }
    }
}

static void killed_ranks_are_named(void **state) {
    (void)state;
    struct world w = {.n = 3, .set = on_gpus};
    world_start(&w, endless);
    wait_ready(&w);
    int64_t since = world_now();
    kill(w.pid[1], SIGKILL);
    assert_end(&w, 1, CO_PEERLOST, "rank 1 ");
    assert_true(w.shared->rank[0].ms - since < SOON_MS && w.shared->rank[2].ms - since < SOON_MS);
    world_done(&w);
}

static void fails_of_another(const struct world *w, uint32_t rank, struct rt_group_options *ret) {
    on_gpus(w, rank, ret);
    if (rank == 2) {
        (void)setenv("STANDIN_NCCL_FAIL", "7", 1);
    }
}

static int kills_before_it_fails(
    struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    int rc = 0;
    for (int i = 0; rc == 0; i++) {
        if (i == 6 && rank == 2) {
            kill(w->pid[1], SIGKILL);
        }
        rc = rt_group_barrier(g, err);
    }
    return rc;
}

/* NCCL of one rank fails of another one's death, and at once. */
static void the_dead_are_named_though_nccl_fails_first(void **state) {
    (void)state;
    struct world w = {.n = 3, .set = fails_of_another};
    world_start(&w, kills_before_it_fails);
    assert_end(&w, 1, CO_PEERLOST, "rank 1 ");
    world_done(&w);
}

static void stopped_ranks_are_named(void **state) {
    (void)state;
    struct world w = {.n = 3, .set = on_gpus, .call_ms = CALL_MS};
    world_start(&w, endless);
    wait_ready(&w);
    kill(w.pid[1], SIGSTOP);
    for (uint32_t r = 0; r < w.n; r += 2) {
        siginfo_t i;
        (void)waitid(P_PID, (id_t)w.pid[r], &i, WEXITED | WNOWAIT);
    }
    kill(w.pid[1], SIGCONT);
    assert_end(&w, 1, CO_PEERLOST, "rank 1 ");
    world_done(&w);
}

static int late(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    int rc = rt_group_barrier(g, err);
    if (rank == 1) { /* until the others have given it up */
        while (rc == 0) {
            rc = rt_group_check(g, err);
            (void)poll(NULL, 0, 5);
        }
        return rc;
    }
    (void)w;
    return rc < 0 ? rc : rt_group_barrier(g, err);
}

static void late_ranks_are_named(void **state) {
    (void)state;
    struct world w = {.n = 3, .set = on_gpus, .call_ms = CALL_MS};
    world_start(&w, late);
    assert_end(&w, 1, CO_TIMEOUT, "rank 1 (127.0.0.1");
    world_done(&w);
}

static int leaves(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    (void)w;
    int rc = rt_group_barrier(g, err);
    return rc < 0 || rank == 1 ? rc : rt_group_barrier(g, err);
}

static void ranks_that_left_are_named(void **state) {
    (void)state;
    struct world w = {.n = 3, .set = on_gpus};
    world_start(&w, leaves);
    assert_end(&w, 1, CO_PEERLOST, "rank 1 (127.0.0.1");
    assert_int_equal(w.shared->rank[1].code, 0);
    assert_true(w.shared->rank[0].ms - w.shared->rank[1].ms < SOON_MS);
    world_done(&w);
}

static int differ(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    static const float zeros[SMALL];
    void *memory = upload(g, zeros, sizeof(zeros));
    (void)w;
    return rt_all_reduce(g, memory, memory, rank == 1 ? 10 : SMALL, RT_F32, RT_MAX, err);
}

static void calls_that_differ_are_noticed(void **state) {
    (void)state;
    struct world w = {.n = 2, .set = on_gpus, .call_ms = CALL_MS};
    world_start(&w, differ);
    assert_int_equal(world_end(&w, UINT32_MAX), 0);
    assert_int_equal(w.shared->rank[0].code, CO_INVALID);
    assert_int_equal(w.shared->rank[1].code, CO_INVALID);
    world_done(&w);
}

static const char *fault; /* a variable of the stand-ins, and its value, of rank 1 */

static void with_fault(const struct world *w, uint32_t rank, struct rt_group_options *ret) {
    on_gpus(w, rank, ret);
    if (rank == 1) {
        CO_AUTOFREE char *name = co_xstrndup(fault, strcspn(fault, "="));
        (void)setenv(name, strchr(fault, '=') + 1, 1);
    }
}

/* What one rank's libraries do, and what all ranks say of it. */
static const struct {
    const char *fault;
    uint32_t but;
    int code;
    const char *text;
} faults[] = {
    {"STANDIN_NCCL_FAIL=5", UINT32_MAX, CO_UNAVAILABLE, "rank 1"},
    {"STANDIN_NCCL_FAIL=5", 0, CO_UNAVAILABLE, "unhandled system error: the stand-in was told"},
    {"STANDIN_NCCL_FAIL=0", UINT32_MAX, CO_UNAVAILABLE, "rank 1"},
    {"STANDIN_NCCL_DIE=1", 1, CO_PEERLOST, "rank 1 "},
    {"STANDIN_NCCL_STUCK=1", UINT32_MAX, CO_TIMEOUT, "rank"},
    {"STANDIN_NCCL_VERSION=22804", UINT32_MAX, CO_INVALID,
        "has NCCL 22804, rank 0 has 22703: all must have the same"},
    {"STANDIN_NCCL_VERSION=21203", UINT32_MAX, CO_UNSUPPORTED, "NCCL 21203, older than 21800"},
    {"STANDIN_GPUS=1", UINT32_MAX, CO_INVALID, "no GPU 1: this process sees 1"},
    {"STANDIN_GPUS=0", UINT32_MAX, CO_UNSUPPORTED, "no CUDA-capable device is detected"},
    {"STANDIN_INIT=999", UINT32_MAX, CO_UNSUPPORTED, "look for GPUs"},
    {"STANDIN_MEMORY=1", UINT32_MAX, CO_NOMEMORY,
        "4 bytes on GPU 1: CUDA: allocate memory: out of"},
    {"FLAGS_nccl_dir=/none", UINT32_MAX, CO_UNSUPPORTED,
        "cannot load the library libnccl.so.2: /none/libnccl.so.2: cannot open shared object"},
};

static void faults_of_one_rank_are_told_to_all(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(faults); i++) {
        bool hangs = faults[i].code == CO_TIMEOUT;
        struct world w = {.n = 3, .set = with_fault, .call_ms = hangs ? CALL_MS : 0};
        fault = faults[i].fault;
        world_start(&w, endless);
        uint32_t but = faults[i].but;
        assert_int_equal(world_end(&w, UINT32_MAX), 0);
        for (uint32_t r = 0; r < w.n; r++) {
            bool said = w.shared->rank[r].code == faults[i].code &&
                        strstr(w.shared->rank[r].text, faults[i].text);
            if (but == 0 ? r == 1 && !said : r != but && !said) {
                fail_msg("%s: rank %u: code %d: %s", fault, r, w.shared->rank[r].code,
                    w.shared->rank[r].text);
            }
        }
        world_done(&w);
    }
}

static int goes_on(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    bool gone[WORLD_MAX];
    struct rt_group *left = NULL;
    int rc = endless(w, g, rank, err);
    if (rc != CO_PEERLOST) {
        return rc;
    }
    rc = rt_group_shrink(g, gone, &left, err);
    rc = rc < 0 ? rc : ones(left, w->n - 1, err);
    if (rc == 0 && !gone[1]) {
        rc = co_err_set(err, CO_INTERNAL, "rank 1 is there");
    }
    rt_group_close(left);
    return rc;
}

static void those_that_are_left_go_on(void **state) {
    (void)state;
    struct world w = {.n = 3, .set = on_gpus};
    world_start(&w, goes_on);
    wait_ready(&w);
    kill(w.pid[1], SIGKILL);
    assert_int_equal(world_end(&w, 1 << 1), 0);
    world_done(&w);
}

/* ---- arguments ---- */

static int refused(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    float host = 1;
    void *memory = upload(g, &host, sizeof(host)), *none = NULL;
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
    const struct rt_gradient gradient = {.name = "w", .n = 1, .memory = &host};
    struct rt_reducer *r = NULL;
    if (rt_reducer_open(g, &gradient, 1, NULL, &r, err) != CO_UNSUPPORTED) {
        return co_err_set(err, CO_INTERNAL, "a reducer was made");
    }
    return ones(g, rt_group_size(g), err); /* and the group is as good as before */
}

/* Calls of main memory among those of the GPU's. */
static int both(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    uint32_t size = rt_group_size(g), all[WORLD_MAX] = {0};
    int rc = 0;
    (void)w;
    for (int i = 0; rc == 0 && i < 5; i++) {
        rc = ones(g, size, err);
        rc = rc < 0 ? rc : rt_all_gather(g, &rank, all, 1, RT_I32, err);
        for (uint32_t r = 0; rc == 0 && r < size; r++) {
            rc = all[r] == r ? 0 : co_err_set(err, CO_INTERNAL, "rank %u is %u", r, all[r]);
        }
    }
    return rc;
}

static void main_memory_goes_as_ever(void **state) {
    (void)state;
    struct world w = {.n = gpus < 3 ? gpus : 3, .nodes = 2, .set = on_gpus};
    assert_int_equal(world_run(&w, both), 0);
}

static void arguments_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct world w = {.n = gpus < 2 ? gpus : 2, .set = on_gpus};
    assert_int_equal(world_run(&w, refused), 0);
}

static void on_any(const struct world *w, uint32_t rank, struct rt_group_options *ret) {
    (void)w;
    (void)rank;
    ret->device = "gpu";
}

static int by_place(struct world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    char device[16];
    (void)w;
    (void)snprintf(device, sizeof(device), "gpu:%u", rank);
    if (strcmp(rt_group_device(g), device) != 0) {
        return co_err_set(err, CO_INTERNAL, "%s, not %s", rt_group_device(g), device);
    }
    return 0;
}

static void ranks_of_a_machine_take_a_gpu_each(void **state) {
    (void)state;
    struct world w = {.n = 3, .set = on_any};
    assert_int_equal(world_run(&w, by_place), 0);
}

static void a_gpu_is_not_used_twice(void **state) {
    (void)state;
    (void)setenv("STANDIN_SAME", "1", 1);
    struct world w = {.n = 2, .set = on_gpus};
    world_start(&w, endless);
    assert_end(&w, UINT32_MAX, CO_INVALID, "ranks 1 (127.0.0.1");
    world_done(&w);
    (void)unsetenv("STANDIN_SAME");
}

/* What a process of its own says of a device, with a setting: see main. */
static char *ask(const char *setting, const char *device) {
    static char text[600];
    CO_AUTOFREE char *command = co_xasprintf("%s '%s' say '%s'", setting, self, device);
    FILE *f = popen(command, "re");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = 0;
    (void)pclose(f);
    return text;
}

static const struct {
    const char *setting, *device, *says; /* $S in a setting: the stand-ins */
} answers[] = {
    {"", "cpu", "cpu\n"},
    {"", "gpu", "gpu:0\n"},
    {"", "gpu:3", "gpu:3\n"},
    {"FLAGS_selected_gpus=2", "gpu", "gpu:2\n"},
    {"FLAGS_selected_gpus=5,6", "gpu", "gpu:5\n"},
    {"FLAGS_selected_gpus=5", "gpu:1", "gpu:1\n"},
    {"FLAGS_selected_gpus=GPU-1", "gpu",
        "FLAGS_selected_gpus is \"GPU-1\": expected GPUs' numbers"},
    {"FLAGS_selected_gpus=8", "gpu", "no GPU 8: this process sees 8"},
    {"", "gpu:", "device \"gpu:\": expected cpu, gpu or gpu:N"},
    {"", "gpu:-1", "expected cpu, gpu or gpu:N"},
    {"", "xpu", "expected cpu, gpu or gpu:N"},
    {"FLAGS_nccl_dir=$S/plain", "gpu", "gpu:0\n"},
    {"FLAGS_nccl_dir=$S/lacking", "gpu", "/lacking/libnccl.so.2 has no function ncclCommAbort"},
    {"LD_LIBRARY_PATH=$S/lacking", "gpu",
        "no driver of NVIDIA GPUs: the library libcuda.so.1 has no function cuInit"},
};

static void devices_and_libraries_are_what_the_environment_says(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(answers); i++) {
        CO_AUTOFREE char *setting = co_xasprintf("S='%s'; %s", standins, answers[i].setting);
        const char *text = ask(setting, answers[i].device);
        if (!strstr(text, answers[i].says)) {
            fail_msg("%s %s: %s", answers[i].setting, answers[i].device, text);
        }
    }
}

static void a_machine_without_a_driver_says_so(void **state) {
    (void)state;
    const char *text = ask("LD_LIBRARY_PATH=/none", "gpu");
    assert_true(strstr(text, "no driver of NVIDIA GPUs: cannot load the library libcuda.so.1") ||
                strstr(text, "libnccl.so.2") || strstr(text, "gpu:0"));
    assert_int_equal(strchr(text, '\n') - text + 1, (long)strlen(text));
}

/* ---- main ---- */

static int say(const char *device) {
    struct co_err err = {0};
    struct rt_group *g = NULL;
    struct rt_group_options o = {.size = 1, .device = device};
    int rc = rt_group_open(NULL, &o, &g, &err);
    puts(rc < 0 ? co_err_text(&err) : rt_group_device(g));
    rt_group_close(g);
    return rc < 0;
}

/* A real NCCL without a GPU: it loads, all functions are there, and NCCL itself, which the
 * stand-in of the driver leads to believe in one, says what is missing. */
static void a_real_library_loads(void **state) {
    (void)state;
    const char *bare = ask("LD_LIBRARY_PATH=/none", "gpu");
    assert_true(strstr(bare, "libcuda.so.1") || strstr(bare, "gpu:0"));
    CO_AUTOFREE char *setting = co_xasprintf("LD_LIBRARY_PATH='%s'", standins);
    const char *text = ask(setting, "gpu");
    print_message("%s", text);
    assert_non_null(strstr(text, "NCCL: "));
}

static int count(void) {
    struct co_err err = {0};
    uint32_t n = 0;
    int rc = rt_gpu_count(&n, &err);
    if (rc < 0) {
        puts(co_err_text(&err));
    } else {
        printf("%u GPUs\n", n);
    }
    return rc < 0;
}

/* In a process of its own: CUDA does not survive a fork. */
static uint32_t count_gpus(void) {
    CO_AUTOFREE char *command = co_xasprintf("'%s' count", self);
    unsigned n = 0;
    FILE *f = popen(command, "re");
    if (!f || fscanf(f, "%u GPUs", &n) != 1) {
        n = 0;
    }
    if (f) {
        (void)pclose(f);
    }
    return n < WORLD_MAX ? n : WORLD_MAX;
}

int main(int argc, char **argv) {
    static const struct CMUnitTest real[] = {
        cmocka_unit_test(every_kind_of_call),
        cmocka_unit_test(every_type_and_reduction),
        cmocka_unit_test(started_calls_are_made_in_order),
        cmocka_unit_test(arguments_that_do_not_fit_are_refused),
        cmocka_unit_test(main_memory_goes_as_ever),
    };
    static const struct CMUnitTest wheel[] = {
        cmocka_unit_test(a_real_library_loads),
    };
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_call),
        cmocka_unit_test(every_kind_without_what_new_libraries_have),
        cmocka_unit_test(every_type_and_reduction),
        cmocka_unit_test(started_calls_are_made_in_order),
        cmocka_unit_test(groups_of_groups_stay_on_their_gpus),
        cmocka_unit_test(killed_ranks_are_named),
        cmocka_unit_test(the_dead_are_named_though_nccl_fails_first),
        cmocka_unit_test(stopped_ranks_are_named),
        cmocka_unit_test(late_ranks_are_named),
        cmocka_unit_test(ranks_that_left_are_named),
        cmocka_unit_test(calls_that_differ_are_noticed),
        cmocka_unit_test(faults_of_one_rank_are_told_to_all),
        cmocka_unit_test(those_that_are_left_go_on),
        cmocka_unit_test(arguments_that_do_not_fit_are_refused),
        cmocka_unit_test(main_memory_goes_as_ever),
        cmocka_unit_test(ranks_of_a_machine_take_a_gpu_each),
        cmocka_unit_test(a_gpu_is_not_used_twice),
        cmocka_unit_test(devices_and_libraries_are_what_the_environment_says),
        cmocka_unit_test(a_machine_without_a_driver_says_so),
    };
    const char *mode = argc > 1 ? argv[1] : "";
    char folder[PATH_MAX];
    if (!realpath("/proc/self/exe", self)) {
        return 2;
    }
    (void)snprintf(folder, sizeof(folder), "%s", self);
    (void)snprintf(standins, sizeof(standins), "%.4000s/standin", dirname(folder));
    if (strcmp(mode, "say") == 0) {
        return say(argc > 2 ? argv[2] : "gpu");
    }
    if (strcmp(mode, "count") == 0) {
        return count();
    }
    if (strcmp(mode, "wheel") == 0) {
        return cmocka_run_group_tests_name("wheel", wheel, NULL, NULL);
    }
    if (strcmp(mode, "real") == 0) {
        gpus = count_gpus();
        return cmocka_run_group_tests_name("real", real, NULL, NULL);
    }
    /* The dynamic linker looks at this when a program starts. */
    const char *path = getenv("LD_LIBRARY_PATH");
    if (!path || strcmp(path, standins) != 0) {
        (void)setenv("LD_LIBRARY_PATH", standins, 1);
        (void)execv(self, argv);
        return 2;
    }
    return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
