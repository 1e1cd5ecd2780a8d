/* The network between a trainer and its server fails in each mode at each stage, and comes back:
 * everybody continues, and what was pushed counts once. */
#include <stdio.h>

#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/proxy_testing.h"
#include "runtime/train/ps/server/server.h"

enum { SIZE = 30, DIM = 2, IDS = 8, STEPS = 8, TRAINERS = 2, WAIT_MS = 30000, LEASE_MS = 400 };

static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=1"},
    {.name = "e", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=1", .init = "zero"},
};

enum stage { AT_INIT, AT_PULL, AT_PUSH, AT_STEP, AT_BARRIER, AT_FINISH, STAGES };

static const char *const stages[STAGES] = {"init", "pull", "push", "step", "barrier", "finish"};

/* Each step adds so much to every value; 0: that depends. */
static const struct {
    const char *name;
    struct rt_client_options options;
    float each;
} modes[] = {
    {"sync", {.mode = RT_SYNC}, 1},
    {"async", {.mode = RT_ASYNC}, TRAINERS},
    {"queue", {.mode = RT_ASYNC, .merge_max = 4}, TRAINERS},
    {"bounded", {.mode = RT_ASYNC, .staleness = 2}, TRAINERS},
    {"backup", {.mode = RT_SYNC, .backup = 1}, 0},
    {"geo", {.mode = RT_GEO, .k_steps = 2}, 0},
};

/* Until a connection ends, or for longer than the lease. */
static const struct {
    const char *name;
    enum proxy_way way;
    int ms;
} ways[] = {{"cut", PROXY_CUT, 60}, {"stalled", PROXY_STALL, 2 * LEASE_MS}};

struct row {
    size_t mode, way;
    enum stage stage;
    struct proxy proxy;
    int lost[2]; /* pipe: a byte when the network is */
    uint16_t port;
    pthread_t thread;
    char wrong[900];
};

struct trainer {
    struct row *row;
    uint32_t index;
    struct co_err err;
    float w[SIZE], rows[IDS * DIM];
    pthread_t thread;
};

static void pass_stage(struct trainer *t, enum stage at, unsigned step) {
    bool middle = at == AT_INIT || at > AT_STEP || step == STEPS / 2;
    if (t->index == 0 && middle && t->row->stage == at) {
        proxy_set(&t->row->proxy, ways[t->row->way].way);
        (void)!write(t->row->lost[1], "x", 1);
    }
}

static int read_all(struct trainer *t, struct rt_client *c, struct co_err *err) {
    uint64_t ids[IDS];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    CO_TRY(rt_pull_sparse(c, 1, ids, IDS, t->rows, err));
    return rt_pull_dense(c, 0, t->w, err);
}

static int train_step(struct trainer *t, struct rt_client *c, unsigned step, struct co_err *err) {
    float g[SIZE];
    uint64_t ids[IDS];
    for (int i = 0; i < SIZE; i++) {
        g[i] = -1;
    }
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    pass_stage(t, AT_PULL, step);
    CO_TRY(rt_pull_sparse(c, 1, ids, IDS, t->rows, err));
    pass_stage(t, AT_PUSH, step);
    CO_TRY(rt_push_sparse(c, 1, ids, IDS, g, err));
    CO_TRY(rt_exchange_dense(c, 0, g, t->w, err));
    pass_stage(t, AT_STEP, step);
    return rt_step(c, err);
}

static int train(struct trainer *t, struct rt_client *c, struct co_err *err) {
    pass_stage(t, AT_INIT, 0);
    CO_TRY(rt_init_dense(c, 0, t->w, err));
    for (unsigned s = 0; s < STEPS; s++) {
        CO_TRY(train_step(t, c, s, err));
    }
    CO_TRY(rt_no_more(c, err));
    pass_stage(t, AT_BARRIER, 0);
    CO_TRY(rt_barrier(c, err));
    CO_TRY(read_all(t, c, err));
    pass_stage(t, AT_FINISH, 0);
    return 0;
}

static void *run_trainer(void *arg) {
    struct trainer *t = arg;
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d",
        t->index == 0 ? t->row->proxy.port : (int)t->row->port);
    struct psc_client_config config = {.trainer = t->index,
        .trainers = TRAINERS,
        .servers = 1,
        .endpoints = (const char *const[]){endpoint},
        .job = own_job()};
    struct rt_client_options o = modes[t->row->mode].options;
    o.start_timeout_ms = o.return_ms = o.call_timeout_ms = o.barrier_timeout_ms = WAIT_MS;
    o.lease_ms = LEASE_MS;
    struct rt_client *c = NULL;
    int rc = psc_client_connect(&config, &o, specs, 2, &c, &t->err);
    if (rc == 0) {
        rc = train(t, c, &t->err);
    }
    if (rc == 0) {
        (void)!rt_finish(c, &t->err);
    } else {
        rt_client_close(c);
    }
    return NULL;
}

static void complain(struct row *r, const char *who, const char *what) {
    if (!r->wrong[0]) {
        (void)snprintf(r->wrong, sizeof(r->wrong), "%s, %s at %s: %s: %s", modes[r->mode].name,
            ways[r->way].name, stages[r->stage], who, what);
    }
}

static void check(struct row *r, const struct trainer *t) {
    float want = modes[r->mode].each * STEPS;
    bool right = t->err.code == 0;
    for (int i = 0; i < SIZE && want > 0; i++) {
        right = right && t->w[i] == want;
    }
    for (int i = 0; i < IDS * DIM && want > 0; i++) {
        right = right && t->rows[i] == want;
    }
    if (!right) {
        complain(r, t->index == 0 ? "trainer 0" : "trainer 1",
            t->err.code ? t->err.msg : "something was lost, or counted twice");
    }
}

static void *run_row(void *arg) {
    struct row *r = arg;
    struct pss_server *server = NULL;
    struct pss_server_config config = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = TRAINERS,
        .job = own_job(),
        .lease_ms = LEASE_MS,
        .return_ms = WAIT_MS,
        .start_timeout_ms = WAIT_MS,
        .shards = 2,
        .memory_max = 1 << 26,
        .quiet = true};
    struct trainer t[TRAINERS] = {{.row = r}, {.row = r, .index = 1}};
    struct co_err err = {0};
    if (pss_server_start(&config, &server, &err) < 0) {
        complain(r, "the server", err.msg);
        return NULL;
    }
    r->port = pss_server_port(server);
    proxy_start(&r->proxy, r->port, 0, 0);
    for (int i = 0; i < TRAINERS; i++) {
        assert_int_equal(0, pthread_create(&t[i].thread, NULL, run_trainer, &t[i]));
    }
    struct pollfd p = {.fd = r->lost[0], .events = POLLIN};
    if (poll(&p, 1, 2 * WAIT_MS) == 1) {
        (void)poll(NULL, 0, ways[r->way].ms);
        proxy_set(&r->proxy, PROXY_PASS);
    }
    for (int i = 0; i < TRAINERS; i++) {
        pthread_join(t[i].thread, NULL);
        check(r, &t[i]);
    }
    if (r->wrong[0] == 0 && pss_server_wait(server, &err) < 0) {
        complain(r, "the server", err.msg);
    }
    pss_server_stop(server);
    proxy_stop(&r->proxy);
    return NULL;
}

/* All stages of a mode at the same time: they mostly wait. */
static void lose_in(size_t mode, size_t way) {
    struct row *rows = co_xcalloc(STAGES, sizeof(*rows));
    char wrong[sizeof(rows->wrong)] = "";
    for (int i = 0; i < STAGES; i++) {
        rows[i] = (struct row){.mode = mode, .way = way, .stage = (enum stage)i};
        proxy_bind(&rows[i].proxy);
        assert_int_equal(0, pipe(rows[i].lost));
        assert_int_equal(0, pthread_create(&rows[i].thread, NULL, run_row, &rows[i]));
    }
    for (int i = 0; i < STAGES; i++) {
        pthread_join(rows[i].thread, NULL);
        co_close(rows[i].lost[0]);
        co_close(rows[i].lost[1]);
        if (rows[i].wrong[0]) {
            memcpy(wrong, rows[i].wrong, sizeof(wrong));
        }
    }
    free(rows);
    if (wrong[0]) {
        fail_msg("%s", wrong);
    }
}

static void connections_that_end_are_made_again(void **state) {
    (void)state;
    for (size_t mode = 0; mode < CO_ARRAY_LEN(modes); mode++) {
        lose_in(mode, 0);
    }
}

static void training_survives_a_silence_longer_than_the_lease(void **state) {
    (void)state;
    for (size_t mode = 0; mode < CO_ARRAY_LEN(modes); mode++) {
        lose_in(mode, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_that_end_are_made_again),
        cmocka_unit_test(training_survives_a_silence_longer_than_the_lease),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
