/* What a trainer does with servers that are none, refuse it, do not answer, or answer nonsense: it
 * names the server and what was wrong, in bounded time. */
#include "runtime/train/ps/client/client.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/listen.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/link_internal.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/rpc/rpc.h"

enum { SIZE = 20, DIM = 2 };

/* How it answers a hello; and what is asked of it once a trainer is welcome. */
enum hello { WELCOME, BARRIER, GARBAGE, NOTHING, NO_SHARDS, MANY_SHARDS, REFUSE, BUSY, HANG_UP };
enum then { SILENT, ONE_FLOAT, ERROR_ANSWER, ERROR_OF_ALL, STRANGE_SEQ, HANG_UP_THEN };

struct fake {
    struct rpc *rpc;
    char endpoint[32];
    enum hello hello;
    enum then then;
    uint64_t lease_ms;
    /* Of its welcome. */
    bool fresh, dirty;
    bool breaks; /* instead of answering the first begin; by then another trainer has begun */
    uint64_t restored, restored_step, step;
};

static void answer(struct rpc_stream *s, const struct rpc_frame *f, size_t bytes, uint64_t seq) {
    struct rpc_frame *a = NULL;
    assert_int_equal(0, rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, bytes, &a, NULL));
    memset(a->payload, 0xff, bytes);
    a->head.seq = seq;
    (void)!rpc_stream_send(s, a, NULL);
}

static void answer_control(struct rpc_stream *s, const struct rpc_frame *f, const Rpc__Control *c) {
    struct rpc_frame *a = NULL;
    assert_int_equal(0, ps_control_pack(c, &f->head, &a, NULL));
    (void)!rpc_stream_send(s, a, NULL);
}

static void welcome(
    const struct fake *k, struct rpc_stream *s, const struct rpc_frame *f, uint32_t shards) {
    Rpc__Welcome w = RPC__WELCOME__INIT;
    w.shards = shards;
    w.lease_ms = k->lease_ms;
    w.fresh = k->fresh;
    w.dirty = k->dirty;
    w.restored = k->restored;
    w.restored_step = k->restored_step;
    w.step = k->step;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_WELCOME;
    c.welcome = &w;
    answer_control(s, f, &c);
}

static void on_hello(const struct fake *k, struct rpc_stream *s, const struct rpc_frame *f) {
    Rpc__Barrier b = RPC__BARRIER__INIT;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_BARRIER;
    c.barrier = &b;
    switch (k->hello) {
    case WELCOME:
        welcome(k, s, f, 1);
        break;
    case NO_SHARDS:
        welcome(k, s, f, 0);
        break;
    case MANY_SHARDS:
        welcome(k, s, f, 5000);
        break;
    case BARRIER:
        answer_control(s, f, &c);
        break;
    case GARBAGE:
        answer(s, f, 100, f->head.seq);
        break;
    case NOTHING:
        answer(s, f, 0, f->head.seq);
        break;
    case REFUSE:
        (void)!rpc_stream_send(s, rpc_frame_error(&f->head, CO_PERMISSION, "go away"), NULL);
        break;
    case BUSY:
        (void)!rpc_stream_send(s, rpc_frame_error(&f->head, CO_CONFLICT, "come later"), NULL);
        break;
    case HANG_UP:
        rpc_stream_cancel(s);
        break;
    }
}

static bool is_control(const struct rpc_frame *f, Rpc__Control__BodyCase body) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *c = NULL;
    return f->head.kind == RPC_FRAME_CONTROL && ps_control_unpack(f, &c, NULL) == 0 &&
           c->body_case == body;
}

static void on_open(void *arg, struct rpc_stream *s) {
    (void)arg;
    rpc_stream_set_user(s, NULL);
}

static void on_frame(void *arg, struct rpc_stream *s, struct rpc_frame *f_own) {
    struct fake *k = arg;
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = f_own;
    if (rpc_stream_user(s) == NULL || is_control(f, RPC__CONTROL__BODY_HELLO)) {
        rpc_stream_set_user(s, arg);
        on_hello(k, s, f);
        return;
    }
    if (is_control(f, RPC__CONTROL__BODY_BEGIN) && k->breaks) {
        k->breaks = k->fresh = false;
        k->dirty = true;
        rpc_stream_cancel(s);
        return;
    }
    if (is_control(f, RPC__CONTROL__BODY_BEGIN)) {
        k->fresh = false;
        answer(s, f, 0, f->head.seq);
        return;
    }
    if (is_control(f, RPC__CONTROL__BODY_LEAVE)) {
        rpc_stream_end(s);
        return;
    }
    if (f->head.kind == RPC_FRAME_PING && k->then != SILENT) {
        answer(s, f, 0, f->head.seq);
        return;
    }
    switch (k->then) {
    case SILENT:
        break;
    case ONE_FLOAT:
        answer(s, f, sizeof(float), f->head.seq);
        break;
    case ERROR_ANSWER:
        (void)!rpc_stream_send(s, rpc_frame_error(&f->head, CO_NORESOURCE, "too many rows"), NULL);
        break;
    case ERROR_OF_ALL:
        (void)!rpc_stream_send(s, rpc_frame_error(NULL, CO_PEERLOST, "trainer 1 lost"), NULL);
        break;
    case STRANGE_SEQ: /* of nobody, of a former life of the slot, of the right one */
        answer(s, f, 4, f->head.seq + 1000);
        answer(s, f, 4, UINT64_MAX);
        answer(s, f, 4, f->head.seq + (UINT64_C(1) << 32));
        answer(s, f, SIZE * sizeof(float), f->head.seq);
        break;
    case HANG_UP_THEN:
        rpc_stream_cancel(s);
        break;
    }
}

static void on_close(void *arg, struct rpc_stream *s, const struct co_err *why) {
    (void)arg;
    (void)s;
    (void)why;
}

static const struct rpc_ops ops = {on_open, on_frame, on_close, NULL};

static void fake_start(struct fake *k, enum hello hello, enum then then) {
    int fd = -1;
    *k = (struct fake){.hello = hello, .then = then, .lease_ms = 30000};
    assert_int_equal(0, rpc_open(&ops, k, NULL, &k->rpc, NULL));
    assert_int_equal(0, net_listen("127.0.0.1:0", &fd, NULL));
    (void)snprintf(k->endpoint, sizeof(k->endpoint), "127.0.0.1:%u", co_listen_port(fd));
    assert_int_equal(0, rpc_accept(k->rpc, fd, NULL));
}

static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd"},
    {.name = "e", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd"},
};

static int enter(struct fake *k, enum rt_mode mode, const struct rt_table_spec *tables, size_t n,
    struct rt_client **ret, struct co_err *err) {
    const char *endpoints[] = {k->endpoint};
    struct psc_client_config c = {
        .trainers = 1, .servers = 1, .endpoints = endpoints, .job = "job", .token = ""};
    bool ready = k->rpc && k->hello != BUSY && k->hello != HANG_UP;
    int64_t patience = k->then == SILENT ? 300 : 20000;
    struct rt_client_options o = {.mode = mode,
        .return_ms = k->then == HANG_UP_THEN ? 300 : -1,
        .start_timeout_ms = ready ? 20000 : 500,
        .call_timeout_ms = patience,
        .barrier_timeout_ms = patience};
    return psc_client_connect(&c, &o, tables, n, ret, err);
}

static struct rt_client *welcomed(struct fake *k, enum rt_mode mode, enum then then) {
    struct rt_client *c = NULL;
    struct co_err err = {0};
    fake_start(k, WELCOME, then);
    if (enter(k, mode, specs, 2, &c, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return c;
}

static void says(const struct co_err *err, int code, const char *text) {
    if (err->code != code || !strstr(err->msg, text)) {
        fail_msg("%d '%s' is not %d '%s'", err->code, err->msg, code, text);
    }
}

/* ---- joining ------------------------------------------------------------------------------ */

/* With backup, another trainer may have made steps on a server since that was restarted: the job
 * goes back to the step of its checkpoint. */
static void a_job_goes_back_to_the_step_of_the_checkpoint(void **state) {
    (void)state;
    struct fake k[2];
    struct rt_client *c = NULL;
    struct co_err err = {0};
    for (size_t i = 0; i < 2; i++) {
        fake_start(&k[i], WELCOME, ONE_FLOAT);
        k[i].step = 75;
        k[i].restored = 2;
        k[i].restored_step = 67;
    }
    k[0].fresh = true;
    k[1].dirty = true;
    const char *endpoints[] = {k[0].endpoint, k[1].endpoint};
    struct psc_client_config config = {
        .trainers = 2, .servers = 2, .endpoints = endpoints, .job = "job", .token = ""};
    struct rt_client_options o = {.mode = RT_SYNC,
        .backup = 1,
        .return_ms = -1,
        .start_timeout_ms = 20000,
        .call_timeout_ms = 20000,
        .barrier_timeout_ms = 20000};
    if (psc_client_connect(&config, &o, specs, 1, &c, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(1, c->progress.era);
    assert_int_equal(2, c->progress.restored);
    assert_int_equal(67, c->progress.steps);
    rt_client_close(c);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(0, rpc_close(k[i].rpc, NULL));
    }
}

/* A trainer that stood still loses one of its links while it begins.  By the time that it is back,
 * another one has trained: the server that it did begin at was not restarted for all that. */
static void a_server_that_another_trainer_used_is_not_taken_for_restarted(void **state) {
    (void)state;
    static const enum rt_mode modes[] = {RT_SYNC, RT_ASYNC};
    for (size_t m = 0; m < CO_ARRAY_LEN(modes); m++) {
        struct fake k[2];
        struct rt_client *c = NULL;
        struct co_err err = {0};
        for (size_t i = 0; i < 2; i++) {
            fake_start(&k[i], WELCOME, ONE_FLOAT);
            k[i].fresh = true;
        }
        k[0].breaks = true;
        const char *endpoints[] = {k[0].endpoint, k[1].endpoint};
        struct psc_client_config config = {
            .trainers = 2, .servers = 2, .endpoints = endpoints, .job = "job", .token = ""};
        struct rt_client_options o = {.mode = modes[m],
            .return_ms = 60000,
            .start_timeout_ms = 20000,
            .call_timeout_ms = 20000,
            .barrier_timeout_ms = 20000};
        if (psc_client_connect(&config, &o, specs, 1, &c, &err) < 0) {
            fail_msg("%s", err.msg);
        }
        rt_client_close(c);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(0, rpc_close(k[i].rpc, NULL));
        }
    }
}

/* What no waiting helps is said at once; the rest when the time to start is over. */
static void a_server_that_gives_no_welcome_is_named(void **state) {
    (void)state;
    static const struct {
        enum hello hello;
        int code;
        const char *text;
    } rows[] = {
        {BARRIER, CO_INVALID, "not a welcome"},
        {NOTHING, CO_INVALID, "not a welcome"},
        {NO_SHARDS, CO_INVALID, "not a welcome"},
        {MANY_SHARDS, CO_INVALID, "not a welcome"},
        {GARBAGE, CO_INVALID, "cannot be read"},
        {REFUSE, CO_PERMISSION, "go away"},
        {BUSY, CO_TIMEOUT, "come later"},
        {HANG_UP, CO_TIMEOUT, "servers not ready within 0.5 s"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct fake k;
        struct rt_client *c = NULL;
        struct co_err err = {0};
        fake_start(&k, rows[i].hello, SILENT);
        assert_int_equal(rows[i].code, enter(&k, RT_ASYNC, specs, 2, &c, &err));
        says(&err, rows[i].code, rows[i].text);
        says(&err, rows[i].code, k.endpoint);
        assert_null(c);
        assert_int_equal(0, rpc_close(k.rpc, NULL));
    }
}

static void invalid_tables_are_refused_before_a_server_is_asked(void **state) {
    (void)state;
    struct fake nobody = {.endpoint = "127.0.0.1:1"};
    struct rt_client *c = NULL;
    struct co_err err = {0};
    struct rt_table_spec twins[] = {specs[0], specs[1], specs[0]};
    struct rt_table_spec many[257];
    for (size_t i = 0; i < CO_ARRAY_LEN(many); i++) {
        many[i] = specs[0];
    }
    assert_int_equal(CO_INVALID, enter(&nobody, RT_ASYNC, NULL, 0, &c, &err));
    says(&err, CO_INVALID, "0 tables, expected 1 to 256");
    assert_int_equal(CO_INVALID, enter(&nobody, RT_ASYNC, many, 257, &c, &err));
    says(&err, CO_INVALID, "257 tables, expected 1 to 256");
    assert_int_equal(CO_INVALID, enter(&nobody, RT_ASYNC, twins, 3, &c, &err));
    says(&err, CO_INVALID, "two tables named \"w\"");
    assert_int_equal(CO_TIMEOUT, enter(&nobody, RT_ASYNC, specs, 2, &c, &err));
    says(&err, CO_TIMEOUT,
        "servers not ready within 0.5 s: ['127.0.0.1:1']; server 0 (127.0.0.1:1): "
        "cannot connect: Connection refused");
}

/* ---- no answer ---------------------------------------------------------------------------- */

static int pull_dense(struct rt_client *c, struct co_err *err) {
    float w[SIZE];
    return rt_pull_dense(c, 0, w, err);
}

static int pull_sparse(struct rt_client *c, struct co_err *err) {
    uint64_t ids[] = {1, 2, 1};
    float rows[3 * DIM];
    return rt_pull_sparse(c, 1, ids, 3, rows, err);
}

static int push_and_flush(struct rt_client *c, struct co_err *err) {
    float g[SIZE] = {0};
    CO_TRY(rt_push_dense(c, 0, g, err));
    return rt_flush(c, err);
}

static int exchange_and_flush(struct rt_client *c, struct co_err *err) {
    float g[SIZE] = {0}, w[SIZE];
    CO_TRY(rt_exchange_dense(c, 0, g, w, err));
    return rt_flush(c, err);
}

static int stat_of(struct rt_client *c, struct co_err *err) {
    struct rt_table_stat st;
    return rt_stat(c, 0, &st, err);
}

static int init_dense(struct rt_client *c, struct co_err *err) {
    float w[SIZE] = {0};
    return rt_init_dense(c, 0, w, err);
}

/* A server that answers nothing, though its connection stands. */
static void no_answer_in_time_names_call_and_server(void **state) {
    (void)state;
    static const struct {
        int (*call)(struct rt_client *c, struct co_err *err);
        enum rt_mode mode;
        const char *text;
    } rows[] = {
        {pull_dense, RT_ASYNC, "pull of table w: no answer from server 0 (127.0.0.1:"},
        {pull_sparse, RT_ASYNC, "pull of table e: no answer from server 0 (127.0.0.1:"},
        {push_and_flush, RT_ASYNC, "flush: pushes were not answered within 300 ms"},
        {exchange_and_flush, RT_ASYNC, "flush: pushes were not answered within 300 ms"},
        {stat_of, RT_ASYNC, "stat: no answer from server 0"},
        {rt_barrier, RT_ASYNC, "barrier: no answer from server 0"},
        {rt_step, RT_SYNC, "step: no answer from server 0"},
        {init_dense, RT_ASYNC, "init of table w: no answer from server 0"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct fake k;
        struct rt_client *c = welcomed(&k, rows[i].mode, SILENT);
        struct co_err err = {0};
        assert_int_equal(CO_TIMEOUT, rows[i].call(c, &err));
        says(&err, CO_TIMEOUT, rows[i].text);
        rt_client_close(c);
        assert_int_equal(0, rpc_close(k.rpc, NULL));
    }
}

/* What the server has done of it is unknown, so nothing is done on top. */
/* A call whose frame one thread makes, until it is asked to end, while another one waits for it. */
struct slow_make {
    struct rt_call *call;
    atomic_bool making, end;
    struct co_err err;
};

static void fill_slowly(
    const struct rt_call *call, const struct psc_part *p, unsigned char *payload) {
    struct slow_make *m = call->arg;
    m->making = true;
    while (!m->end) {
        (void)sched_yield();
    }
    memset(payload, 0, p->head.bytes);
}

static void *start_slowly(void *arg) {
    struct slow_make *m = arg;
    psc_call_start(m->call);
    return NULL;
}

static void *wait_shortly(void *arg) {
    struct slow_make *m = arg;
    (void)!psc_call_wait(m->call, 1, &m->err);
    return NULL;
}

static bool is_awaiting(struct rt_client *c) {
    psc_lock(c);
    bool is = c->links->awaiting > 0;
    psc_unlock(c);
    return is;
}

/* It waits for the thread that reads its caller's memory, and no longer: the server, which stays
 * silent, has no say in that. */
static void a_call_is_given_up_once_its_frame_is_made(void **state) {
    (void)state;
    struct fake k;
    struct rt_client *c = welcomed(&k, RT_ASYNC, SILENT);
    struct slow_make m = {.call = psc_call_new(c, "pull", NULL, 1)};
    const struct rpc_frame_head head = {.kind = RPC_FRAME_PULL_SPARSE, .count = 1, .bytes = 8};
    psc_call_part(m.call, 0, 0, &head, 0);
    m.call->fill = fill_slowly;
    m.call->arg = &m;
    m.call->harmless = true;
    pthread_t maker, waiter;
    assert_int_equal(0, pthread_create(&maker, NULL, start_slowly, &m));
    while (!m.making) {
        (void)sched_yield();
    }
    assert_int_equal(0, pthread_create(&waiter, NULL, wait_shortly, &m));
    while (!is_awaiting(c)) {
        (void)sched_yield();
    }
    m.end = true;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20; /* before the waiter looks by itself */
    assert_int_equal(0, pthread_timedjoin_np(waiter, NULL, &end));
    says(&m.err, CO_TIMEOUT, "pull: no answer from");
    pthread_join(maker, NULL);
    rt_client_close(c);
    assert_int_equal(0, rpc_close(k.rpc, NULL));
}

static void the_first_failure_is_that_of_all_later_calls(void **state) {
    (void)state;
    struct fake k;
    struct rt_client *c = welcomed(&k, RT_ASYNC, SILENT);
    struct co_err err = {0}, later = {0};
    assert_int_equal(CO_TIMEOUT, stat_of(c, &err));
    assert_int_equal(CO_TIMEOUT, pull_sparse(c, &later));
    assert_string_equal(err.msg, later.msg);
    assert_int_equal(CO_TIMEOUT, push_and_flush(c, &later));
    assert_string_equal(err.msg, later.msg);
    assert_int_equal(CO_TIMEOUT, rt_step(c, &later));
    assert_string_equal(err.msg, later.msg);
    assert_int_equal(CO_TIMEOUT, rt_finish(c, &later)); /* c is gone */
    assert_string_equal(err.msg, later.msg);
    assert_int_equal(0, rpc_close(k.rpc, NULL));
}

/* The lease is the shorter one of both sides. */
static void a_silent_server_is_lost_after_its_lease(void **state) {
    (void)state;
    struct fake k;
    fake_start(&k, WELCOME, SILENT);
    k.lease_ms = 300;
    const char *endpoints[] = {k.endpoint};
    struct psc_client_config config = {
        .trainers = 1, .servers = 1, .endpoints = endpoints, .job = "job", .token = ""};
    /* Its own lease is far away, behind the time of the call. */
    struct rt_client_options o = {
        .start_timeout_ms = 600000, .call_timeout_ms = 60000, .return_ms = -1, .lease_ms = 600000};
    struct rt_client *c = NULL;
    struct co_err err = {0};
    assert_int_equal(0, psc_client_connect(&config, &o, specs, 2, &c, &err));
    assert_int_equal(CO_PEERLOST, pull_dense(c, &err));
    says(&err, CO_PEERLOST, "server 0 (127.0.0.1:");
    says(&err, CO_PEERLOST, "lost: no sign of life for ");
    rt_client_close(c);
    assert_int_equal(0, rpc_close(k.rpc, NULL));
}

/* ---- wrong answers ------------------------------------------------------------------------ */

static void answers_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const struct {
        int (*call)(struct rt_client *c, struct co_err *err);
        enum then then;
        int code;
        const char *text;
    } rows[] = {
        {pull_dense, ONE_FLOAT, CO_INVALID, "4 bytes for 20 values"},
        {pull_dense, ONE_FLOAT, CO_INVALID, "pull: answer of server 0 (127.0.0.1:"},
        {pull_sparse, ONE_FLOAT, CO_INVALID, "4 bytes for 2 rows of 2"},
        {stat_of, ONE_FLOAT, CO_INVALID, "4 bytes for 8 numbers"},
        {exchange_and_flush, ONE_FLOAT, CO_INVALID, "4 bytes for 20 values"},
        {pull_dense, ERROR_ANSWER, CO_NORESOURCE, "too many rows"},
        {pull_sparse, ERROR_ANSWER, CO_NORESOURCE, "server 0 (127.0.0.1:"},
        {push_and_flush, ERROR_ANSWER, CO_NORESOURCE, "too many rows"},
        {pull_dense, ERROR_OF_ALL, CO_PEERLOST, "trainer 1 lost"},
        {push_and_flush, ERROR_OF_ALL, CO_PEERLOST, "trainer 1 lost"},
        {pull_dense, HANG_UP_THEN, CO_PEERLOST, "lost: "},
        {pull_dense, HANG_UP_THEN, CO_PEERLOST, "and not back within 0."},
        {push_and_flush, HANG_UP_THEN, CO_PEERLOST, "server 0 (127.0.0.1:"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct fake k;
        struct rt_client *c = welcomed(&k, RT_ASYNC, rows[i].then);
        struct co_err err = {0};
        assert_int_equal(rows[i].code, rows[i].call(c, &err));
        says(&err, rows[i].code, rows[i].text);
        rt_client_close(c);
        assert_int_equal(0, rpc_close(k.rpc, NULL));
    }
}

static void answers_that_nobody_asked_for_are_passed_over(void **state) {
    (void)state;
    struct fake k;
    struct rt_client *c = welcomed(&k, RT_ASYNC, STRANGE_SEQ);
    struct co_err err = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, pull_dense(c, &err));
    }
    rt_client_close(c);
    assert_int_equal(0, rpc_close(k.rpc, NULL));
}

/* A refused pull is its caller's alone; a refused push is returned once, by a later call. */
static void a_refusal_leaves_the_client_as_it_was(void **state) {
    (void)state;
    struct fake k;
    struct rt_client *c = welcomed(&k, RT_ASYNC, ERROR_ANSWER);
    struct co_err err = {0};
    assert_int_equal(CO_NORESOURCE, pull_dense(c, &err));
    assert_int_equal(0, rt_step(c, &err));
    assert_int_equal(CO_NORESOURCE, push_and_flush(c, &err));
    assert_int_equal(0, rt_step(c, &err));
    rt_client_close(c);
    assert_int_equal(0, rpc_close(k.rpc, NULL));
}

static void calls_on_tables_of_another_kind_are_refused(void **state) {
    (void)state;
    struct fake k;
    struct rt_client *c = welcomed(&k, RT_ASYNC, SILENT);
    float v[SIZE] = {0};
    uint64_t id = 1;
    struct rt_table_stat st;
    struct co_err err = {0};
    assert_int_equal(CO_INVALID, rt_pull_dense(c, 1, v, &err));
    says(&err, CO_INVALID, "table \"e\" is sparse, expected a dense one");
    assert_int_equal(CO_INVALID, rt_push_dense(c, 1, v, &err));
    assert_int_equal(CO_INVALID, rt_init_dense(c, 1, v, &err));
    assert_int_equal(CO_INVALID, rt_exchange_dense(c, 1, v, v, &err));
    assert_int_equal(CO_INVALID, rt_pull_sparse(c, 0, &id, 1, v, &err));
    says(&err, CO_INVALID, "table \"w\" is dense, expected a sparse one");
    assert_int_equal(CO_INVALID, rt_push_sparse(c, 2, &id, 1, v, &err));
    assert_int_equal(CO_INVALID, rt_stat(c, 2, &st, &err));
    says(&err, CO_INVALID, "there is no table 2");
    rt_client_close(c);
    assert_int_equal(0, rpc_close(k.rpc, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_goes_back_to_the_step_of_the_checkpoint),
        cmocka_unit_test(a_server_that_another_trainer_used_is_not_taken_for_restarted),
        cmocka_unit_test(a_server_that_gives_no_welcome_is_named),
        cmocka_unit_test(invalid_tables_are_refused_before_a_server_is_asked),
        cmocka_unit_test(no_answer_in_time_names_call_and_server),
        cmocka_unit_test(a_call_is_given_up_once_its_frame_is_made),
        cmocka_unit_test(the_first_failure_is_that_of_all_later_calls),
        cmocka_unit_test(a_silent_server_is_lost_after_its_lease),
        cmocka_unit_test(answers_that_do_not_fit_are_refused),
        cmocka_unit_test(answers_that_nobody_asked_for_are_passed_over),
        cmocka_unit_test(a_refusal_leaves_the_client_as_it_was),
        cmocka_unit_test(calls_on_tables_of_another_kind_are_refused),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
