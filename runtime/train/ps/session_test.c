/* What a server does with peers that do not keep to the protocol: it refuses them, and goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/train/ps/control.h"
#include "runtime/train/ps/server_internal.h"
#include "runtime/train/rpc/rpc.h"

struct peer {
    struct rt_server *server;
    struct rt_rpc *rpc;
    struct rt_stream *stream;
    pthread_mutex_t m;
    pthread_cond_t changed;
    unsigned answers, closed;
    struct co_err refused; /* the last error frame */
};

static void on_frame(void *arg, struct rt_stream *st, struct rt_frame *f) {
    (void)st;
    struct peer *p = arg;
    pthread_mutex_lock(&p->m);
    p->answers++;
    if (f->head.kind == RT_FRAME_ERROR) {
        rt_frame_error_read(f, &p->refused);
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->m);
    rt_frame_free(f);
}

static void on_close(void *arg, struct rt_stream *st, const struct co_err *why) {
    (void)st;
    (void)why;
    struct peer *p = arg;
    pthread_mutex_lock(&p->m);
    p->closed++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->m);
}

static const struct rt_rpc_ops ops = {NULL, on_frame, on_close, NULL};

static void await(struct peer *p, const unsigned *what, unsigned n) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 10;
    pthread_mutex_lock(&p->m);
    while (*what < n) {
        assert_int_equal(0, pthread_cond_timedwait(&p->changed, &p->m, &end));
    }
    pthread_mutex_unlock(&p->m);
}

static void dial(struct peer *p) {
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", rt_server_port(p->server));
    if (p->stream) {
        rt_stream_unref(p->stream);
    }
    p->stream = NULL;
    p->answers = p->closed = 0;
    p->refused = (struct co_err){0};
    assert_int_equal(0, rt_rpc_dial(p->rpc, endpoint, 5000, NULL, &p->stream, NULL));
}

static struct peer *peer_new(struct rt_server *server) {
    struct peer *p = co_xcalloc(1, sizeof(*p));
    pthread_mutex_init(&p->m, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->server = server;
    const struct rt_rpc_options options = {.token = "secret"};
    assert_int_equal(0, rt_rpc_open(&ops, p, &options, &p->rpc, NULL));
    dial(p);
    return p;
}

static void peer_free(struct peer *p) {
    rt_stream_unref(p->stream);
    rt_rpc_close(p->rpc);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->m);
    free(p);
}

static const struct rt_server_config usual = {.listen = "127.0.0.1:0",
    .servers = 1,
    .trainers = 2,
    .endpoints = (const char *const[]){"127.0.0.1:4000"},
    .job = "job",
    .token = "secret",
    .lease_ms = 20000,
    .start_timeout_ms = 20000,
    .shards = 1,
    .memory_max = 1 << 26,
    .quiet = true};

static struct peer *serve(const struct rt_server_config *c) {
    struct rt_server *s = NULL;
    assert_int_equal(0, rt_server_start(c, &s, NULL));
    return peer_new(s);
}

/* With its server. */
static void peer_end(struct peer *p) {
    struct rt_server *s = p->server;
    peer_free(p);
    rt_server_stop(s);
}

static int setup(void **state) {
    *state = serve(&usual);
    return 0;
}

static int teardown(void **state) {
    peer_end(*state);
    return 0;
}

static void send_frame(struct peer *p, uint8_t kind, uint32_t shard, size_t bytes) {
    struct rt_frame *f = NULL;
    assert_int_equal(0, rt_frame_new(kind, bytes, &f, NULL));
    memset(f->payload, 0xff, bytes);
    f->head.shard = shard;
    f->head.seq = 1;
    (void)!rt_stream_send(p->stream, f, NULL);
}

static void send_control(struct peer *p, const Rt__Control *c) {
    struct rt_frame *f = NULL;
    assert_int_equal(0, rt_control_pack(c, NULL, &f, NULL));
    (void)!rt_stream_send(p->stream, f, NULL);
}

/* A hello that is welcome, to be spoilt. */
struct greeting {
    Rt__Hello hello;
    Rt__Table table, *tables[1];
};

static void greet(struct greeting *g, uint32_t trainer) {
    static char *list[] = {(char *)(uintptr_t) "127.0.0.1:4000"};
    *g = (struct greeting){
        .hello = RT__HELLO__INIT, .table = RT__TABLE__INIT, .tables = {&g->table}};
    g->table.name = (char *)(uintptr_t) "w";
    g->table.size = 10;
    g->table.optimizer = (char *)(uintptr_t) "sgd";
    g->hello.job = (char *)(uintptr_t) "job";
    g->hello.trainer = trainer;
    g->hello.trainers = 2;
    g->hello.servers = 1;
    g->hello.n_endpoints = 1;
    g->hello.endpoints = list;
    g->hello.n_tables = 1;
    g->hello.tables = g->tables;
}

static void send_greeting(struct peer *p, struct greeting *g) {
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_HELLO;
    c.hello = &g->hello;
    send_control(p, &c);
}

static void send_hello(struct peer *p, uint32_t trainer) {
    struct greeting g;
    greet(&g, trainer);
    send_greeting(p, &g);
}

static void join_as(struct peer *p, uint32_t trainer, uint32_t mode) {
    struct greeting g;
    greet(&g, trainer);
    g.hello.mode = mode;
    send_greeting(p, &g);
    await(p, &p->answers, 1);
    assert_int_equal(0, p->refused.code);
}

static void send_barrier(struct peer *p, uint64_t number) {
    Rt__Barrier b = RT__BARRIER__INIT;
    b.number = number;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_BARRIER;
    c.barrier = &b;
    send_control(p, &c);
}

static void send_step(struct peer *p, uint64_t number) {
    struct rt_frame *f = NULL;
    assert_int_equal(0, rt_frame_new(RT_FRAME_STEP, 0, &f, NULL));
    f->head.seq = 1;
    f->head.aux = number;
    (void)!rt_stream_send(p->stream, f, NULL);
}

static void send_finish(struct peer *p) {
    Rt__Finish fin = RT__FINISH__INIT;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_FINISH;
    c.finish = &fin;
    send_control(p, &c);
}

static void refused_with(struct peer *p, const char *text) {
    await(p, &p->closed, 1);
    if (!strstr(p->refused.msg, text)) {
        fail_msg("'%s' does not say '%s'", p->refused.msg, text);
    }
}

/* The server is still there for those who do it right. */
static void still_serves(struct peer *p) {
    dial(p);
    send_hello(p, 0);
    await(p, &p->answers, 1);
    send_frame(p, RT_FRAME_PULL_DENSE, 0, 0);
    await(p, &p->answers, 2);
}

static void nothing_is_done_before_hello(void **state) {
    static const uint8_t kinds[] = {RT_FRAME_PING, RT_FRAME_PULL_DENSE, RT_FRAME_STEP,
        RT_FRAME_PING | RT_FRAME_ANSWER, RT_FRAME_ERROR};
    struct peer *p = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        send_frame(p, kinds[i], 0, 0);
        refused_with(p, "before hello");
        dial(p);
    }
    send_finish(p);
    refused_with(p, "no trainer's");
    still_serves(p);
}

static void nonsense_is_refused(void **state) {
    struct peer *p = *state;
    send_frame(p, RT_FRAME_CONTROL, 0, 100);
    refused_with(p, "cannot be read");
    dial(p);
    send_frame(p, RT_FRAME_CONTROL, 0, 0);
    refused_with(p, "no trainer's");
    still_serves(p);
    send_frame(p, RT_FRAME_PULL_DENSE, 7, 0);
    refused_with(p, "shard 7 of 1");
}

static void nobody_finishes_twice(void **state) {
    struct peer *p = *state;
    send_hello(p, 0);
    await(p, &p->answers, 1);
    send_finish(p);
    await(p, &p->answers, 2);
    send_finish(p);
    refused_with(p, "no trainer's");
    dial(p);
    send_hello(p, 0);
    refused_with(p, "has finished already");
    dial(p);
    send_hello(p, 1);
    await(p, &p->answers, 1);
    send_finish(p);
    await(p, &p->answers, 2);
    rt_stream_cancel(p->stream);
    assert_int_equal(0, rt_server_wait(p->server, NULL));
}

static void a_second_hello_ends_the_connection(void **state) {
    struct peer *p = *state;
    send_hello(p, 0);
    await(p, &p->answers, 1);
    send_hello(p, 1);
    refused_with(p, "second hello");
}

/* Runs fn with stderr in a file; what it says. */
static void capture(void (*fn)(void *arg), void *arg, char *ret_text, size_t size) {
    FILE *f = tmpfile();
    assert_non_null(f);
    int old = dup(STDERR_FILENO);
    dup2(fileno(f), STDERR_FILENO);
    fn(arg);
    dup2(old, STDERR_FILENO);
    close(old);
    ssize_t n = pread(fileno(f), ret_text, size - 1, 0);
    ret_text[n > 0 ? n : 0] = '\0';
    (void)fclose(f);
}

static void send_malformed(void *arg) {
    struct peer *p = arg;
    for (int i = 0; i < 20; i++) {
        send_frame(p, RT_FRAME_PULL_DENSE, 0, 8); /* asks, and so brings nothing */
        await(p, &p->closed, 1);
        assert_int_equal(0, p->answers);
        dial(p);
    }
    still_serves(p);
}

static void a_malformed_frame_is_told_of_once(void **state) {
    char text[4000];
    capture(send_malformed, *state, text, sizeof(text));
    char *first = strstr(text, " refused: ");
    assert_non_null(first);
    assert_null(strstr(first + 1, " refused: "));
}

static void refuse_three(void *arg) {
    struct rt_server *s = arg;
    struct co_err why = {0};
    co_err_set(&why, CO_INVALID, "nonsense");
    for (int i = 0; i < 3; i++) {
        rt_server_say_refused(s, "peer", &why);
    }
    rt_server_tick(s);
    s->refused_ms -= 10000;
    rt_server_tick(s);
    rt_server_tick(s);
}

static void refusals_are_counted_when_they_are_not_told(void **state) {
    (void)state;
    struct rt_server s = {.over = true, .told = true};
    char text[4000];
    capture(refuse_three, &s, text, sizeof(text));
    char *first = strstr(text, "peer refused: nonsense"), *more = strstr(text, "2 more refused");
    assert_true(first && more && first < more);
    assert_null(strstr(first + 1, "peer refused"));
    assert_null(strstr(more + 3, "more refused"));
    assert_non_null(strstr(more, "3 in all"));
}

/* ---- hellos that are not welcome ---------------------------------------------------------- */

static void other_job(struct greeting *g) {
    g->hello.job = (char *)(uintptr_t) "other";
}
static void other_entry(struct greeting *g) {
    static char *list[] = {(char *)(uintptr_t) "localhost:4000"};
    g->hello.n_endpoints = 1;
    g->hello.endpoints = list;
}
static void other_list(struct greeting *g) {
    g->hello.servers = 2;
}
static void other_place(struct greeting *g) {
    g->hello.server = 1;
}
static void more_trainers(struct greeting *g) {
    g->hello.trainers = 3;
}
static void trainer_too_high(struct greeting *g) {
    g->hello.trainer = 2;
}
static void odd_table_name(struct greeting *g) {
    g->table.name = (char *)(uintptr_t) "../w";
}
static void odd_optimizer(struct greeting *g) {
    g->table.optimizer = (char *)(uintptr_t) "sdg";
}
static void odd_kind(struct greeting *g) {
    g->table.kind = 7; /* is taken for sparse, whose dim is not set */
}
static void no_size(struct greeting *g) {
    g->table.size = 0;
}

/* The first trainer decides nothing by being wrong: the next one is welcome as if it had not been.
 */
static void a_hello_of_another_job_is_refused_with_what_differs(void **state) {
    static const struct {
        void (*spoil)(struct greeting *g);
        int code;
        const char *text;
    } rows[] = {
        {other_job, CO_PERMISSION, "this server belongs to job 'job', not to 'other'"},
        {other_entry, CO_PERMISSION,
            "entry 0 of the list of servers is '127.0.0.1:4000' here, and 'localhost:4000' at "
            "trainer 0"},
        {other_list, CO_PERMISSION, "this is server 0 of 1, the trainer's list has it as 0 of 2"},
        {other_place, CO_PERMISSION, "the trainer's list has it as 1 of 1"},
        {more_trainers, CO_PERMISSION, "expects 2 trainers, not trainer 0 of 3"},
        {trainer_too_high, CO_PERMISSION, "expects 2 trainers, not trainer 2 of 2"},
        {odd_table_name, CO_INVALID, "table name '../w'"},
        {odd_optimizer, CO_INVALID, "sdg"},
        {odd_kind, CO_INVALID, "dim 0"},
        {no_size, CO_INVALID, "size 0"},
    };
    struct peer *p = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct greeting g;
        greet(&g, 0);
        rows[i].spoil(&g);
        send_greeting(p, &g);
        refused_with(p, rows[i].text);
        assert_int_equal(rows[i].code, p->refused.code);
        dial(p);
    }
    still_serves(p);
}

static void sync_mode(struct greeting *g) {
    g->hello.mode = RT_SYNC;
}
static void no_tables(struct greeting *g) {
    g->hello.n_tables = 0;
}
static void other_table_name(struct greeting *g) {
    g->table.name = (char *)(uintptr_t) "v";
}
static void other_size(struct greeting *g) {
    g->table.size = 11;
}
static void other_optimizer(struct greeting *g) {
    g->table.optimizer = (char *)(uintptr_t) "sgd:lr=0.5";
}
static void sparse_table(struct greeting *g) {
    g->table.kind = RT_SPARSE;
    g->table.dim = 4;
}
static void other_init(struct greeting *g) {
    g->table.init = (char *)(uintptr_t) "constant:value=1";
}
static void other_seed(struct greeting *g) {
    g->table.seed = 1;
}

/* Tables are the first trainer's; who has others would train something else. */
static void all_trainers_bring_the_same_tables(void **state) {
    static const struct {
        void (*spoil)(struct greeting *g);
        const char *text;
    } rows[] = {
        {sync_mode, "trainer 1 comes with sync mode and 1 tables, the others with async and 1"},
        {no_tables, "trainer 1 comes with async mode and 0 tables, the others with async and 1"},
        {other_table_name, "table 0 ('v') of trainer 1 differs from the other trainers' in its "
                           "name"},
        {other_size, "differs from the other trainers' in its size"},
        {other_optimizer, "differs from the other trainers' in its optimizer"},
        {sparse_table, "differs from the other trainers' in its kind"},
        {other_init, "differs from the other trainers' in its init"},
        {other_seed, "differs from the other trainers' in its seed"},
    };
    struct peer *first = *state;
    send_hello(first, 0);
    await(first, &first->answers, 1);
    struct peer *p = peer_new(first->server);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct greeting g;
        greet(&g, 1);
        rows[i].spoil(&g);
        send_greeting(p, &g);
        refused_with(p, rows[i].text);
        assert_int_equal(CO_PERMISSION, p->refused.code);
        dial(p);
    }
    send_hello(p, 0); /* a second one of that name, perhaps its own former life: worth waiting */
    refused_with(p, "trainer 0 is here already (from 127.0.0.1:");
    assert_int_equal(CO_CONFLICT, p->refused.code);
    dial(p);
    send_hello(p, 1);
    await(p, &p->answers, 1);
    assert_int_equal(0, first->closed);
    peer_free(p);
}

static void a_hello_with_too_many_tables_is_refused(void **state) {
    enum { MANY = RT_TABLES_MAX + 1 };
    struct peer *p = *state;
    struct greeting g;
    greet(&g, 0);
    Rt__Table *tables[MANY];
    for (size_t i = 0; i < MANY; i++) {
        tables[i] = &g.table;
    }
    g.hello.tables = tables;
    g.hello.n_tables = MANY;
    send_greeting(p, &g);
    refused_with(p, "257 tables, at most 256");
    still_serves(p);
}

/* Told no list: what the trainer tells must be a place. */
static void a_server_without_a_list_takes_no_nonsense_for_its_place(void **state) {
    (void)state;
    static const struct {
        uint32_t server, servers;
    } rows[] = {{0, 0}, {2, 2}, {0, 65537}, {UINT32_MAX, 1}};
    struct rt_server_config c = usual;
    c.servers = 0;
    c.endpoints = NULL;
    c.job = NULL;
    struct peer *p = serve(&c);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct greeting g;
        greet(&g, 0);
        g.hello.server = rows[i].server;
        g.hello.servers = rows[i].servers;
        send_greeting(p, &g);
        refused_with(p, "is no place in a job");
        dial(p);
    }
    struct greeting g;
    greet(&g, 0);
    g.hello.server = 4;
    g.hello.servers = 5;
    send_greeting(p, &g);
    await(p, &p->answers, 1);
    assert_int_equal(0, p->refused.code);
    dial(p);
    send_hello(p, 1); /* from now on it has one */
    refused_with(p, "this is server 4 of 5, the trainer's list has it as 0 of 1");
    peer_end(p);
}

/* Nobody can train it, so the job ends and says why, also to those who come later. */
static void tables_beyond_the_memory_end_the_job(void **state) {
    (void)state;
    struct rt_server_config c = usual;
    c.memory_max = 1000;
    struct peer *p = serve(&c);
    struct greeting g;
    greet(&g, 0);
    g.table.size = 100000;
    send_greeting(p, &g);
    refused_with(p, "'w'");
    assert_int_equal(CO_NORESOURCE, p->refused.code);
    struct co_err err = {0};
    assert_int_equal(CO_NORESOURCE, rt_server_wait(p->server, &err));
    assert_non_null(strstr(err.msg, "'w'"));
    peer_end(p);
}

/* ---- steps and barriers ------------------------------------------------------------------- */

static void steps_are_of_sync_jobs_and_in_order(void **state) {
    struct peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    send_step(p, 1);
    await(p, &p->answers, 2);
    assert_string_equal("step: this job is asynchronous", p->refused.msg);

    struct peer *q = serve(&usual);
    join_as(q, 0, RT_SYNC);
    static const uint64_t wrong[] = {0, 2, UINT64_MAX};
    for (unsigned i = 0; i < CO_ARRAY_LEN(wrong); i++) {
        send_step(q, wrong[i]);
        await(q, &q->answers, i + 2);
        assert_int_equal(CO_INVALID, q->refused.code);
        assert_non_null(strstr(q->refused.msg, "this server is at 1"));
    }
    send_step(q, 1); /* waits for the other trainer */
    send_step(q, 1);
    await(q, &q->answers, 5);
    assert_non_null(strstr(q->refused.msg, "trainer 0 says step 1, this server is at 1"));

    struct peer *other = peer_new(q->server);
    join_as(other, 1, RT_SYNC);
    send_step(other, 1);
    await(other, &other->answers, 2);
    await(q, &q->answers, 6);
    assert_int_equal(0, other->refused.code);
    peer_free(other);
    peer_end(q);
}

/* Who finishes while the others wait for it lets them go on. */
static void a_finish_completes_step_and_barrier(void **state) {
    struct peer *p = *state;
    join_as(p, 0, RT_SYNC);
    struct peer *q = peer_new(p->server);
    join_as(q, 1, RT_SYNC);
    send_step(p, 1);
    send_barrier(p, 1);
    send_finish(q);
    await(q, &q->answers, 2);
    await(p, &p->answers, 3);
    assert_int_equal(0, p->refused.code);
    peer_free(q);
}

/* Neither waits for what cannot come: both are told at once who is where. */
static void trainers_that_wait_for_each_other_are_told(void **state) {
    (void)state;
    static const char *const wants[] = {
        "at barrier 1, after step 0: trainer 0; in step 1: trainer 1; each waits for the other",
        "at barrier 1, after step 1: trainer 0; in step 2: trainer 1; each waits for the other"};
    for (unsigned row = 0; row < 4; row++) {
        bool barrier_first = row % 2;
        unsigned steps = row / 2, both = 1 + steps;
        struct peer *p = serve(&usual);
        join_as(p, 0, RT_SYNC);
        struct peer *q = peer_new(p->server);
        join_as(q, 1, RT_SYNC);
        for (unsigned k = 1; k <= steps; k++) {
            send_step(p, k);
            send_step(q, k);
        }
        await(p, &p->answers, both);
        await(q, &q->answers, both);
        if (barrier_first) {
            send_barrier(p, 1);
            send_step(q, steps + 1);
        } else {
            send_step(q, steps + 1);
            send_barrier(p, 1);
        }
        refused_with(p, wants[steps]);
        refused_with(q, wants[steps]);
        struct co_err err = {0};
        assert_int_equal(CO_INVALID, rt_server_wait(p->server, &err));
        peer_free(q);
        peer_end(p);
    }
}

/* The last step of the one, the barrier after it of the other: both on their way. */
static void a_barrier_waits_for_those_in_a_step(void **state) {
    struct peer *p = *state;
    join_as(p, 0, RT_SYNC);
    struct peer *q = peer_new(p->server);
    join_as(q, 1, RT_SYNC);
    send_step(p, 1);
    send_step(q, 1);
    await(p, &p->answers, 2);
    send_barrier(p, 1);
    await(q, &q->answers, 2);
    send_barrier(q, 1);
    await(p, &p->answers, 3);
    await(q, &q->answers, 3);
    assert_int_equal(0, p->refused.code);
    peer_free(q);
}

static void barriers_are_counted(void **state) {
    struct peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    struct peer *q = peer_new(p->server);
    join_as(q, 1, RT_ASYNC);
    send_barrier(q, 1);
    send_barrier(q, 1);
    refused_with(q, "trainer 1 is at the barrier already");
    send_barrier(p, 2);
    refused_with(
        p, "trainer 0 is at barrier 2, the job at 1: all trainers must call the same ones");
    peer_free(q);
}

/* ---- who leaves, and who does not come ---------------------------------------------------- */

/* Silence is what a dead one and a slow one have in common; a sign of life tells them apart. */
static void a_second_trainer_of_one_id_is_told_once_the_first_is_heard(void **state) {
    struct peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    struct peer *q = peer_new(p->server);
    for (int i = 0; i < 3; i++) {
        send_hello(q, 0);
        refused_with(q, "trainer 0 is here already (from 127.0.0.1:");
        assert_int_equal(CO_CONFLICT, q->refused.code);
        dial(q);
    }
    (void)poll(NULL, 0, 700);
    send_frame(p, RT_FRAME_PING, 0, 0);
    await(p, &p->answers, 2);
    send_hello(q, 0);
    refused_with(q, "and alive: two trainers have the same PADDLE_TRAINER_ID");
    assert_int_equal(CO_INVALID, q->refused.code);
    assert_int_equal(0, p->closed);
    rt_stream_cancel(p->stream); /* the first one goes: the id is free */
    await(p, &p->closed, 1);
    (void)poll(NULL, 0, 200);
    dial(q);
    join_as(q, 0, RT_ASYNC);
    peer_free(q);
}

static void send_leave(struct peer *p, const char *why) {
    Rt__Leave l = RT__LEAVE__INIT;
    l.why = (char *)(uintptr_t)why;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_LEAVE;
    c.leave = &l;
    send_control(p, &c);
}

/* The others hear the reason of who left, and so does who comes too late. */
static void in_sync_a_reason_to_leave_is_everybodys(void **state) {
    struct peer *p = *state;
    join_as(p, 0, RT_SYNC);
    struct peer *q = peer_new(p->server);
    join_as(q, 1, RT_SYNC);
    send_leave(q, "no data");
    refused_with(p, "lost: gave up: no data, last heard");
    assert_int_equal(CO_PEERLOST, p->refused.code);
    struct co_err err = {0};
    assert_int_equal(CO_PEERLOST, rt_server_wait(p->server, &err));
    assert_non_null(strstr(err.msg, "trainer 1 (127.0.0.1:"));
    peer_free(q);
}

/* Who has not joined ends nothing. */
static void a_stranger_neither_finishes_nor_leaves(void **state) {
    struct peer *p = *state;
    join_as(p, 0, RT_SYNC);
    struct peer *q = peer_new(p->server);
    send_leave(q, "out of spite");
    refused_with(q, "no trainer's");
    for (int i = 0; i < 2; i++) {
        dial(q);
        send_finish(q);
        refused_with(q, "no trainer's");
    }
    struct pollfd over = {.fd = rt_server_fd(p->server), .events = POLLIN};
    assert_int_equal(0, poll(&over, 1, 100));
    dial(q);
    join_as(q, 1, RT_SYNC);
    assert_int_equal(0, p->closed);
    peer_free(q);
}

static void in_async_the_others_go_on(void **state) {
    struct peer *p = *state;
    join_as(p, 0, RT_ASYNC);
    struct peer *q = peer_new(p->server);
    join_as(q, 1, RT_ASYNC);
    send_barrier(p, 1);
    send_leave(q, "no data");
    await(q, &q->closed, 1);
    await(p, &p->answers, 2); /* nobody waits for the lost one at the barrier */
    send_frame(p, RT_FRAME_PULL_DENSE, 0, 0);
    await(p, &p->answers, 3);
    assert_int_equal(0, p->refused.code);
    dial(q); /* it may come back */
    join_as(q, 1, RT_ASYNC);
    send_finish(q);
    await(q, &q->answers, 2);
    send_finish(p);
    await(p, &p->answers, 4);
    rt_stream_cancel(q->stream);
    rt_stream_cancel(p->stream);
    assert_int_equal(0, rt_server_wait(p->server, NULL));
    peer_free(q);
}

static void a_trainer_that_never_comes_is_named(void **state) {
    (void)state;
    struct rt_server_config c = usual;
    c.trainers = 3;
    c.start_timeout_ms = 200;
    struct peer *p = serve(&c);
    struct greeting g;
    greet(&g, 1);
    g.hello.trainers = 3;
    send_greeting(p, &g);
    await(p, &p->answers, 1);
    struct co_err err = {0};
    assert_int_equal(CO_TIMEOUT, rt_server_wait(p->server, &err));
    assert_non_null(
        strstr(err.msg, "trainers 0, 2 of 3 have not come within 0.2 s of the first one"));
    refused_with(p, "trainers 0, 2 of 3");
    peer_end(p);
}

/* The first one may take as long as it likes. */
static void nobody_is_missed_before_the_first(void **state) {
    (void)state;
    struct rt_server_config c = usual;
    c.start_timeout_ms = 1;
    c.trainers = 1;
    struct peer *p = serve(&c);
    struct pollfd over = {.fd = rt_server_fd(p->server), .events = POLLIN};
    assert_int_equal(0, poll(&over, 1, 200)); /* some of its ticks */
    struct greeting g;
    greet(&g, 0);
    g.hello.trainers = 1;
    send_greeting(p, &g);
    await(p, &p->answers, 1);
    send_finish(p);
    await(p, &p->answers, 2);
    rt_stream_cancel(p->stream);
    assert_int_equal(0, rt_server_wait(p->server, NULL));
    peer_end(p);
}

/* The stream stays open all the time. */
static void a_silent_trainer_is_lost_after_its_lease(void **state) {
    (void)state;
    struct rt_server_config c = usual;
    c.lease_ms = 300;
    struct peer *p = serve(&c);
    struct greeting g;
    greet(&g, 0);
    g.hello.mode = RT_SYNC;
    send_greeting(p, &g);
    struct co_err err = {0};
    assert_int_equal(CO_PEERLOST, rt_server_wait(p->server, &err));
    assert_non_null(strstr(err.msg, "no sign of life within its lease of 0.3 s"));
    peer_end(p);
}

/* Async: the others have finished; the lost one has one more lease to come back. */
static void only_lost_trainers_left_end_the_job(void **state) {
    (void)state;
    struct rt_server_config c = usual;
    c.lease_ms = 1500;
    struct peer *p = serve(&c);
    join_as(p, 0, RT_ASYNC);
    struct peer *q = peer_new(p->server);
    join_as(q, 1, RT_ASYNC);
    send_leave(q, "no data");
    await(q, &q->closed, 1);
    send_finish(p);
    await(p, &p->answers, 2);
    struct co_err err = {0};
    assert_int_equal(CO_PEERLOST, rt_server_wait(p->server, &err));
    assert_non_null(strstr(err.msg, "gave up: no data"));
    assert_non_null(strstr(err.msg, "did not come back before the others ended"));
    peer_free(q);
    peer_end(p);
}

static void wait_out_three(void *arg) {
    struct peer *p = arg;
    for (int i = 0; i < 3; i++) {
        dial(p);
        await(p, &p->closed, 1);
    }
}

static void who_says_no_hello_in_time_is_refused(void **state) {
    (void)state;
    char text[4000];
    struct rt_server_config c = usual;
    c.hello_ms = 300;
    struct peer *p = serve(&c);
    capture(wait_out_three, p, text, sizeof(text));
    assert_non_null(strstr(text, "refused: no hello within 0.3 s"));
    still_serves(p);
    peer_end(p);
}

static void an_address_that_is_taken_is_named(void **state) {
    struct peer *p = *state;
    char listen[32];
    (void)snprintf(listen, sizeof(listen), "127.0.0.1:%u", rt_server_port(p->server));
    struct rt_server_config c = usual;
    c.listen = listen;
    struct rt_server *s = NULL;
    struct co_err err = {0};
    assert_int_equal(CO_UNAVAILABLE, rt_server_start(&c, &s, &err));
    assert_non_null(strstr(err.msg, listen));
    assert_null(s);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        ONE(nothing_is_done_before_hello),
        ONE(nonsense_is_refused),
        ONE(a_malformed_frame_is_told_of_once),
        cmocka_unit_test(refusals_are_counted_when_they_are_not_told),
        ONE(nobody_finishes_twice),
        ONE(a_second_hello_ends_the_connection),
        ONE(a_hello_of_another_job_is_refused_with_what_differs),
        ONE(all_trainers_bring_the_same_tables),
        ONE(a_hello_with_too_many_tables_is_refused),
        cmocka_unit_test(a_server_without_a_list_takes_no_nonsense_for_its_place),
        cmocka_unit_test(tables_beyond_the_memory_end_the_job),
        ONE(steps_are_of_sync_jobs_and_in_order),
        ONE(a_finish_completes_step_and_barrier),
        ONE(trainers_that_wait_for_each_other_are_told),
        ONE(a_barrier_waits_for_those_in_a_step),
        ONE(barriers_are_counted),
        ONE(in_sync_a_reason_to_leave_is_everybodys),
        ONE(a_second_trainer_of_one_id_is_told_once_the_first_is_heard),
        ONE(a_stranger_neither_finishes_nor_leaves),
        ONE(in_async_the_others_go_on),
        cmocka_unit_test(a_trainer_that_never_comes_is_named),
        cmocka_unit_test(nobody_is_missed_before_the_first),
        cmocka_unit_test(a_silent_trainer_is_lost_after_its_lease),
        cmocka_unit_test(only_lost_trainers_left_end_the_job),
        cmocka_unit_test(who_says_no_hello_in_time_is_refused),
        ONE(an_address_that_is_taken_is_named),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
