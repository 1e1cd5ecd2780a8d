/* Connections that break at any byte: what was pushed counts once, steps and barriers are said
 * once, and nobody ends.  Between trainers and their server stands a proxy that cuts, or, where all
 * is encrypted, changes a byte; and that looks for gradients in what it carries. */
#include <stdio.h>

#include "common/bytes.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/client_internal.h"
#include "runtime/train/ps/client/link_internal.h"
#include "runtime/train/ps/client/proxy_testing.h"
#include "runtime/train/ps/server/server.h"

enum { SIZE = 3000, DIM = 3, IDS = 200 };

/* ---- trainers ---- */

/* Values count pushes: each adds 1. */
static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=1"},
    {.name = "e", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=1", .init = "zero"},
};

struct trainer {
    uint32_t index, trainers;
    enum rt_mode mode;
    bool encrypt;
    int port;
    unsigned steps;
    struct co_err err;
    float w[SIZE], rows[IDS * DIM];
};

static int train_step(struct trainer *t, struct rt_client *c, unsigned step, struct co_err *err) {
    float g[SIZE], rg[IDS * DIM];
    uint64_t ids[IDS];
    for (int i = 0; i < SIZE; i++) {
        g[i] = -1;
    }
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i * 77;
    }
    for (int i = 0; i < IDS * DIM; i++) {
        rg[i] = -1;
    }
    CO_TRY(rt_pull_sparse(c, 1, ids, IDS, t->rows, err));
    CO_TRY(rt_push_sparse(c, 1, ids, IDS, rg, err));
    CO_TRY(step % 2 ? rt_push_dense(c, 0, g, err) : rt_exchange_dense(c, 0, g, t->w, err));
    return rt_step(c, err);
}

static int train_all(struct trainer *t, struct rt_client *c, struct co_err *err) {
    uint64_t ids[IDS];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i * 77;
    }
    memset(t->w, 0, sizeof(t->w));
    CO_TRY(rt_init_dense(c, 0, t->w, err));
    for (unsigned s = 0; s < t->steps; s++) {
        CO_TRY(train_step(t, c, s, err));
    }
    CO_TRY(rt_barrier(c, err));
    CO_TRY(rt_pull_dense(c, 0, t->w, err));
    return rt_pull_sparse(c, 1, ids, IDS, t->rows, err);
}

static void *run_trainer(void *arg) {
    struct trainer *t = arg;
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", t->port);
    const char *endpoints[] = {endpoint};
    struct psc_client_config config = {.trainer = t->index,
        .trainers = t->trainers,
        .servers = 1,
        .endpoints = endpoints,
        .job = own_job(),
        .token = t->encrypt ? "secret" : "",
        .encrypt = t->encrypt};
    struct rt_client_options o = {.mode = t->mode, .start_timeout_ms = 60000, .return_ms = 60000};
    struct rt_client *c = NULL;
    int rc = psc_client_connect(&config, &o, specs, 2, &c, &t->err);
    if (rc == 0) {
        rc = train_all(t, c, &t->err);
    }
    if (rc == 0) {
        (void)!rt_finish(c, &t->err);
    } else {
        rt_client_close(c);
    }
    return NULL;
}

static void check_values(const struct trainer *t, float want) {
    for (int i = 0; i < SIZE; i++) {
        if (t->w[i] != want) {
            fail_msg("trainer %u: value %d is %g, expected %g", t->index, i, t->w[i], want);
        }
    }
    for (int i = 0; i < IDS * DIM; i++) {
        if (t->rows[i] != want) {
            fail_msg("trainer %u: row value %d is %g, expected %g", t->index, i, t->rows[i], want);
        }
    }
}

static void count_pushes(enum rt_mode mode, bool encrypt, size_t life, unsigned seed) {
    enum { TRAINERS = 2, STEPS = 14 };
    struct pss_server *server = NULL;
    struct pss_server_config config = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = TRAINERS,
        .job = own_job(),
        .token = encrypt ? "secret" : "",
        .encrypt = encrypt,
        .lease_ms = 60000,
        .return_ms = 60000,
        .start_timeout_ms = 60000,
        .shards = 2,
        .memory_max = 1 << 26,
        .quiet = true};
    assert_int_equal(0, pss_server_start(&config, &server, NULL));
    struct proxy proxy;
    static const float gradient[] = {-1, -1, -1, -1, -1, -1, -1, -1};
    proxy_bind(&proxy);
    proxy.flips = encrypt;
    proxy.sought = gradient;
    proxy.sought_bytes = sizeof(gradient);
    proxy_start(&proxy, pss_server_port(server), life, seed);
    CO_AUTOFREE struct trainer *t = co_xcalloc(TRAINERS, sizeof(*t));
    pthread_t threads[TRAINERS];
    for (uint32_t i = 0; i < TRAINERS; i++) {
        t[i].index = i;
        t[i].trainers = TRAINERS;
        t[i].mode = mode;
        t[i].encrypt = encrypt;
        t[i].port = proxy.port;
        t[i].steps = STEPS;
        assert_int_equal(0, pthread_create(&threads[i], NULL, run_trainer, &t[i]));
    }
    for (uint32_t i = 0; i < TRAINERS; i++) {
        pthread_join(threads[i], NULL);
    }
    struct co_err err = {0};
    for (uint32_t i = 0; i < TRAINERS; i++) {
        if (t[i].err.code) {
            fail_msg("seed %u, trainer %u: %s", seed, i, t[i].err.msg);
        }
    }
    for (uint32_t i = 0; i < TRAINERS; i++) {
        check_values(&t[i], mode == RT_SYNC ? STEPS : STEPS * TRAINERS);
    }
    if (pss_server_wait(server, &err) < 0) {
        fail_msg("seed %u: %s", seed, err.msg);
    }
    proxy_stop(&proxy);
    assert_true(life == 0 || proxy.cuts > 0);
    assert_int_equal(!encrypt, proxy.found);
    pss_server_stop(server);
}

static unsigned get_seed(void) {
    const char *text = getenv("SEED");
    return text ? (unsigned)strtoul(text, NULL, 10) : (unsigned)getpid() * 31;
}

static void with_seeds(enum rt_mode mode) {
    /* Each trainer sends and gets 400 kB by its stream, or 200 kB by each of two lanes: no
     * connection lasts for twice its average life. */
    static const size_t lives[2][2] = {{60000, 190000}, {20000, 80000}};
    const char *transport = getenv("PADDLE_PS_TRANSPORT");
    bool lanes = transport && strcmp(transport, "lanes") == 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(lives[0]); i++) {
        count_pushes(mode, false, lives[lanes][i], get_seed() + (unsigned)i);
    }
}

static void async_pushes_count_once_whatever_is_cut(void **state) {
    (void)state;
    with_seeds(RT_ASYNC);
}

static void sync_pushes_count_once_whatever_is_cut(void **state) {
    (void)state;
    with_seeds(RT_SYNC);
}

static void async_pushes_count_once_whatever_is_changed(void **state) {
    (void)state;
    count_pushes(RT_ASYNC, true, 60000, get_seed());
}

static void sync_pushes_count_once_whatever_is_changed(void **state) {
    (void)state;
    count_pushes(RT_SYNC, true, 60000, get_seed());
}

/* ---- a connection that breaks while a frame is made ---- */

static struct proxy *network; /* of the one test that has it */

/* The payload of a push of one row. */
static void fill_at_the_break(
    const struct rt_call *call, const struct psc_part *p, unsigned char *payload) {
    proxy_set(network, PROXY_CUT);
    while (!psc_link_is_away(call->c, 0)) {
        (void)poll(NULL, 0, 5);
    }
    proxy_set(network, PROXY_PASS);
    const float g[DIM] = {-1, -1, -1};
    co_put_u64(payload, 0);
    co_copy_f32(payload + 8, g, DIM);
    assert_int_equal(8 + sizeof(g), p->head.bytes);
}

/* One trainer whose server is behind a network. */
struct alone {
    struct pss_server *server;
    struct proxy proxy;
    struct rt_client *client;
    pthread_t serving;
    struct co_err err, end; /* of rt_finish, of the server */
};

/* As a process does that is a server. */
static void *serve_alone(void *arg) {
    struct alone *a = arg;
    (void)!pss_server_wait(a->server, &a->end);
    pss_server_stop(a->server);
    return NULL;
}

static void start_alone(struct alone *a, bool encrypt) {
    struct pss_server_config config = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 1,
        .job = own_job(),
        .token = encrypt ? "secret" : "",
        .encrypt = encrypt,
        .lease_ms = 60000,
        .return_ms = 60000,
        .start_timeout_ms = 60000,
        .shards = 1,
        .memory_max = 1 << 26,
        .quiet = true};
    char endpoint[32];
    const char *endpoints[] = {endpoint};
    struct psc_client_config as = {.trainers = 1,
        .servers = 1,
        .endpoints = endpoints,
        .job = own_job(),
        .token = encrypt ? "secret" : "",
        .encrypt = encrypt};
    struct rt_client_options o = {
        .start_timeout_ms = 60000, .return_ms = 60000, .call_timeout_ms = 60000};
    struct co_err err = {0};
    *a = (struct alone){0};
    assert_int_equal(0, pss_server_start(&config, &a->server, NULL));
    uint16_t port = pss_server_port(a->server);
    assert_int_equal(0, pthread_create(&a->serving, NULL, serve_alone, a));
    proxy_bind(&a->proxy);
    proxy_start(&a->proxy, port, 0, 0);
    network = &a->proxy;
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", a->proxy.port);
    if (psc_client_connect(&as, &o, specs, 2, &a->client, &err) < 0) {
        fail_msg("%s", err.msg);
    }
}

static void *finish_alone(void *arg) {
    struct alone *a = arg;
    (void)!rt_finish(a->client, &a->err);
    return NULL;
}

static void stop_alone(struct alone *a) {
    if (a->err.code) {
        fail_msg("%s", a->err.msg);
    }
    pthread_join(a->serving, NULL);
    assert_int_equal(0, a->end.code);
    proxy_stop(&a->proxy);
}

/* What was sent before it and had no answer goes first, again. */
static void a_frame_made_during_a_reconnect_keeps_its_order(void **state) {
    (void)state;
    struct alone a;
    struct co_err err = {0};
    start_alone(&a, false);
    proxy_set(&a.proxy, PROXY_STALL);
    const float g[DIM] = {-1, -1, -1};
    const uint64_t id = 0;
    float row[DIM] = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, rt_push_sparse(a.client, 1, &id, 1, g, &err));
    }
    const struct rpc_frame_head head = {
        .kind = RPC_FRAME_PUSH_SPARSE, .table = 1, .count = 1, .bytes = 8 + sizeof(g)};
    struct rt_call *call = psc_call_new(a.client, "push", &a.client->tables[1], 1);
    psc_call_part(call, 0, 0, &head, 0);
    call->fill = fill_at_the_break;
    psc_call_start(call);
    if (psc_call_wait(call, 60000, &err) < 0 ||
        rt_pull_sparse(a.client, 1, &id, 1, row, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    assert_true(row[0] == 4);
    finish_alone(&a);
    stop_alone(&a);
}

/* The server has the trainer's last word, and waits until the trainer knows that. */
static void a_finish_whose_answer_is_lost_is_sent_again(void **state) {
    (void)state;
    struct alone a;
    pthread_t thread;
    start_alone(&a, false);
    proxy_set(&a.proxy, PROXY_MUTE);
    assert_int_equal(0, pthread_create(&thread, NULL, finish_alone, &a));
    while (a.proxy.lost == 0) {
        (void)poll(NULL, 0, 5);
    }
    proxy_set(&a.proxy, PROXY_CUT);
    proxy_set(&a.proxy, PROXY_PASS);
    pthread_join(thread, NULL);
    stop_alone(&a);
}

static void *pull_alone(void *arg) {
    struct alone *a = arg;
    const uint64_t id = 0;
    float row[DIM];
    (void)!rt_pull_sparse(a->client, 1, &id, 1, row, &a->err);
    return NULL;
}

/* Its reader waits for a byte that does not come, until something else is sent there. */
static void a_record_that_a_changed_byte_made_longer_breaks_its_lane(void **state) {
    (void)state;
    for (int from = 0; from < 2; from++) { /* the trainer's request, the server's answer */
        struct alone a;
        pthread_t pulling;
        start_alone(&a, true);
        a.proxy.stretch[from] = 1;
        assert_int_equal(0, pthread_create(&pulling, NULL, pull_alone, &a));
        while (a.proxy.stretch[from] > 0) {
            (void)poll(NULL, 0, 5);
        }
        psc_lock(a.client);
        a.client->links->at[0].pinged_ms = 0; /* it is time again */
        psc_unlock(a.client);
        pthread_join(pulling, NULL);
        finish_alone(&a);
        stop_alone(&a);
    }
}

int main(void) {
    const struct CMUnitTest by_lanes[] = {
        cmocka_unit_test(a_record_that_a_changed_byte_made_longer_breaks_its_lane),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(async_pushes_count_once_whatever_is_cut),
        cmocka_unit_test(sync_pushes_count_once_whatever_is_cut),
        cmocka_unit_test(async_pushes_count_once_whatever_is_changed),
        cmocka_unit_test(sync_pushes_count_once_whatever_is_changed),
        cmocka_unit_test(a_frame_made_during_a_reconnect_keeps_its_order),
        cmocka_unit_test(a_finish_whose_answer_is_lost_is_sent_again),
    };
    /* the same over data lanes, and all over gRPC */
    (void)setenv("PADDLE_PS_TRANSPORT", "lanes", 1);
    int failed = cmocka_run_group_tests_name("again, lanes", by_lanes, NULL, NULL);
    failed += cmocka_run_group_tests_name("again", tests, NULL, NULL);
    (void)setenv("PADDLE_PS_TRANSPORT", "grpc", 1);
    return failed + cmocka_run_group_tests_name("again, gRPC", tests, NULL, NULL);
}
