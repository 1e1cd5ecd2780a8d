/* What a server does with peers that do not keep to the protocol: it refuses them, and goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/train/ps/control.h"
#include "runtime/train/ps/server.h"
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
    assert_int_equal(0, rt_rpc_dial(p->rpc, endpoint, NULL, &p->stream, NULL));
}

static int setup(void **state) {
    struct peer *p = co_xcalloc(1, sizeof(*p));
    pthread_mutex_init(&p->m, NULL);
    pthread_cond_init(&p->changed, NULL);
    struct rt_server_config c = {.listen = "127.0.0.1:0",
        .servers = 1,
        .trainers = 2,
        .job = "job",
        .lease_ms = 20000,
        .start_timeout_ms = 20000,
        .shards = 1,
        .memory_max = 1 << 26,
        .quiet = true};
    assert_int_equal(0, rt_server_start(&c, &p->server, NULL));
    assert_int_equal(0, rt_rpc_open(&ops, p, NULL, &p->rpc, NULL));
    dial(p);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct peer *p = *state;
    rt_stream_unref(p->stream);
    rt_rpc_close(p->rpc);
    rt_server_stop(p->server);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->m);
    free(p);
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

static void send_hello(struct peer *p, uint32_t trainer) {
    Rt__Table table = RT__TABLE__INIT, *tables[] = {&table};
    table.name = (char *)(uintptr_t) "w";
    table.size = 10;
    table.optimizer = (char *)(uintptr_t) "sgd";
    Rt__Hello h = RT__HELLO__INIT;
    h.job = (char *)(uintptr_t) "job";
    h.trainer = trainer;
    h.trainers = 2;
    h.servers = 1;
    h.n_tables = 1;
    h.tables = tables;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_HELLO;
    c.hello = &h;
    send_control(p, &c);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_done_before_hello, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_finishes_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_hello_ends_the_connection, setup, teardown),
    };
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
