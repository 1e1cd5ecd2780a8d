#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/train/rpc/rpc.h"

/* A server that answers every frame with the same, and a client that counts. */
struct side {
    pthread_mutex_t m;
    pthread_cond_t changed;
    struct rt_rpc *rpc;
    unsigned opened, closed, frames, bad;
    uint64_t last_seq;
    int close_code;
    bool hold; /* keep frames instead of answering */
    struct rt_frame *held[512];
    unsigned n_held;
};

static void lock(struct side *s) {
    pthread_mutex_lock(&s->m);
}

static void unlock(struct side *s) {
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->m);
}

static void server_open(void *arg, struct rt_stream *st) {
    (void)st;
    struct side *s = arg;
    lock(s);
    s->opened++;
    unlock(s);
}

static void server_frame(void *arg, struct rt_stream *st, struct rt_frame *f) {
    struct side *s = arg;
    lock(s);
    s->frames++;
    if (s->hold && s->n_held < 512) {
        s->held[s->n_held++] = f;
        unlock(s);
        return;
    }
    unlock(s);
    struct rt_frame *a = NULL;
    assert_int_equal(0, rt_frame_new(f->head.kind | RT_FRAME_ANSWER, f->head.bytes, &a, NULL));
    a->head.seq = f->head.seq;
    memcpy(a->payload, f->payload, f->head.bytes);
    rt_frame_free(f);
    (void)!rt_stream_send(st, a, NULL);
}

static void any_close(void *arg, struct rt_stream *st, const struct co_err *why) {
    (void)st;
    struct side *s = arg;
    lock(s);
    s->closed++;
    s->close_code = why->code;
    unlock(s);
}

static void client_frame(void *arg, struct rt_stream *st, struct rt_frame *f) {
    (void)st;
    struct side *s = arg;
    lock(s);
    s->frames++;
    s->bad += f->head.seq != s->last_seq + 1;
    s->last_seq = f->head.seq;
    for (uint32_t i = 0; i < f->head.bytes; i += 997) {
        s->bad += f->payload[i] != (unsigned char)(f->head.seq + i);
    }
    unlock(s);
    rt_frame_free(f);
}

static const struct rt_rpc_ops server_ops = {server_open, server_frame, any_close, NULL};
static const struct rt_rpc_ops client_ops = {NULL, client_frame, any_close, NULL};

struct pair {
    struct side server, client;
    struct rt_stream *stream;
    char endpoint[32];
};

static void side_init(struct side *s, const struct rt_rpc_ops *ops) {
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->m, NULL);
    pthread_cond_init(&s->changed, NULL);
    assert_int_equal(0, rt_rpc_open(ops, s, NULL, &s->rpc, NULL));
}

static int setup(void **state) {
    struct pair *p = co_xcalloc(1, sizeof(*p));
    side_init(&p->server, &server_ops);
    side_init(&p->client, &client_ops);
    uint16_t port = 0;
    struct co_err err = {0};
    assert_int_equal(0, rt_rpc_listen(p->server.rpc, "127.0.0.1:0", &port, &err));
    (void)snprintf(p->endpoint, sizeof(p->endpoint), "127.0.0.1:%u", port);
    assert_int_equal(0, rt_rpc_dial(p->client.rpc, p->endpoint, NULL, &p->stream, &err));
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct pair *p = *state;
    rt_stream_unref(p->stream);
    rt_rpc_close(p->client.rpc);
    for (unsigned i = 0; i < p->server.n_held; i++) {
        rt_frame_free(p->server.held[i]);
    }
    p->server.n_held = 0;
    rt_rpc_close(p->server.rpc);
    free(p);
    return 0;
}

static void await(struct side *s, const unsigned *what, unsigned n) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    pthread_mutex_lock(&s->m);
    while (*what < n) {
        assert_int_equal(0, pthread_cond_timedwait(&s->changed, &s->m, &end));
    }
    pthread_mutex_unlock(&s->m);
}

static int push(struct pair *p, uint64_t seq, size_t bytes, struct co_err *err) {
    struct rt_frame *f = NULL;
    assert_int_equal(0, rt_frame_new(RT_FRAME_CONTROL | RT_FRAME_ANSWER, bytes, &f, NULL));
    f->head.seq = seq;
    for (size_t i = 0; i < bytes; i++) {
        f->payload[i] = (unsigned char)(seq + i);
    }
    return rt_stream_send(p->stream, f, err);
}

static void frames_of_all_sizes_come_back_in_order(void **state) {
    struct pair *p = *state;
    static const size_t sizes[] = {0, 1, 31, 32, 1000, 65536, 300000, 5 << 20};
    unsigned n = 0;
    for (unsigned round = 0; round < 20; round++) {
        for (size_t i = 0; i < CO_ARRAY_LEN(sizes); i++) {
            if (sizes[i] < 100000 || round % 10 == 0) {
                assert_int_equal(0, push(p, ++n, sizes[i], NULL));
            }
        }
    }
    await(&p->client, &p->client.frames, n);
    assert_int_equal(0, p->client.bad);
}

/* A server that holds frames stops reading; nothing is lost when it goes on. */
static void a_slow_reader_bounds_what_is_in_flight(void **state) {
    struct pair *p = *state;
    p->server.hold = true;
    unsigned n = 100;
    for (unsigned i = 1; i <= n; i++) {
        assert_int_equal(0, push(p, i, 1 << 20, NULL));
    }
    await(&p->server, &p->server.frames, 63);
    lock(&p->server);
    assert_true(p->server.frames < 70);
    p->server.hold = false;
    unsigned held = p->server.n_held;
    p->server.n_held = 0;
    unlock(&p->server);
    for (unsigned i = 0; i < held; i++) {
        rt_frame_free(p->server.held[i]);
    }
    await(&p->server, &p->server.frames, n);
}

static void a_peer_that_closes_is_noticed(void **state) {
    struct pair *p = *state;
    assert_int_equal(0, push(p, 1, 10, NULL));
    await(&p->client, &p->client.frames, 1);
    rt_stream_cancel(p->stream);
    await(&p->server, &p->server.closed, 1);
    assert_int_equal(CO_PEERLOST, p->server.close_code);
    await(&p->client, &p->client.closed, 1);
    struct co_err err = {0};
    assert_int_equal(CO_PEERLOST, push(p, 2, 10, &err));
    assert_non_null(strstr(err.msg, "127.0.0.1"));
}

static void nobody_listening_closes_the_stream(void **state) {
    struct pair *p = *state;
    struct rt_stream *s = NULL;
    assert_int_equal(0, rt_rpc_dial(p->client.rpc, "127.0.0.1:1", NULL, &s, NULL));
    await(&p->client, &p->client.closed, 1);
    assert_int_equal(CO_PEERLOST, p->client.close_code);
    rt_stream_unref(s);
}

static void a_taken_address_is_refused(void **state) {
    struct pair *p = *state;
    struct side other;
    side_init(&other, &server_ops);
    uint16_t port = 0;
    struct co_err err = {0};
    assert_int_equal(CO_UNAVAILABLE, rt_rpc_listen(other.rpc, p->endpoint, &port, &err));
    assert_non_null(strstr(err.msg, p->endpoint));
    rt_rpc_close(other.rpc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_of_all_sizes_come_back_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_reader_bounds_what_is_in_flight, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_closes_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_listening_closes_the_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(a_taken_address_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
