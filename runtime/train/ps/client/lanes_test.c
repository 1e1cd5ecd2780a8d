/* What a server does with data lanes that are not as they should be: whoever opens one has proved
 * the job's token, but may be another trainer's, broken, slow or greedy. */
#include "runtime/train/ps/shard/lanes.h"

#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/client.h"
#include "runtime/train/ps/client/link_internal.h"
#include "runtime/train/ps/server/server_internal.h"
#include "runtime/train/rpc/dial_testing.h"

enum { SIZE = 1 << 20, DIM = 4, ANSWER_MS = 60000 };

static const struct rt_table_spec specs[] = {
    {.name = "w", .kind = RT_DENSE, .size = SIZE, .optimizer = "sgd:lr=1"},
    {.name = "e", .kind = RT_SPARSE, .dim = DIM, .optimizer = "sgd:lr=1", .init = "zero"},
};

struct house {
    struct pss_server *server;
    struct rt_client *honest; /* trainer 0 */
    char endpoint[32];
};

static struct rt_client *enter(const struct house *h, uint32_t trainer, enum rt_ps_transport by) {
    const char *endpoints[] = {h->endpoint};
    struct psc_client_config c = {.trainer = trainer,
        .trainers = 2,
        .servers = 1,
        .endpoints = endpoints,
        .job = "job",
        .token = "secret"};
    struct rt_client_options o = {.mode = RT_ASYNC,
        .start_timeout_ms = 60000,
        .call_timeout_ms = 60000,
        .return_ms = 60000,
        .transport = by};
    struct rt_client *client = NULL;
    struct co_err err = {0};
    if (psc_client_connect(&c, &o, specs, 2, &client, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    return client;
}

static int setup(void **state) {
    struct house *h = co_xcalloc(1, sizeof(*h));
    struct pss_server_config c = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 2,
        .job = "job",
        .token = "secret",
        .lease_ms = 60000,
        .return_ms = 60000,
        .start_timeout_ms = 60000,
        .shards = 2,
        .memory_max = 1 << 28,
        .quiet = true};
    assert_int_equal(0, pss_server_start(&c, &h->server, NULL));
    (void)snprintf(h->endpoint, sizeof(h->endpoint), "127.0.0.1:%u", pss_server_port(h->server));
    h->honest = enter(h, 0, RT_PS_LANES);
    *state = h;
    return 0;
}

static int teardown(void **state) {
    struct house *h = *state;
    rt_client_close(h->honest);
    pss_server_stop(h->server);
    free(h);
    return 0;
}

/* The honest trainer works on: its rows count its pushes. */
static void works_on(struct house *h) {
    struct co_err err = {0};
    uint64_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float before[8 * DIM], after[8 * DIM], g[8 * DIM];
    for (size_t i = 0; i < CO_ARRAY_LEN(g); i++) {
        g[i] = -1;
    }
    if (rt_pull_sparse(h->honest, 1, ids, 8, before, &err) < 0 ||
        rt_push_sparse(h->honest, 1, ids, 8, g, &err) < 0 || rt_flush(h->honest, &err) < 0 ||
        rt_pull_sparse(h->honest, 1, ids, 8, after, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(g); i++) {
        assert_true(after[i] == before[i] + 1);
    }
}

/* A connection that proved the token, with that pass. */
static int open_lane(const struct house *h, uint32_t trainer, uint32_t shard, uint64_t key) {
    const char *endpoint = h->endpoint;
    struct net_reached reached;
    assert_int_equal(1, net_connect(&endpoint, 1, ANSWER_MS, &reached));
    const struct net_auth auth = {&rpc_protocol, "secret", false};
    struct rpc_pass pass = {RPC_FOR_LANE, trainer, shard, key};
    struct net_dial d = rpc_prove(reached.fd, &auth, &pass, ANSWER_MS);
    assert_int_equal(0, d.err.code);
    return d.fd;
}

static uint64_t key_of(struct rt_client *c) {
    psc_lock(c);
    uint64_t key = c->links->at[0].welcome.key;
    psc_unlock(c);
    assert_true(key != 0);
    return key;
}

/* Waits until the client has another key: its connection was broken, and made again. */
static void await_another_key(struct rt_client *c, uint64_t key) {
    int64_t deadline = co_now_ms() + ANSWER_MS;
    bool in_time = true;
    psc_lock(c);
    while (
        in_time && (c->links->at[0].welcome.key == key || c->links->at[0].state != PSC_LINK_UP)) {
        in_time = psc_client_wait(c, deadline);
    }
    psc_unlock(c);
    assert_true(in_time);
}

/* What the server says before it closes: *ret_text, "" for nothing. */
static void receive_end(int fd, struct co_err *ret) {
    struct rpc_lane *l = rpc_lane_new(fd, NULL, "server");
    CO_AUTOFREE struct rpc_lane_room *room = co_xmalloc(sizeof(*room));
    struct rpc_frame *first = NULL;
    *ret = (struct co_err){0};
    for (int rc = 0; rc == 0;) {
        struct pollfd in = {.fd = fd, .events = POLLIN};
        assert_int_equal(1, poll(&in, 1, ANSWER_MS));
        rc = rpc_lane_read(l, room, &first, NULL);
        for (struct rpc_frame *f = first, *next; f; f = next) {
            next = f->next;
            if (f->head.kind == RPC_FRAME_ERROR) {
                (void)rpc_frame_error_read(f, ret);
            }
            rpc_frame_free(f);
        }
    }
    rpc_stream_unref(rpc_lane_stream(l));
}

static void a_lane_shows_the_key_of_its_trainer(void **state) {
    struct house *h = *state;
    uint64_t key = key_of(h->honest);
    const struct {
        uint32_t trainer, shard;
        uint64_t key;
        int code;
        const char *said;
    } rows[] = {
        {0, 0, 0, CO_PERMISSION, "trainer 0 of 2 without a key"},
        {0, 0, key ^ 2, CO_UNAVAILABLE, "another key"},
        {1, 0, key, CO_UNAVAILABLE, "trainer 1, which is not here"},
        {1, 0, 0, CO_PERMISSION, "trainer 1 of 2 without a key"},
        {UINT32_MAX, 0, key, CO_PERMISSION, "trainer 4294967295 of 2"},
        {0, 2, key, CO_INVALID, "shard 2 of 2"},
        {0, UINT32_MAX, key, CO_INVALID, "shard 4294967295 of 2"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err;
        receive_end(open_lane(h, rows[i].trainer, rows[i].shard, rows[i].key), &err);
        assert_int_equal(rows[i].code, err.code);
        if (!strstr(err.msg, rows[i].said)) {
            fail_msg("'%s' does not say '%s'", err.msg, rows[i].said);
        }
    }
    works_on(h);
}

static void a_trainer_has_so_many_lanes(void **state) {
    struct house *h = *state;
    int fds[SHARD_LANES_EACH];
    struct co_err err;
    for (int i = 0; i + 1 < SHARD_LANES_EACH; i++) {
        fds[i] = open_lane(h, 0, 1, key_of(h->honest));
    }
    receive_end(open_lane(h, 0, 1, key_of(h->honest)), &err);
    assert_int_equal(CO_NORESOURCE, err.code);
    assert_non_null(strstr(err.msg, "lanes to shard 1 already"));
    works_on(h);
    for (int i = 0; i + 1 < SHARD_LANES_EACH; i++) {
        co_close(fds[i]);
    }
}

static struct rpc_frame *make_frame(uint8_t kind, uint32_t shard, size_t bytes) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(kind, bytes, &f, NULL));
    memset(f->payload, 0, bytes);
    f->head.shard = shard;
    rpc_frame_seal(f);
    return f;
}

static void say_frame(int fd, uint8_t kind, uint32_t shard) {
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make_frame(kind, shard, 0);
    assert_int_equal(RPC_FRAME_HEAD, send(fd, f->wire, RPC_FRAME_HEAD, MSG_NOSIGNAL));
}

/* Its shard has done what came before. */
static void ping_lane(int fd, uint32_t shard) {
    char answer[RPC_FRAME_HEAD];
    struct pollfd in = {.fd = fd, .events = POLLIN};
    say_frame(fd, RPC_FRAME_PING, shard);
    assert_int_equal(1, poll(&in, 1, ANSWER_MS));
    assert_int_equal(sizeof(answer), recv(fd, answer, sizeof(answer), MSG_DONTWAIT));
}

/* What is said on a lane by the key of a trainer is that trainer's doing: its connection ends.  It
 * comes back by itself. */
static void nonsense_on_a_lane_ends_its_trainers_connection(void **state) {
    struct house *h = *state;
    for (int i = 0; i < 4; i++) {
        uint64_t key = key_of(h->honest);
        int fd = open_lane(h, 0, 0, key);
        struct co_err err;
        if (i == 0) {
            static const char text[] = "GET / HTTP/1.1\r\nHost: parameters\r\nAccept: */*\r\n\r\n";
            assert_int_equal(sizeof(text), send(fd, text, sizeof(text), MSG_NOSIGNAL));
        } else if (i == 1) {
            say_frame(fd, RPC_FRAME_PING, 1); /* of the other shard */
        } else if (i == 2) {
            say_frame(fd, RPC_FRAME_STAT | RPC_FRAME_ANSWER, 0);
        } else {
            assert_int_equal(1, send(fd, "\2", 1, MSG_NOSIGNAL)); /* and no more of it */
            (void)shutdown(fd, SHUT_WR);
        }
        receive_end(fd, &err);
        await_another_key(h->honest, key);
        works_on(h);
        receive_end(open_lane(h, 0, 0, key), &err); /* it is worth nothing any more */
        assert_int_equal(CO_UNAVAILABLE, err.code);
    }
}

/* The server ends trainer 0's lanes, as it does once it has sent it all; its stream, which is
 * returned and counted, is as it was.  The client waits for so many ticks for the stream's end; 0:
 * for as many as it does.  Shard 1 comes later, by a lane of the test's if it is not -1: what the
 * client does meanwhile is not its trainer's loss. */
static struct rpc_stream *end_lanes(struct house *h, uint32_t patience, int lane) {
    struct pss_server *s = h->server;
    struct rt_client *c = h->honest;
    pthread_mutex_lock(&s->doors_m);
    struct rpc_stream *stream = rpc_stream_ref(s->doors[0].stream);
    pthread_mutex_unlock(&s->doors_m);
    pss_server_close_door(s, 0, stream);
    shard_left(s->shards[0], 0, stream);
    int64_t deadline = co_now_ms() + ANSWER_MS;
    bool in_time = true;
    psc_lock(c);
    while (in_time && c->links->at[0].lanes.all) {
        in_time = psc_client_wait(c, deadline);
    }
    c->links->at[0].lanes.patience = patience ? patience : c->links->at[0].lanes.patience;
    psc_unlock(c);
    assert_true(in_time);
    if (lane >= 0) {
        ping_lane(lane, 1);
    }
    shard_left(s->shards[1], 0, stream);
    return stream;
}

static void a_reason_that_comes_after_the_lanes_end_is_read(void **state) {
    struct house *h = *state;
    works_on(h);
    CO_AUTOCLOSE int lane = open_lane(h, 0, 1, key_of(h->honest));
    ping_lane(lane, 1);
    struct rpc_stream *stream = end_lanes(h, ANSWER_MS, lane);
    struct rpc_frame *reason = rpc_frame_error(NULL, CO_PEERLOST, "trainer 1 is lost");
    assert_int_equal(0, rpc_stream_send(stream, reason, NULL));
    rpc_stream_end(stream);
    rpc_stream_unref(stream);
    struct co_err err = {0};
    uint64_t id = 1;
    float row[DIM];
    assert_int_equal(CO_PEERLOST, rt_pull_sparse(h->honest, 1, &id, 1, row, &err));
    assert_non_null(strstr(err.msg, "trainer 1 is lost"));
}

/* Nothing that is asked for meanwhile goes by the stream, before what went by the lanes. */
static void lanes_that_end_without_a_reason_are_made_again(void **state) {
    struct house *h = *state;
    works_on(h);
    uint64_t key = key_of(h->honest);
    rpc_stream_unref(end_lanes(h, 0, -1));
    works_on(h);
    assert_true(key_of(h->honest) != key);
}

/* ---- lanes that are refused ---- */

/* Changes the key that a trainer's next lanes have to show, twice, as if its stream had broken at
 * the server between welcome and lanes. */
struct spoiler {
    struct pss_server *server;
    uint64_t seen; /* the last key that was looked at */
    atomic_uint left;
};

static void *spoil_doors(void *arg) {
    struct spoiler *p = arg;
    while (p->left > 0) {
        pthread_mutex_lock(&p->server->doors_m);
        struct pss_door *d = &p->server->doors[0];
        if (d->key != 0 && d->key != p->seen) {
            d->key ^= 2;
            p->seen = d->key;
            p->left--;
        }
        pthread_mutex_unlock(&p->server->doors_m);
        (void)sched_yield();
    }
    return NULL;
}

static void change_key(struct house *h) {
    pthread_mutex_lock(&h->server->doors_m);
    h->server->doors[0].key ^= 2;
    pthread_mutex_unlock(&h->server->doors_m);
}

/* The key only lets a lane in.  Which connection the lane belongs to does not change with it. */
static void a_lane_of_a_former_key_breaks_its_connection(void **state) {
    struct house *h = *state;
    uint64_t key = key_of(h->honest);
    struct co_err err;
    int fd = open_lane(h, 0, 0, key);
    ping_lane(fd, 0); /* it was let in */
    change_key(h);
    say_frame(fd, RPC_FRAME_PING, 1); /* of the other shard */
    receive_end(fd, &err);
    await_another_key(h->honest, key);
    works_on(h);
}

/* Else the door would hold a closed connection, and the server wait for its release. */
static void a_door_whose_key_has_changed_closes_with_its_connection(void **state) {
    struct house *h = *state;
    works_on(h);
    change_key(h);
    rt_client_close(co_steal_ptr(h->honest));
    int64_t deadline = co_now_ms() + ANSWER_MS;
    for (bool open = true; open; sched_yield()) {
        pthread_mutex_lock(&h->server->doors_m);
        open = h->server->doors[0].stream;
        pthread_mutex_unlock(&h->server->doors_m);
        assert_true(co_now_ms() < deadline);
    }
}

static void refused_lanes_are_tried_again(void **state) {
    struct house *h = *state;
    works_on(h);
    struct spoiler p = {.server = h->server, .seen = key_of(h->honest), .left = 2};
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, spoil_doors, &p));
    while (p.left > 0) { /* again if a change came after the lanes */
        rpc_stream_unref(end_lanes(h, 0, -1));
        works_on(h);
    }
    pthread_join(thread, NULL);
}

struct pinged {
    pthread_mutex_t m;
    pthread_cond_t changed;
    bool is;
    int code; /* of the failure that ended it */
};

static void on_pinged(struct rt_call *call) {
    struct pinged *p = call->arg;
    int code = call->err.code;
    psc_call_free(call);
    pthread_mutex_lock(&p->m);
    p->is = true;
    p->code = code;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->m);
}

/* A call that nobody waits for: the client's own thread reads its answer. */
static void start_ping(struct rt_client *c, struct pinged *p) {
    struct rt_call *call = psc_call_new(c, "ping", NULL, 1);
    psc_call_part(call, 0, 0, &(struct rpc_frame_head){.kind = RPC_FRAME_PING}, 0);
    call->done = on_pinged;
    call->arg = p;
    assert_int_equal(0, psc_call_detach(call, false, NULL));
}

static void await_idle(struct rt_client *c) {
    int64_t deadline = co_now_ms() + ANSWER_MS;
    for (bool idle = false; !idle; sched_yield()) {
        psc_lock(c);
        idle = psc_client_is_idle(c);
        psc_unlock(c);
        assert_true(co_now_ms() < deadline);
    }
}

/* A request waits for its link.  By the time it is sent, the client's own thread sleeps. */
static void sending_a_waiting_request_wakes_the_reader(void **state) {
    struct house *h = *state;
    struct rt_client *c = h->honest;
    struct pinged p = {.m = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    works_on(h);
    psc_lock(c);
    c->links->at[0].state = PSC_LINK_BEGUN;
    psc_unlock(c);
    start_ping(c, &p);
    await_idle(c);
    psc_lock(c);
    c->links->at[0].state = PSC_LINK_UP;
    psc_unlock(c);
    psc_client_pump(&c->links->at[0]);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ANSWER_MS / 1000;
    pthread_mutex_lock(&p.m);
    while (!p.is) {
        assert_int_equal(0, pthread_cond_timedwait(&p.changed, &p.m, &end));
    }
    assert_int_equal(0, p.code);
    pthread_mutex_unlock(&p.m);
}

static size_t resident(void) {
    size_t pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(2, fscanf(f, "%zu %zu", &all, &pages));
    (void)fclose(f);
    return pages * 4096;
}

/* 1000 answers of 2 MiB: one that does not read them gets some, and is not read. */
static void a_lane_whose_peer_does_not_read_is_not_read(void **state) {
    struct house *h = *state;
    works_on(h);
    size_t before = resident();
    int fd = open_lane(h, 0, 0, key_of(h->honest));
    for (int i = 0; i < 1000; i++) {
        CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = make_frame(RPC_FRAME_PULL_DENSE, 0, 0);
        co_put_u32(f->wire + 24, SIZE / 2); /* count */
        assert_int_equal(RPC_FRAME_HEAD, send(fd, f->wire, RPC_FRAME_HEAD, MSG_NOSIGNAL));
    }
    for (int i = 0; i < 50; i++) {
        works_on(h);
    }
    assert_true(resident() < before + (64 << 20));
    co_close(fd);
    works_on(h);
}

/* A frame that has begun costs what has arrived of it. */
static void unfinished_frames_take_only_the_memory_received(void **state) {
    struct house *h = *state;
    int fds[SHARD_LANES_EACH - 1];
    works_on(h);
    size_t before = resident();
    for (size_t i = 0; i < CO_ARRAY_LEN(fds); i++) {
        CO_CLEANUP(rpc_frame_freep)
        struct rpc_frame *f = make_frame(RPC_FRAME_PUSH_DENSE, 0, 0);
        co_put_u32(f->wire + 24, RPC_FRAME_BYTES_MAX / 4);
        co_put_u32(f->wire + 28, RPC_FRAME_BYTES_MAX);
        fds[i] = open_lane(h, 0, 0, key_of(h->honest));
        assert_int_equal(RPC_FRAME_HEAD, send(fds[i], f->wire, RPC_FRAME_HEAD, MSG_NOSIGNAL));
    }
    works_on(h);
    assert_true(resident() < before + (16 << 20));
    for (size_t i = 0; i < CO_ARRAY_LEN(fds); i++) {
        co_close(fds[i]);
    }
}

static void trainers_with_lanes_and_with_grpc_share_a_job(void **state) {
    struct house *h = *state;
    struct rt_client *other = enter(h, 1, RT_PS_GRPC);
    struct co_err err = {0};
    uint64_t id = 77;
    float g[DIM] = {-1, -1, -1, -1}, row[DIM];
    assert_int_equal(0, rt_push_sparse(other, 1, &id, 1, g, &err));
    assert_int_equal(0, rt_flush(other, &err));
    assert_int_equal(0, rt_push_sparse(h->honest, 1, &id, 1, g, &err));
    assert_int_equal(0, rt_flush(h->honest, &err));
    assert_int_equal(0, rt_pull_sparse(other, 1, &id, 1, row, &err));
    assert_true(row[0] == 2);
    rt_client_close(other);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(a_lane_shows_the_key_of_its_trainer),
        T(a_trainer_has_so_many_lanes),
        T(nonsense_on_a_lane_ends_its_trainers_connection),
        T(a_reason_that_comes_after_the_lanes_end_is_read),
        T(lanes_that_end_without_a_reason_are_made_again),
        T(a_lane_of_a_former_key_breaks_its_connection),
        T(a_door_whose_key_has_changed_closes_with_its_connection),
        T(refused_lanes_are_tried_again),
        T(sending_a_waiting_request_wakes_the_reader),
        T(a_lane_whose_peer_does_not_read_is_not_read),
        T(unfinished_frames_take_only_the_memory_received),
        T(trainers_with_lanes_and_with_grpc_share_a_job),
    };
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
