/* Groups whose connections are encrypted.  What a rank sends to a socket is looked at, and may be
 * changed before the kernel gets it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/contract.h"
#include "runtime/train/coll/coll.h"
#include "runtime/train/coll/coll_testing.h"

enum { PATTERN = 0x5a17c3e9, REPEATED = 4 };
enum { SAW_DATA = 1, SAW_REASON = 2 };

static const char reason[] = "the reason why this rank gives up";

/* ---- what is sent ---- */

static _Atomic uint32_t saw;
/* The next send on this descriptor has this bit changed; -1: none. */
static _Atomic int changed_fd = -1;
static size_t changed_byte;
static unsigned changed_bit;

static void look_at(const void *data, size_t n) {
    uint32_t pattern[REPEATED];
    for (size_t i = 0; i < REPEATED; i++) {
        pattern[i] = PATTERN;
    }
    uint32_t found = (memmem(data, n, pattern, sizeof(pattern)) ? SAW_DATA : 0U) |
                     (memmem(data, n, reason, strlen(reason)) ? SAW_REASON : 0U);
    atomic_fetch_or(&saw, found);
}

ssize_t send(int fd, const void *data, size_t n, int flags) {
    int armed = fd;
    look_at(data, n);
    if (fd < 0 || !atomic_compare_exchange_strong(&changed_fd, &armed, -1)) {
        return syscall(SYS_sendto, fd, data, n, flags, NULL, 0);
    }
    CO_AUTOFREE unsigned char *copy = co_xmalloc(n);
    memcpy(copy, data, n);
    copy[changed_byte % n] ^= (unsigned char)(1U << changed_bit);
    return syscall(SYS_sendto, fd, copy, n, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags) {
    for (size_t i = 0; i < m->msg_iovlen; i++) {
        look_at(m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
    }
    return syscall(SYS_sendmsg, fd, m, flags);
}

/* ---- nothing is seen ---- */

static int make_calls(struct rt_group *g, size_t n, struct co_err *err) {
    static const enum rt_kind kinds[] = {
        RT_BROADCAST, RT_ALL_GATHER, RT_ALL_TO_ALL, RT_GATHER, RT_SEND, RT_BARRIER};
    uint32_t *in = (uint32_t *)world_in, *out = (uint32_t *)world_out;
    CO_TRY(rt_all_reduce(g, in, out, n, RT_I32, RT_MAX, err));
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        out[0] = PATTERN; /* a broadcast's */
        CO_TRY(world_call(g, kinds[i], n, err));
    }
    for (size_t i = 0; i < n; i++) {
        if (out[i] != PATTERN) {
            return co_err_set(err, CO_INTERNAL, "element %zu of %zu is %x", i, n, out[i]);
        }
    }
    return 0;
}

/* In the group, in one split from it and in one grown from it; then rank 1 gives up. */
static int calls_everywhere(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    CO_CLEANUP(rt_group_closep) struct rt_group *part = NULL;
    CO_CLEANUP(rt_group_closep) struct rt_group *grown = NULL;
    struct rt_group_options o = world_options(w, rank);
    o.generation = 2;
    o.token = NULL; /* these two are the group's */
    o.encrypt = RT_ENCRYPT_UNSET;
    CO_TRY(make_calls(g, 100, err));
    CO_TRY(make_calls(g, WORLD_N, err));
    CO_TRY(rt_group_split(g, 0, -(int32_t)rank, &part, err));
    CO_TRY(make_calls(part, WORLD_N, err));
    rt_group_closep(&part);
    CO_TRY(rt_group_grow(g, &o, &grown, err));
    CO_TRY(make_calls(grown, WORLD_N, err));
    rt_group_closep(&grown);
    if (rank == 1) {
        rt_group_abort(g, reason);
    }
    return rt_group_barrier(g, err);
}

static int says_everything(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    for (size_t i = 0; i < sizeof(world_in) / sizeof(uint32_t); i++) {
        ((uint32_t *)world_in)[i] = ((uint32_t *)world_out)[i] = PATTERN;
    }
    int rc = calls_everywhere(w, g, rank, err);
    bool known = rc < 0 && strstr(co_err_text(err), reason);
    w->shared->rank[rank].hash = atomic_load(&saw);
    return known ? 0 : CO_INTERNAL;
}

static void by_variable(struct coll_world *w, uint32_t rank) {
    (void)w;
    (void)rank;
    (void)setenv(co_contract[CO_VAR_JOB_ENCRYPT].name, "1", 1);
}

/* A list of variables, which says other things than the environment. */
static void by_list(struct coll_world *w, uint32_t rank) {
    (void)rank;
    (void)setenv(co_contract[CO_VAR_JOB_TOKEN].name, rank ? "one" : "other", 1);
    (void)setenv(co_contract[CO_VAR_JOB_ENCRYPT].name, "0", 1);
    const char *const list[] = {"PADDLE_JOB_TOKEN=secret", "PADDLE_JOB_ENCRYPT=1", NULL};
    if (rt_init_list(list, &w->job, NULL) < 0) {
        abort();
    }
}

static void as_the_job_says(
    const struct coll_world *w, uint32_t rank, struct rt_group_options *ret) {
    (void)rank;
    ret->token = w->job ? NULL : ret->token;
}

static void only_unencrypted_groups_show_their_data_on_the_wire(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t nodes;
        bool encrypt;
        void (*enter)(struct coll_world *w, uint32_t rank);
        uint32_t seen;
    } rows[] = {
        {"plain", 0, .seen = SAW_DATA | SAW_REASON},
        {"encrypted", 0, true},
        {"encrypted between machines", 2, true},
        {"by variable", 0, .enter = by_variable},
        {"by a list of variables", 0, .enter = by_list},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct coll_world w = {.n = rows[i].nodes ? 3 : 2,
            .nodes = rows[i].nodes,
            .transport = rows[i].nodes ? RT_TRANSPORT_AUTO : RT_TRANSPORT_TCP,
            .encrypt = rows[i].encrypt,
            .enter = rows[i].enter,
            .set = as_the_job_says};
        world_start(&w, says_everything);
        assert_int_equal(world_end(&w, 0), 0);
        uint64_t seen = 0;
        for (uint32_t r = 0; r < w.n; r++) {
            seen |= w.shared->rank[r].hash;
        }
        if (seen != rows[i].seen) {
            fail_msg("%s: %x", rows[i].name, (unsigned)seen);
        }
        world_done(&w);
    }
}

static void encryption_needs_a_token(void **state) {
    (void)state;
    struct coll_world w = {.n = 2, .encrypt = true};
    struct rt_group *g = NULL;
    struct co_err err = {0};
    world_ports(&w);
    struct rt_group_options o = world_options(&w, 1);
    o.token = "";
    assert_int_equal(rt_group_open(NULL, &o, &g, &err), CO_INVALID);
    assert_non_null(strstr(err.msg, "PADDLE_JOB_TOKEN"));
}

/* ---- what is changed ---- */

/* The head of a message and its data are records of their own. */
enum { OVERHEAD = 22, HEAD_RECORD = 40 + OVERHEAD, LENGTH = 3, CONTENT = 5 };

static const struct change {
    const char *name;
    size_t n; /* elements of the call; 0: a sign of life is changed */
    size_t byte;
    unsigned bit;
} changes[] = {
    {"a longer record, then nothing", 10, HEAD_RECORD + LENGTH, 0},
    {"a longer head", 10, LENGTH + 1, 1},
    {"a shorter record", 10, HEAD_RECORD + LENGTH + 1, 3},
    {"its content", 10, HEAD_RECORD + CONTENT, 7},
    {"a head", WORLD_N, CONTENT + 20, 0},
    {"a longer record among others", WORLD_N, HEAD_RECORD + LENGTH + 1, 7},
    {"content among others", WORLD_N, 50000, 2},
    {"a sign of life", 0, CONTENT, 0},
    {"a longer sign of life", 0, LENGTH + 1, 1},
};

/* Rank 0 waits for what rank 1 sends. */
static int changes_one(
    struct coll_world *w, struct rt_group *g, uint32_t rank, struct co_err *err) {
    const struct change *c = &changes[w->stage];
    struct net_stream *s = c->n ? &g->peers[0].lanes[0] : &g->peers[0].control;
    CO_TRY(rt_group_barrier(g, err));
    memset(world_in, 1, sizeof(world_in));
    memset(world_out, 0xff, sizeof(world_out));
    if (rank == 1) {
        changed_byte = c->byte;
        changed_bit = c->bit;
        atomic_store(&changed_fd, s->fd);
        if (c->n == 0) {
            coll_monitor_ping(g);
            coll_monitor_ping(g);
            coll_wait_fd(g, -1, 0, co_now_ms() + WORLD_MS);
            return coll_group_why(g, err);
        }
    }
    size_t n = c->n ? c->n : 1;
    struct rt_coll call = {.kind = rank == 1 ? RT_SEND : RT_RECV,
        .dtype = RT_I32,
        .in = world_in,
        .out = world_out,
        .n = n,
        .root = 1 - rank};
    int rc = rt_coll_run(g, &call, err);
    /* What has come of it is what was sent. */
    for (size_t i = 0; i < n * sizeof(int32_t); i++) {
        if (world_out[i] != 1 && world_out[i] != 0xff) {
            return co_err_set(err, CO_INTERNAL, "byte %zu is %u", i, world_out[i]);
        }
    }
    CO_TRY(rc);
    return rt_group_barrier(g, err);
}

/* Whose sign of life was changed is not trusted with the reason: that goes the same way. */
static void a_changed_byte_ends_the_group(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(changes); i++) {
        struct coll_world w = {.n = 2, .transport = RT_TRANSPORT_TCP, .encrypt = true, .stage = i};
        world_start(&w, changes_one);
        assert_int_equal(world_end(&w, 3), 0);
        const char *said[2] = {w.shared->rank[0].text, w.shared->rank[1].text};
        if (w.shared->rank[0].code != CO_PEERLOST || w.shared->rank[1].code != CO_PEERLOST ||
            !strstr(said[0], "rank 1 (") || !strstr(said[0], "changed in transit") ||
            !strstr(
                said[1], changes[i].n ? "rank 1, this one, was given up by rank 0" : "rank 0 (")) {
            world_print(&w);
            fail_msg("%s", changes[i].name);
        }
        world_done(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_unencrypted_groups_show_their_data_on_the_wire),
        cmocka_unit_test(encryption_needs_a_token),
        cmocka_unit_test(a_changed_byte_ends_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
