/* What a server does with peers that do not keep to the protocol: it refuses them, and
 * continues. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/clock_testing.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/server/session_testing.h"
#include "runtime/train/ps/shard/slow_testing.h"

static void nothing_is_done_before_hello(void **state) {
    static const uint8_t kinds[] = {RPC_FRAME_PING, RPC_FRAME_PULL_DENSE, RPC_FRAME_STEP,
        RPC_FRAME_PING | RPC_FRAME_ANSWER, RPC_FRAME_ERROR};
    struct session_peer *p = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        send_frame(p, kinds[i], 0, 0);
        refused_with(p, "before hello");
        dial(p);
    }
    send_finish(p);
    refused_with(p, "does not belong to a trainer");
    still_serves(p);
}

static void nonsense_is_refused(void **state) {
    struct session_peer *p = *state;
    send_frame(p, RPC_FRAME_CONTROL, 0, 100);
    refused_with(p, "cannot be read");
    dial(p);
    send_frame(p, RPC_FRAME_CONTROL, 0, 0);
    refused_with(p, "does not belong to a trainer");
    still_serves(p);
    send_frame(p, RPC_FRAME_PULL_DENSE, 7, 0);
    refused_with(p, "shard 7 of 1");
}

static void a_repeated_finish_is_answered_and_ends_the_membership(void **state) {
    struct session_peer *p = *state;
    send_hello(p, 0);
    await(p, &p->answers, 1);
    send_finish(p);
    await(p, &p->answers, 2);
    send_finish(p); /* its answer may have been lost: it is answered again */
    await(p, &p->answers, 3);
    send_barrier(p, 1);
    refused_with(p, "does not belong to a trainer");
    dial(p);
    p->incarnation += 1000;
    send_hello(p, 0);
    refused_with(p, "has finished already");
    dial(p);
    send_hello(p, 1);
    await(p, &p->answers, 1);
    send_finish(p);
    await(p, &p->answers, 2);
    rpc_stream_cancel(p->stream);
    assert_int_equal(0, pss_server_wait(p->server, NULL));
}

/* Each once, whether the notice is sent at once or with a tick. */
static void the_others_learn_who_has_finished(void **state) {
    (void)state;
    static const uint32_t sizes[] = {3, 1000};
    for (size_t i = 0; i < CO_ARRAY_LEN(sizes); i++) {
        struct pss_server_config c = usual;
        c.trainers = sizes[i];
        struct session_peer *stays = serve(&c), *first = peer_new(stays->server),
                            *second = peer_new(stays->server);
        struct session_peer *const all[] = {first, second, stays};
        for (uint32_t k = 0; k < 3; k++) {
            struct greeting g;
            greet(&g, k);
            g.hello.trainers = sizes[i];
            send_greeting(all[k], &g);
            await(all[k], &all[k]->answers, 1);
        }
        send_finish(first);
        send_finish(second);
        await(stays, &stays->finished, 2);
        send_finish(stays); /* its answer comes behind all that was sent before */
        await(stays, &stays->answers, 2);
        assert_int_equal(2, stays->finished);
        peer_free(first);
        peer_free(second);
        peer_end(stays);
    }
}

static void say_who_has_finished(struct session_peer *p, uint32_t trainer) {
    Rpc__Begin b = RPC__BEGIN__INIT;
    b.finished = &trainer;
    b.n_finished = 1;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_BEGIN;
    c.begin = &b;
    send_control(p, &c);
}

/* A restarted server receives from trainer 0 that trainer 1 has finished.  Trainer 1, which has
 * lost its connection to this server, does not know that it need not come back. */
static void a_trainer_reported_as_finished_may_finish_after_the_end(void **state) {
    struct session_peer *p = *state;
    send_hello(p, 0);
    await(p, &p->answers, 1);
    say_who_has_finished(p, 1);
    await(p, &p->answers, 2);
    send_finish(p);
    await(p, &p->answers, 3);
    send_leave(p, "finished");
    await(p, &p->closed, 1);
    struct pollfd signaled = {.fd = p->server->fd, .events = POLLIN};
    assert_int_equal(0, poll(&signaled, 1, 300));
    dial(p);
    p->incarnation += 1000;
    struct greeting g;
    greet(&g, 1);
    g.hello.finishing = true;
    begin_with(p, &g);
    send_finish(p);
    await(p, &p->answers, 2);
    send_leave(p, "finished");
    assert_int_equal(1, poll(&signaled, 1, 60000));
    assert_int_equal(0, pss_server_wait(p->server, NULL));
}

static void a_second_hello_ends_the_connection(void **state) {
    struct session_peer *p = *state;
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
    struct session_peer *p = arg;
    for (int i = 0; i < 20; i++) {
        send_frame(p, RPC_FRAME_PULL_DENSE, 0, 8); /* asks, and so brings nothing */
        await(p, &p->closed, 1);
        assert_int_equal(0, p->answers);
        dial(p);
    }
    still_serves(p);
}

static void a_malformed_frame_is_logged_once(void **state) {
    char text[4000];
    capture(send_malformed, *state, text, sizeof(text));
    char *first = strstr(text, " refused: ");
    assert_non_null(first);
    assert_null(strstr(first + 1, " refused: "));
}

static void refuse_three(void *arg) {
    struct pss_server *s = arg;
    struct co_err why = {0};
    co_err_set(&why, CO_INVALID, "nonsense");
    for (int i = 0; i < 3; i++) {
        pss_server_say_refused(s, "peer", &why);
    }
    pss_server_tick(s);
    s->refusals.said_ms -= NET_LOG_MS;
    pss_server_tick(s);
    pss_server_tick(s);
}

static void refusals_are_counted_when_they_are_not_logged(void **state) {
    (void)state;
    struct pss_server s = {.over = true, .signaled = true};
    char text[4000];
    capture(refuse_three, &s, text, sizeof(text));
    char *first = strstr(text, "peer refused: nonsense"), *more = strstr(text, "2 more refused");
    assert_true(first && more && first < more);
    assert_null(strstr(first + 1, "peer refused"));
    assert_null(strstr(more + 3, "more refused"));
    assert_non_null(strstr(more, "3 in all"));
}

/* Its tables do not fit in memory, say.  The clock ticks until all connections have closed. */
static void a_server_without_its_first_shard_can_be_measured(void **state) {
    (void)state;
    struct shard *none[1] = {NULL};
    struct pss_server s = {.config = {.shards = 1}, .mode = RT_SYNC, .shards = none};
    s.over = s.signaled = true;
    assert_int_equal(0, meter_open("127.0.0.1:0", NULL, NULL));
    pss_server_tick(&s);
    meter_close();
    assert_int_equal(0, meter_read(&s.step));
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
        {other_job, CO_PERMISSION, "this server belongs to job \"job\", not to \"other\""},
        {other_entry, CO_PERMISSION,
            "entry 0 of the list of servers is \"127.0.0.1:4000\" here, and \"localhost:4000\" at "
            "trainer 0"},
        {other_list, CO_PERMISSION, "this is server 0 of 1, the trainer's list has it as 0 of 2"},
        {other_place, CO_PERMISSION, "the trainer's list has it as 1 of 1"},
        {more_trainers, CO_PERMISSION, "expects 2 trainers, not trainer 0 of 3"},
        {trainer_too_high, CO_PERMISSION, "expects 2 trainers, not trainer 2 of 2"},
        {odd_table_name, CO_INVALID, "table name \"../w\""},
        {odd_optimizer, CO_INVALID, "sdg"},
        {odd_kind, CO_INVALID, "dim 0"},
        {no_size, CO_INVALID, "size 0"},
    };
    struct session_peer *p = *state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct greeting g;
        greet(&g, 0);
        rows[i].spoil(&g);
        send_greeting(p, &g);
        refused_with(p, rows[i].text);
        assert_int_equal(rows[i].code, refusal(p).code);
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
        {other_table_name, "table 0 (\"v\") of trainer 1 differs from the other trainers': name is "
                           "\"v\", expected \"w\""},
        {other_size, "size is 11, expected 10"},
        {other_optimizer, "optimizer is \"sgd:lr=0.5\", expected \"sgd:lr=0.01\""},
        {sparse_table, "kind is \"sparse\", expected \"dense\""},
        {other_init, "init is \"constant:value=1\", expected \"zero\""},
        {other_seed, "seed is 1, expected 0"},
    };
    struct session_peer *first = *state;
    send_hello(first, 0);
    await(first, &first->answers, 1);
    struct session_peer *p = peer_new(first->server);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct greeting g;
        greet(&g, 1);
        rows[i].spoil(&g);
        send_greeting(p, &g);
        refused_with(p, rows[i].text);
        assert_int_equal(CO_PERMISSION, refusal(p).code);
        dial(p);
    }
    send_hello(p, 0); /* a second one of that name, perhaps its own former life: worth waiting */
    refused_with(p, "trainer 0 is here already (from 127.0.0.1:");
    assert_int_equal(CO_CONFLICT, refusal(p).code);
    dial(p);
    send_hello(p, 1);
    await(p, &p->answers, 1);
    is_open(first);
    peer_free(p);
}

static void a_hello_with_too_many_tables_is_refused(void **state) {
    enum { MANY = PS_TABLES_MAX + 1 };
    struct session_peer *p = *state;
    struct greeting g;
    greet(&g, 0);
    Rpc__Table *tables[MANY];
    for (size_t i = 0; i < MANY; i++) {
        tables[i] = &g.table;
    }
    g.hello.tables = tables;
    g.hello.n_tables = MANY;
    send_greeting(p, &g);
    refused_with(p, "257 tables, at most 256");
    still_serves(p);
}

/* Without a list: what the trainer says must be a place. */
static void a_server_without_a_list_takes_no_nonsense_for_its_place(void **state) {
    (void)state;
    static const struct {
        uint32_t server, servers;
    } rows[] = {{0, 0}, {2, 2}, {0, 65537}, {UINT32_MAX, 1}};
    struct pss_server_config c = usual;
    c.servers = 0;
    c.endpoints = NULL;
    c.job = NULL;
    struct session_peer *p = serve(&c);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct greeting g;
        greet(&g, 0);
        g.hello.server = rows[i].server;
        g.hello.servers = rows[i].servers;
        send_greeting(p, &g);
        refused_with(p, "is not a valid server index");
        dial(p);
    }
    struct greeting g;
    greet(&g, 0);
    g.hello.server = 4;
    g.hello.servers = 5;
    send_greeting(p, &g);
    await(p, &p->answers, 1);
    assert_int_equal(0, refusal(p).code);
    dial(p);
    send_hello(p, 1); /* from now on it has one */
    refused_with(p, "this is server 4 of 5, the trainer's list has it as 0 of 1");
    peer_end(p);
}

/* Nobody can train it, so the job ends and says why, also to those who come later. */
static void tables_beyond_the_memory_end_the_job(void **state) {
    (void)state;
    struct pss_server_config c = usual;
    c.memory_max = 1000;
    struct session_peer *p = serve(&c);
    struct greeting g;
    greet(&g, 0);
    g.table.size = 100000;
    send_greeting(p, &g);
    refused_with(p, "\"w\"");
    assert_int_equal(CO_NORESOURCE, refusal(p).code);
    struct co_err err = {0};
    assert_int_equal(CO_NORESOURCE, pss_server_wait(p->server, &err));
    assert_non_null(strstr(err.msg, "\"w\""));
    peer_end(p);
}

static void wait_out_three(void *arg) {
    struct session_peer *p = arg;
    for (int i = 0; i < 3; i++) {
        dial(p);
        await(p, &p->closed, 1);
    }
}

static void a_peer_without_a_hello_in_time_is_refused(void **state) {
    (void)state;
    char text[4000];
    struct pss_server_config c = usual;
    c.hello_ms = 300;
    struct session_peer *p = serve(&c);
    capture(wait_out_three, p, text, sizeof(text));
    assert_non_null(strstr(text, "refused: no hello within 0.3 s"));
    co_test_clock_set(256); /* now all have a minute */
    still_serves(p);
    co_test_clock_slow(false);
    peer_end(p);
}

static void an_address_that_is_taken_is_named(void **state) {
    struct session_peer *p = *state;
    char listen[32];
    (void)snprintf(listen, sizeof(listen), "127.0.0.1:%u", pss_server_port(p->server));
    struct pss_server_config c = usual;
    c.listen = listen;
    struct pss_server *s = NULL;
    struct co_err err = {0};
    assert_int_equal(CO_UNAVAILABLE, pss_server_start(&c, &s, &err));
    assert_non_null(strstr(err.msg, listen));
    assert_null(s);
}

/* A file system may take any time to open a file; here it takes until the test lets it.  Meanwhile
 * the server answers. */
static void a_checkpoint_that_is_slow_to_read_holds_no_control_message(void **state) {
    (void)state;
    char dir[] = "/tmp/session_test_XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct pss_server_config config = usual;
    config.restore_dir = dir;
    struct session_peer *p = serve(&config);
    CO_AUTOFREE char *point = co_xasprintf("%s/ckpt-%012d", dir, 7);
    CO_AUTOFREE char *manifest = co_xasprintf("%s/MANIFEST", point);
    assert_int_equal(0, mkdir(point, 0700));
    assert_int_equal(0, co_file_write(manifest, "", 0, 0600, NULL));
    slow_begin();
    send_hello(p, 0);
    await(p, &p->answers, 1);
    Rpc__Begin b = RPC__BEGIN__INIT;
    b.era = 1;
    b.restored = 7;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_BEGIN;
    c.begin = &b;
    send_control(p, &c);
    await(p, &p->answers, 2);
    send_frame(p, RPC_FRAME_PING, 0, 0);
    await(p, &p->answers, 3);
    is_open(p);
    slow_release();
    struct co_err err = {0};
    assert_true(pss_server_wait(p->server, &err) < 0);
    assert_non_null(strstr(err.msg, "cannot load checkpoint 7"));
    peer_end(p);
    slow_end();
    assert_int_equal(0, unlink(manifest) | rmdir(point) | rmdir(dir));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ONE(nothing_is_done_before_hello),
        ONE(nonsense_is_refused),
        ONE(a_malformed_frame_is_logged_once),
        cmocka_unit_test(refusals_are_counted_when_they_are_not_logged),
        cmocka_unit_test(a_server_without_its_first_shard_can_be_measured),
        ONE(a_repeated_finish_is_answered_and_ends_the_membership),
        cmocka_unit_test(the_others_learn_who_has_finished),
        ONE(a_trainer_reported_as_finished_may_finish_after_the_end),
        ONE(a_second_hello_ends_the_connection),
        ONE(a_hello_of_another_job_is_refused_with_what_differs),
        ONE(all_trainers_bring_the_same_tables),
        ONE(a_hello_with_too_many_tables_is_refused),
        cmocka_unit_test(a_server_without_a_list_takes_no_nonsense_for_its_place),
        cmocka_unit_test(tables_beyond_the_memory_end_the_job),
        cmocka_unit_test(a_peer_without_a_hello_in_time_is_refused),
        ONE(an_address_that_is_taken_is_named),
        cmocka_unit_test(a_checkpoint_that_is_slow_to_read_holds_no_control_message),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
