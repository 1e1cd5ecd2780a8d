/* For tests: a raw client of a server (a peer), which can send any message, also invalid ones.  The
 * test's thread sends.  The rpc's thread runs the callbacks, and p->m guards what they write. */
#pragma once

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

#include "runtime/net/net.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/server/internal.h"
#include "runtime/train/rpc/rpc.h"

struct peer {
    struct rt_server *server;
    struct rt_rpc *rpc;
    struct rt_stream *stream;
    pthread_mutex_t m;
    pthread_cond_t changed;
    unsigned answers, closed;
    struct co_err refused;
    uint64_t incarnation;    /* of this peer */
    uint64_t step, barriers; /* from the welcome */
    uint64_t number;         /* of the last request that changes something */
};

/* Ignores frames of earlier connections. */
static inline void on_frame(void *arg, struct rt_stream *st, struct rt_frame *f) {
    struct peer *p = arg;
    pthread_mutex_lock(&p->m);
    if (st != p->stream) {
        pthread_mutex_unlock(&p->m);
        rt_frame_free(f);
        return;
    }
    p->answers +=
        f->head.kind != RT_FRAME_CONTROL; /* the server announces finished trainers unasked */
    if (f->head.kind == RT_FRAME_ERROR) {
        rt_frame_error_read(f, &p->refused);
    }
    CO_CLEANUP(rt_control_freep) Rt__Control *c = NULL;
    if (f->head.kind == (RT_FRAME_CONTROL | RT_FRAME_ANSWER) && f->head.bytes > 0 &&
        rt_control_unpack(f, &c, NULL) == 0 && c->body_case == RT__CONTROL__BODY_WELCOME) {
        p->step = c->welcome->step;
        p->barriers = c->welcome->barriers;
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->m);
    rt_frame_free(f);
}

static inline void on_close(void *arg, struct rt_stream *st, const struct co_err *why) {
    (void)why;
    struct peer *p = arg;
    pthread_mutex_lock(&p->m);
    p->closed += st == p->stream;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->m);
}

static const struct rt_rpc_ops ops = {NULL, on_frame, on_close, NULL};

static inline void await(struct peer *p, const unsigned *what, unsigned n) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    pthread_mutex_lock(&p->m);
    while (*what < n) {
        assert_int_equal(0, pthread_cond_timedwait(&p->changed, &p->m, &end));
    }
    pthread_mutex_unlock(&p->m);
}

/* The last error frame; the rpc's thread writes it. */
static inline struct co_err refusal(struct peer *p) {
    pthread_mutex_lock(&p->m);
    struct co_err e = p->refused;
    pthread_mutex_unlock(&p->m);
    return e;
}

static inline void is_open(struct peer *p) {
    pthread_mutex_lock(&p->m);
    assert_int_equal(0, p->closed);
    pthread_mutex_unlock(&p->m);
}

static inline void dial(struct peer *p) {
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", rt_server_port(p->server));
    pthread_mutex_lock(&p->m); /* callbacks must not run before p->stream is set */
    struct rt_stream *old = p->stream;
    p->stream = NULL;
    p->answers = p->closed = 0;
    p->refused = (struct co_err){0};
    int64_t end = net_now() + 60000;
    int rc;
    do { /* a server that stood still for longer than a greeting may take hangs up */
        rc = rt_rpc_dial(p->rpc, endpoint, 60000, NULL, &p->stream, NULL);
    } while (rc == CO_PEERLOST && net_now() < end);
    pthread_mutex_unlock(&p->m);
    if (old) {
        rt_stream_unref(old);
    }
    assert_int_equal(0, rc);
}

static inline struct peer *peer_new(struct rt_server *server) {
    static uint64_t incarnation;
    struct peer *p = co_xcalloc(1, sizeof(*p));
    p->incarnation = ++incarnation;
    pthread_mutex_init(&p->m, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->server = server;
    const struct rt_rpc_options options = {.token = "secret"};
    assert_int_equal(0, rt_rpc_open(&ops, p, &options, &p->rpc, NULL));
    dial(p);
    return p;
}

static inline void peer_free(struct peer *p) {
    rt_stream_unref(p->stream);
    assert_int_equal(0, rt_rpc_close(p->rpc, NULL));
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
    .lease_ms = 60000,
    .start_timeout_ms = 60000,
    .shards = 1,
    .memory_max = 1 << 26,
    .quiet = true};

static inline struct peer *serve(const struct rt_server_config *c) {
    struct rt_server *s = NULL;
    assert_int_equal(0, rt_server_start(c, &s, NULL));
    return peer_new(s);
}

/* Frees the peer and stops its server. */
static inline void peer_end(struct peer *p) {
    struct rt_server *s = p->server;
    peer_free(p);
    rt_server_stop(s);
}

static inline int setup(void **state) {
    *state = serve(&usual);
    return 0;
}

static inline int teardown(void **state) {
    peer_end(*state);
    return 0;
}

static inline void send_frame(struct peer *p, uint8_t kind, uint32_t shard, size_t bytes) {
    struct rt_frame *f = NULL;
    assert_int_equal(0, rt_frame_new(kind, bytes, &f, NULL));
    memset(f->payload, 0xff, bytes);
    f->head.shard = shard;
    f->head.seq = 1;
    (void)!rt_stream_send(p->stream, f, NULL);
}

static inline void send_control(struct peer *p, const Rt__Control *c) {
    struct rt_frame *f = NULL;
    assert_int_equal(0, rt_control_pack(c, NULL, &f, NULL));
    (void)!rt_stream_send(p->stream, f, NULL);
}

/* A valid hello; tests then change a field. */
struct greeting {
    Rt__Hello hello;
    Rt__Table table, *tables[1];
};

static inline void greet(struct greeting *g, uint32_t trainer) {
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

static inline void send_greeting(struct peer *p, struct greeting *g) {
    Rt__Control c = RT__CONTROL__INIT;
    g->hello.incarnation = p->incarnation;
    c.body_case = RT__CONTROL__BODY_HELLO;
    c.hello = &g->hello;
    send_control(p, &c);
}

static inline void send_hello(struct peer *p, uint32_t trainer) {
    struct greeting g;
    greet(&g, trainer);
    send_greeting(p, &g);
}

static inline void send_begin(struct peer *p, uint64_t step) {
    Rt__Begin b = RT__BEGIN__INIT;
    b.step = step;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_BEGIN;
    c.begin = &b;
    send_control(p, &c);
}

/* Sends hello and begin.  Their two answers count as one in p->answers. */
static inline void begin_with(struct peer *p, struct greeting *g) {
    send_greeting(p, g);
    await(p, &p->answers, 1);
    assert_int_equal(0, refusal(p).code);
    send_begin(p, p->step);
    await(p, &p->answers, 2);
    assert_int_equal(0, refusal(p).code);
    pthread_mutex_lock(&p->m);
    p->answers--;
    pthread_mutex_unlock(&p->m);
}

static inline void join_as(struct peer *p, uint32_t trainer, uint32_t mode) {
    struct greeting g;
    greet(&g, trainer);
    g.hello.mode = mode;
    begin_with(p, &g);
}

static inline void send_barrier(struct peer *p, uint64_t number) {
    Rt__Barrier b = RT__BARRIER__INIT;
    b.number = number;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_BARRIER;
    c.barrier = &b;
    send_control(p, &c);
}

static inline void send_step(struct peer *p, uint64_t number) {
    struct rt_frame *f = NULL;
    assert_int_equal(0, rt_frame_new(RT_FRAME_STEP, 0, &f, NULL));
    f->head.seq = 1;
    f->head.aux = number;
    f->head.number = ++p->number;
    (void)!rt_stream_send(p->stream, f, NULL);
}

static inline void send_finish(struct peer *p) {
    Rt__Finish fin = RT__FINISH__INIT;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_FINISH;
    c.finish = &fin;
    send_control(p, &c);
}

static inline void send_leave(struct peer *p, const char *why) {
    Rt__Leave l = RT__LEAVE__INIT;
    l.why = (char *)(uintptr_t)why;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_LEAVE;
    c.leave = &l;
    send_control(p, &c);
}

static inline void refused_with(struct peer *p, const char *text) {
    await(p, &p->closed, 1);
    if (!strstr(refusal(p).msg, text)) {
        fail_msg("'%s' does not say '%s'", refusal(p).msg, text);
    }
}

/* Checks that the server still serves a well-behaved client. */
static inline void still_serves(struct peer *p) {
    dial(p);
    join_as(p, 0, RT_ASYNC);
    send_frame(p, RT_FRAME_PULL_DENSE, 0, 0);
    await(p, &p->answers, 2);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
