/* Who comes while others have begun, who has finished while others go back to a checkpoint.  Each
 * server stands behind a proxy, so that it keeps its address when it is restarted. */
#include <fcntl.h>
#include <stdio.h>

#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/proxy_testing.h"
#include "runtime/train/ps/server/server.h"

enum { SIZE = 40, DIM = 2, IDS = 6, SERVERS = 2, TRAINERS = 2, WAIT_MS = 60000, LEASE_MS = 20000 };

static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=1"},
    {.name = "e", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=1", .init = "zero"},
};

struct world {
    char dir[32];
    uint32_t n; /* servers */
    struct pss_server *servers[SERVERS];
    struct proxy proxies[SERVERS];
    char endpoint[SERVERS][32];
    const char *endpoints[SERVERS];
};

#define must(e)                                                                                    \
    do {                                                                                           \
        struct co_err err = {0};                                                                   \
        if ((e) != 0) {                                                                            \
            fail_msg("%s: %s", #e, err.msg);                                                       \
        }                                                                                          \
    } while (0)

/* Of the next servers; 0: none that is lost comes back but as it says itself. */
static int64_t return_ms;
static uint32_t shards;
static enum rt_mode job_mode = RT_SYNC;
/* Of the next trainers: the modes of tables "w" and "e".  An async push waits for another one to
 * merge. */
static enum rt_mode dense_mode, rows_mode;
static uint32_t k_steps; /* geo: of a round */

static void server_start(struct world *w, uint32_t i) {
    struct pss_server_config c = {.listen = "127.0.0.1:0",
        .index = i,
        .servers = w->n,
        .trainers = TRAINERS,
        .job = own_job(),
        .lease_ms = LEASE_MS,
        .return_ms = return_ms,
        .start_timeout_ms = WAIT_MS,
        .shards = shards,
        .memory_max = 1 << 26,
        .checkpoint_dir = w->dir,
        .restore_dir = w->dir,
        .quiet = true};
    must(pss_server_start(&c, &w->servers[i], &err));
}

static void world_start(struct world *w, uint32_t n) {
    *w = (struct world){.dir = "/tmp/rejoin_test_XXXXXX", .n = n};
    assert_non_null(mkdtemp(w->dir));
    shards = 2;
    for (uint32_t i = 0; i < n; i++) {
        server_start(w, i);
        proxy_bind(&w->proxies[i]);
        (void)snprintf(w->endpoint[i], 32, "127.0.0.1:%d", w->proxies[i].port);
        w->endpoints[i] = w->endpoint[i];
    }
}

static void world_open(struct world *w, uint32_t i) {
    proxy_start(&w->proxies[i], pss_server_port(w->servers[i]), 0, 0);
}

/* All trainers have finished: the servers end by themselves. */
static void world_end(struct world *w) {
    for (uint32_t i = 0; i < w->n; i++) {
        must(pss_server_wait(w->servers[i], &err));
        pss_server_stop(w->servers[i]);
        proxy_stop(&w->proxies[i]);
    }
    CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", w->dir);
    assert_int_equal(0, system(cmd));
}

/* As a kubelet does, on a node with more cores; its trainers learn of it by their connections
 * alone. */
static void restart(struct world *w, uint32_t i) {
    proxy_set(&w->proxies[i], PROXY_CUT);
    pss_server_stop(w->servers[i]);
    shards = job_mode == RT_SYNC ? 3 : 2; /* async: it has to have as many as before */
    server_start(w, i);
    w->proxies[i].to = pss_server_port(w->servers[i]);
    proxy_set(&w->proxies[i], PROXY_PASS);
}

static struct rt_client *enter(const struct world *w, uint32_t trainer) {
    struct psc_client_config c = {.trainer = trainer,
        .trainers = TRAINERS,
        .servers = w->n,
        .endpoints = w->endpoints,
        .job = own_job()};
    struct rt_client_options o = {.mode = job_mode,
        .merge_max = 2,
        .k_steps = k_steps,
        .send_wait_ms = 3 * WAIT_MS,
        .start_timeout_ms = WAIT_MS,
        .return_ms = WAIT_MS,
        .call_timeout_ms = WAIT_MS,
        .barrier_timeout_ms = WAIT_MS};
    struct rt_table_spec tables[2] = {specs[0], specs[1]};
    tables[0].mode = dense_mode;
    tables[1].mode = rows_mode;
    for (int i = 0; i < 2 && dense_mode == RT_GEO; i++) {
        tables[i].schedule = "piecewise:at=5,values=1:0.5";
    }
    struct rt_client *client = NULL;
    must(psc_client_connect(&c, &o, tables, 2, &client, &err));
    return client;
}

static int push_rows(struct rt_client *c, struct co_err *err) {
    uint64_t ids[IDS];
    float g[IDS * DIM];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    for (int i = 0; i < IDS * DIM; i++) {
        g[i] = -1;
    }
    return rt_push_sparse(c, 1, ids, IDS, g, err);
}

/* Values count steps. */
static int train_step(struct rt_client *c, struct co_err *err) {
    float g[SIZE];
    for (int i = 0; i < SIZE; i++) {
        g[i] = -1;
    }
    CO_TRY(push_rows(c, err));
    CO_TRY(rt_push_dense(c, 0, g, err));
    return rt_step(c, err);
}

static void train(struct rt_client *c, uint64_t steps) {
    for (uint64_t i = 0; i < steps; i++) {
        must(train_step(c, &err));
    }
}

static void check_steps(struct rt_client *c, float steps) {
    float w[SIZE];
    must(rt_pull_dense(c, 0, w, &err));
    for (int i = 0; i < SIZE; i++) {
        assert_true(w[i] == steps);
    }
}

static void check_rows(struct rt_client *c, float steps) {
    uint64_t ids[IDS];
    float rows[IDS * DIM];
    for (uint64_t i = 0; i < IDS; i++) {
        ids[i] = i;
    }
    must(rt_pull_sparse(c, 1, ids, IDS, rows, &err));
    for (int i = 0; i < IDS * DIM; i++) {
        assert_true(rows[i] == steps);
    }
}

struct trainer {
    struct world *w;
    uint32_t index;
    struct rt_client *c;
    int rc;
    struct co_err err;
    pthread_t thread;
};

static void *enter_there(void *arg) {
    struct trainer *t = arg;
    t->c = enter(t->w, t->index);
    return NULL;
}

/* Reads stderr until it has said the text. */
static void await_said(int fd, const char *text) {
    static char said[65536];
    size_t n = 0;
    while (memmem(said, n, text, strlen(text)) == NULL) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(1, poll(&p, 1, WAIT_MS));
        ssize_t more = read(fd, said + n, sizeof(said) - n);
        assert_true(more > 0);
        n += (size_t)more;
    }
}

/* Trainer 1 is welcome at server 0, where nobody has begun, and looks for server 1.  When that
 * answers, trainer 0 has begun everywhere: server 0 has to be asked again.  To give up its
 * connection would be the end of the job. */
static void a_trainer_that_joins_while_others_begin_is_not_lost(void **state) {
    (void)state;
    struct world w;
    world_start(&w, SERVERS);
    world_open(&w, 0);
    struct trainer late = {.w = &w, .index = 1};
    int fds[2], old = dup(STDERR_FILENO);
    assert_int_equal(0, pipe2(fds, O_CLOEXEC));
    dup2(fds[1], STDERR_FILENO);
    assert_int_equal(0, pthread_create(&late.thread, NULL, enter_there, &late));
    CO_AUTOFREE char *text = co_xasprintf("endpoints:['%s']", w.endpoint[1]);
    await_said(fds[0], text);
    dup2(old, STDERR_FILENO);
    co_close(old);
    co_close(fds[0]);
    co_close(fds[1]);
    /* Trainer 0 knows another way to server 1. */
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", pss_server_port(w.servers[1]));
    const struct world near = {.n = SERVERS, .endpoints = {w.endpoint[0], endpoint}};
    struct rt_client *first = enter(&near, 0);
    float g[SIZE] = {0};
    must(rt_push_dense(first, 0, g, &err));
    must(rt_flush(first, &err));
    world_open(&w, 1);
    pthread_join(late.thread, NULL);
    must(rt_finish(late.c, &err));
    train(first, 3);
    must(rt_finish(first, &err));
    world_end(&w);
}

/* Both have joined, and there is a checkpoint of what the tables begin with. */
static void enter_by(struct world *w, struct world *way_of_other, struct rt_client *c[TRAINERS]) {
    struct trainer other = {.w = way_of_other, .index = 1};
    assert_int_equal(0, pthread_create(&other.thread, NULL, enter_there, &other));
    c[0] = enter(w, 0);
    pthread_join(other.thread, NULL);
    c[1] = other.c;
    must(rt_checkpoint(c[0], w->dir, NULL, NULL, &err));
}

static void enter_both(struct world *w, struct rt_client *c[TRAINERS]) {
    enter_by(w, w, c);
}

static void *finish_there(void *arg) {
    struct trainer *t = arg;
    t->rc = rt_finish(t->c, &t->err);
    return NULL;
}

static void await_gone(struct rt_client *c) {
    struct co_err err = {0};
    int rc = 0;
    while ((rc = rt_pull_dense(c, 0, (float[SIZE]){0}, &err)) == 0) {
    }
    if (rc != CO_GONE) {
        fail_msg("%s", err.msg);
    }
}

/* Trainer 1 goes back, and makes its steps alone to the end. */
static void continue_alone(struct rt_client *c) {
    struct rt_place place;
    must(rt_resume(c, NULL, 0, &place, &err));
    assert_int_equal(0, place.step);
    train(c, 3);
    must(rt_barrier(c, &err));
    check_steps(c, 3);
    must(rt_finish(c, &err));
}

/* A server that was restarted knows nothing of the trainer that has finished: it would wait for
 * it. */
static void the_others_go_back_without_a_finished_trainer(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= SERVERS; n++) {
        struct world w;
        struct rt_client *c[TRAINERS];
        world_start(&w, n);
        for (uint32_t i = 0; i < n; i++) {
            world_open(&w, i);
        }
        enter_both(&w, c);
        must(rt_finish(c[0], &err));
        must(rt_barrier(c[1], &err)); /* its answer comes behind the notice */
        restart(&w, n - 1);
        await_gone(c[1]);
        continue_alone(c[1]);
        world_end(&w);
    }
}

/* The other server has its finish already: it cannot go back any more, and need not. */
static void a_trainer_that_finishes_does_not_go_back(void **state) {
    (void)state;
    struct world w;
    struct rt_client *c[TRAINERS];
    world_start(&w, SERVERS);
    world_open(&w, 0);
    world_open(&w, 1);
    enter_both(&w, c);
    proxy_set(&w.proxies[1], PROXY_STALL);
    struct trainer done = {.w = &w, .c = c[0]};
    assert_int_equal(0, pthread_create(&done.thread, NULL, finish_there, &done));
    restart(&w, 1);
    await_gone(c[1]);
    continue_alone(c[1]);
    pthread_join(done.thread, NULL);
    if (done.rc < 0) {
        fail_msg("%s", done.err.msg);
    }
    world_end(&w);
}

/* It comes to server 1 when that has learnt from trainer 1 already that it has finished. */
static void a_trainer_may_report_its_finish_after_another_did(void **state) {
    (void)state;
    struct world w;
    struct proxy side;
    struct rt_client *c[TRAINERS];
    world_start(&w, SERVERS);
    world_open(&w, 0);
    world_open(&w, 1);
    proxy_bind(&side);
    proxy_start(&side, pss_server_port(w.servers[1]), 0, 0);
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%d", side.port);
    struct world other_way = {.n = SERVERS, .endpoints = {w.endpoint[0], endpoint}};
    enter_by(&w, &other_way, c);
    proxy_set(&w.proxies[1], PROXY_STALL);
    struct trainer done = {.w = &w, .c = c[0]};
    assert_int_equal(0, pthread_create(&done.thread, NULL, finish_there, &done));
    must(rt_barrier(c[1], &err)); /* until server 0 has its finish */
    proxy_set(&side, PROXY_CUT);
    pss_server_stop(w.servers[1]);
    server_start(&w, 1);
    side.to = pss_server_port(w.servers[1]);
    proxy_set(&side, PROXY_PASS);
    await_gone(c[1]);
    struct rt_place place;
    must(rt_resume(c[1], NULL, 0, &place, &err));
    proxy_set(&w.proxies[1], PROXY_CUT);
    w.proxies[1].to = pss_server_port(w.servers[1]);
    proxy_set(&w.proxies[1], PROXY_PASS);
    pthread_join(done.thread, NULL);
    if (done.rc < 0) {
        fail_msg("%s", done.err.msg);
    }
    train(c[1], 3);
    check_steps(c[1], 3);
    must(rt_finish(c[1], &err));
    proxy_stop(&side);
    world_end(&w);
}

/* It was ordered to go back, and has nothing more to do: it comes back to say so. */
static void a_trainer_ordered_to_go_back_may_finish(void **state) {
    (void)state;
    struct world w;
    struct rt_client *c[TRAINERS];
    world_start(&w, SERVERS);
    world_open(&w, 0);
    world_open(&w, 1);
    enter_both(&w, c);
    restart(&w, 1);
    await_gone(c[0]);
    await_gone(c[1]);
    must(rt_finish(c[0], &err));
    continue_alone(c[1]);
    world_end(&w);
}

static void *barrier_there(void *arg) {
    struct trainer *t = arg;
    must(rt_barrier(t->c, &err));
    return NULL;
}

/* Two barriers, of which the job has the first behind it. */
static void *come_to_barriers(void *arg) {
    struct trainer *t = arg;
    t->c = enter(t->w, t->index);
    must(rt_barrier(t->c, &err));
    must(rt_barrier(t->c, &err));
    return NULL;
}

/* Server 1 knows what server 0 has forgotten.  A trainer that was restarted has it from there, and
 * is at the second barrier before anybody comes who was at the first one. */
static void a_new_server_learns_of_barriers_from_a_new_trainer(void **state) {
    (void)state;
    struct world w;
    struct rt_client *c[TRAINERS];
    struct rt_place place;
    return_ms = WAIT_MS;
    world_start(&w, SERVERS);
    world_open(&w, 0);
    world_open(&w, 1);
    enter_both(&w, c);
    struct trainer other = {.w = &w, .c = c[1]}, restarted = {.w = &w, .index = 0};
    assert_int_equal(0, pthread_create(&other.thread, NULL, barrier_there, &other));
    must(rt_barrier(c[0], &err));
    pthread_join(other.thread, NULL);
    restart(&w, 1);
    for (uint32_t i = 0; i < TRAINERS; i++) { /* it learns of the barrier as they begin again */
        await_gone(c[i]);
        must(rt_resume(c[i], NULL, 0, &place, &err));
    }
    proxy_set(&w.proxies[0], PROXY_CUT);
    proxy_set(&w.proxies[1], PROXY_CUT);
    rt_client_close(c[0]);
    restart(&w, 0);
    proxy_set(&w.proxies[1], PROXY_PASS);
    assert_int_equal(0, pthread_create(&restarted.thread, NULL, come_to_barriers, &restarted));
    (void)poll(NULL, 0, 300); /* an error would come by now */
    await_gone(c[1]);
    must(rt_resume(c[1], NULL, 0, &place, &err));
    must(rt_barrier(c[1], &err));
    pthread_join(restarted.thread, NULL);
    must(rt_finish(restarted.c, &err));
    must(rt_finish(c[1], &err));
    return_ms = 0;
    world_end(&w);
}

static int init_again(struct rt_client *c, struct co_err *ret_err) {
    float w[SIZE] = {0};
    struct rt_place place;
    int rc = 0;
    while ((rc = rt_init_dense(c, 0, w, ret_err)) == CO_GONE) {
        must(rt_resume(c, NULL, 0, &place, &err));
    }
    return rc;
}

static void *init_there(void *arg) {
    struct trainer *t = arg;
    must(init_again(t->c, &err));
    return NULL;
}

/* One waits at its barrier with the first values when they are lost. */
static void lost_first_values_are_sent_again(void **state) {
    (void)state;
    struct world w;
    struct rt_client *c[TRAINERS];
    world_start(&w, SERVERS);
    world_open(&w, 0);
    world_open(&w, 1);
    enter_both(&w, c);
    struct trainer first = {.w = &w, .c = c[0]};
    assert_int_equal(0, pthread_create(&first.thread, NULL, init_there, &first));
    restart(&w, 1);
    must(init_again(c[1], &err));
    pthread_join(first.thread, NULL);
    check_steps(c[0], 0);
    must(rt_finish(c[0], &err));
    train(c[1], 2);
    must(rt_barrier(c[1], &err));
    must(rt_finish(c[1], &err));
    world_end(&w);
}

/* All servers end before anybody has passed a barrier: nothing is lost, as there was no more than
 * the first values of one trainer, which sends them again. */
static void servers_that_had_nothing_may_come_back_empty(void **state) {
    (void)state;
    struct world w;
    struct rt_client *c[TRAINERS];
    world_start(&w, SERVERS);
    world_open(&w, 0);
    world_open(&w, 1);
    struct trainer other = {.w = &w, .index = 1};
    assert_int_equal(0, pthread_create(&other.thread, NULL, enter_there, &other));
    c[0] = enter(&w, 0);
    pthread_join(other.thread, NULL);
    c[1] = other.c;
    struct trainer first = {.w = &w, .c = c[0]};
    assert_int_equal(0, pthread_create(&first.thread, NULL, init_there, &first));
    for (int i = 0; i < SERVERS; i++) {
        proxy_set(&w.proxies[i], PROXY_CUT);
        pss_server_stop(w.servers[i]);
    }
    for (uint32_t i = 0; i < SERVERS; i++) {
        server_start(&w, i);
        w.proxies[i].to = pss_server_port(w.servers[i]);
    }
    for (int i = 0; i < SERVERS; i++) {
        proxy_set(&w.proxies[i], PROXY_PASS);
    }
    must(init_again(c[1], &err));
    pthread_join(first.thread, NULL);
    check_steps(c[0], 0);
    must(rt_finish(c[0], &err));
    train(c[1], 2);
    check_steps(c[1], 2);
    must(rt_finish(c[1], &err));
    world_end(&w);
}

/* What was trained or loaded is lost with its servers, if there is no checkpoint. */
static void servers_that_had_something_may_not(void **state) {
    (void)state;
    return_ms = WAIT_MS;
    for (int loads = 0; loads < 2; loads++) {
        struct world w;
        struct co_err why = {0};
        world_start(&w, 1);
        world_open(&w, 0);
        struct trainer other = {.w = &w, .index = 1};
        assert_int_equal(0, pthread_create(&other.thread, NULL, enter_there, &other));
        struct rt_client *c = enter(&w, 0);
        pthread_join(other.thread, NULL);
        must(rt_finish(other.c, &err));
        if (loads) {
            CO_AUTOFREE char *dir = co_xasprintf("%s/saved", w.dir);
            must(rt_save(c, dir, &err));
            must(rt_load(c, dir, &err));
        } else {
            train(c, 1);
        }
        restart(&w, 0);
        while (rt_pull_dense(c, 0, (float[SIZE]){0}, &why) == 0) {
        }
        if (why.code != CO_INVALID || !strstr(why.msg, "restarted and has none of its tables")) {
            fail_msg("%s", why.msg);
        }
        rt_client_close(c);
        pss_server_stop(w.servers[0]);
        proxy_stop(&w.proxies[0]);
        CO_AUTOFREE char *cmd = co_xasprintf("rm -r %s", w.dir);
        assert_int_equal(0, system(cmd));
    }
    return_ms = 0;
}

/* A merged push may come to the shards in the next step, and be all that they have of it when the
 * trainer is killed.  Its next process need not repeat it, and begins with the dense push. */
static void a_dense_push_is_not_replaced_by_an_async_push(void **state) {
    (void)state;
    struct world w;
    struct rt_client *c[TRAINERS];
    struct rt_place place;
    return_ms = WAIT_MS;
    rows_mode = RT_ASYNC;
    world_start(&w, 1);
    world_open(&w, 0);
    enter_both(&w, c);
    must(rt_finish(c[0], &err));
    train(c[1], 1);
    must(push_rows(c[1], &err));
    must(rt_flush(c[1], &err));
    proxy_set(&w.proxies[0], PROXY_CUT);
    rt_client_close(c[1]);
    proxy_set(&w.proxies[0], PROXY_PASS);
    c[1] = enter(&w, 1);
    must(rt_resume(c[1], NULL, 0, &place, &err));
    assert_int_equal(1, place.step);
    float g[SIZE];
    for (int i = 0; i < SIZE; i++) {
        g[i] = -1;
    }
    must(rt_push_dense(c[1], 0, g, &err));
    must(rt_step(c[1], &err));
    check_steps(c[1], 2);
    must(rt_finish(c[1], &err));
    return_ms = 0;
    rows_mode = RT_MODE_UNSET;
    world_end(&w);
}

/* A push of before waits to be sent, or its failure is known; of neither is anything left. */
static void no_async_push_outlives_its_time(void **state) {
    (void)state;
    for (int failed = 0; failed < 2; failed++) {
        struct world w;
        struct rt_client *c[TRAINERS];
        struct rt_place place;
        rows_mode = RT_ASYNC;
        world_start(&w, 1);
        world_open(&w, 0);
        enter_both(&w, c);
        must(rt_finish(c[0], &err));
        restart(&w, 0);
        await_gone(c[1]);
        must(push_rows(c[1], &err));
        if (failed) {
            assert_int_equal(CO_GONE, rt_flush(c[1], NULL));
        }
        must(rt_resume(c[1], NULL, 0, &place, &err));
        train(c[1], 3);
        must(rt_flush(c[1], &err));
        check_rows(c[1], 3);
        check_steps(c[1], 3);
        must(rt_finish(c[1], &err));
        rows_mode = RT_MODE_UNSET;
        world_end(&w);
    }
}

/* Copies in geo mode have changes that were not sent, or are on their way.  They are of the time
 * that is given up, and so is the place in the schedule: the rate of a sixth step is another. */
static void no_copy_outlives_its_time(void **state) {
    (void)state;
    static const struct {
        uint32_t k_steps;
        float expected; /* of 3: each round sends half of what is not sent yet */
    } rows[] = {{100, 1.5F}, {1, 2.125F}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct world w;
        struct rt_client *c[TRAINERS];
        struct rt_place place;
        dense_mode = rows_mode = RT_GEO;
        k_steps = rows[i].k_steps;
        world_start(&w, 1);
        world_open(&w, 0);
        enter_both(&w, c);
        must(rt_finish(c[0], &err));
        train(c[1], 4);
        check_steps(c[1], 4);
        check_rows(c[1], 4);
        must(rt_no_more(c[1], &err));
        restart(&w, 0);
        await_gone(c[1]);
        must(rt_resume(c[1], NULL, 0, &place, &err));
        assert_int_equal(0, place.step);
        check_steps(c[1], 0);
        check_rows(c[1], 0);
        train(c[1], 3);
        check_steps(c[1], 3);
        check_rows(c[1], 3);
        must(rt_no_more(c[1], &err));
        check_steps(c[1], rows[i].expected);
        check_rows(c[1], rows[i].expected);
        must(rt_finish(c[1], &err));
        dense_mode = rows_mode = RT_MODE_UNSET;
        k_steps = 0;
        world_end(&w);
    }
}

static void checkpoint_at(struct world *w, struct rt_client *c, uint64_t step) {
    struct rt_checkpoint made;
    must(rt_checkpoint(c, w->dir, NULL, &made, &err));
    assert_int_equal(step, made.step);
}

/* It has made five steps when it restores the tables of the third.  Then it goes back to a
 * checkpoint of after that, or of before.  Its place is what it has counted; the checkpoints count
 * the steps that are in the tables. */
static void a_restored_step_is_counted_once(void **state) {
    (void)state;
    return_ms = WAIT_MS;
    for (uint64_t more = 0; more < 2; more++) {
        struct world w;
        struct rt_client *c[TRAINERS];
        struct rt_place place;
        world_start(&w, SERVERS);
        world_open(&w, 0);
        world_open(&w, 1);
        enter_both(&w, c);
        must(rt_finish(c[0], &err));
        train(c[1], 3);
        checkpoint_at(&w, c[1], 3);
        train(c[1], 2);
        must(rt_restore(c[1], w.dir, NULL, &err));
        if (more) {
            train(c[1], more);
            checkpoint_at(&w, c[1], 3 + more);
        }
        restart(&w, 1);
        await_gone(c[1]);
        must(rt_resume(c[1], NULL, 0, &place, &err));
        const uint64_t at = more ? 5 + more : 3;
        assert_int_equal(at, place.step);
        train(c[1], 1);
        checkpoint_at(&w, c[1], 4 + more);
        /* Its next process does not know what it has restored; server 0 knows it from its begin. */
        proxy_set(&w.proxies[0], PROXY_CUT);
        proxy_set(&w.proxies[1], PROXY_CUT);
        rt_client_close(c[1]);
        proxy_set(&w.proxies[0], PROXY_PASS);
        proxy_set(&w.proxies[1], PROXY_PASS);
        c[1] = enter(&w, 1);
        must(rt_resume(c[1], NULL, 0, &place, &err));
        assert_int_equal(at + 1, place.step);
        train(c[1], 1);
        checkpoint_at(&w, c[1], 5 + more);
        check_steps(c[1], (float)(5 + more));
        must(rt_finish(c[1], &err));
        world_end(&w);
    }
    return_ms = 0;
}

/* The checkpoint has the rates of before. */
static void a_restarted_server_has_the_rates_that_were_set_since(void **state) {
    (void)state;
    struct world w;
    struct rt_client *c[TRAINERS];
    struct rt_rate rate;
    job_mode = RT_ASYNC;
    return_ms = WAIT_MS;
    world_start(&w, 1);
    world_open(&w, 0);
    enter_both(&w, c);
    must(rt_set_rate(c[0], 1, 0.5, &err));
    restart(&w, 0);
    must(push_rows(c[0], &err));
    must(rt_flush(c[0], &err));
    check_rows(c[0], 0.5F);
    must(rt_get_rate(c[0], 0, &rate, &err));
    assert_true(rate.lr == 1);
    /* Not what it has set before it restored another; nor is a connection a restart. */
    must(rt_restore(c[0], w.dir, NULL, &err));
    restart(&w, 0);
    must(rt_get_rate(c[0], 1, &rate, &err));
    assert_true(rate.lr == 1);
    must(rt_set_rate(c[0], 1, 0.5, &err));
    must(rt_set_rate(c[1], 1, 0.25, &err));
    proxy_set(&w.proxies[0], PROXY_CUT);
    proxy_set(&w.proxies[0], PROXY_PASS);
    must(rt_get_rate(c[0], 1, &rate, &err));
    assert_true(rate.lr == 0.25);
    must(rt_finish(c[0], &err));
    must(rt_finish(c[1], &err));
    world_end(&w);
    return_ms = 0;
    job_mode = RT_SYNC;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trainer_that_joins_while_others_begin_is_not_lost),
        cmocka_unit_test(the_others_go_back_without_a_finished_trainer),
        cmocka_unit_test(a_trainer_that_finishes_does_not_go_back),
        cmocka_unit_test(a_trainer_may_report_its_finish_after_another_did),
        cmocka_unit_test(a_trainer_ordered_to_go_back_may_finish),
        cmocka_unit_test(a_new_server_learns_of_barriers_from_a_new_trainer),
        cmocka_unit_test(lost_first_values_are_sent_again),
        cmocka_unit_test(servers_that_had_nothing_may_come_back_empty),
        cmocka_unit_test(servers_that_had_something_may_not),
        cmocka_unit_test(a_dense_push_is_not_replaced_by_an_async_push),
        cmocka_unit_test(no_async_push_outlives_its_time),
        cmocka_unit_test(no_copy_outlives_its_time),
        cmocka_unit_test(a_restored_step_is_counted_once),
        cmocka_unit_test(a_restarted_server_has_the_rates_that_were_set_since),
    };
    (void)setenv("PADDLE_PS_TRANSPORT", "lanes", 1);
    int failed = cmocka_run_group_tests_name("rejoin", tests, NULL, NULL);
    (void)setenv("PADDLE_PS_TRANSPORT", "grpc", 1);
    return failed + cmocka_run_group_tests_name("rejoin, gRPC", tests, NULL, NULL);
}
