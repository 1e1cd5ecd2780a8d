/* For tests: a raw client of a server (a peer), which can send any message, also invalid ones.  The
 * test's thread sends.  The rpc's thread runs the callbacks, and p->m guards what they write. */
#pragma once

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/server/server_internal.h"
#include "runtime/train/rpc/dial_testing.h"

struct session_peer {
    struct pss_server *server;
    struct rpc *rpc;
    struct rpc_stream *stream;
    pthread_mutex_t m;
    pthread_cond_t changed;
    unsigned answers, closed;
    struct co_err refused;
    uint64_t incarnation;    /* of this peer */
    uint64_t step, barriers; /* from the welcome */
    uint64_t number;         /* of the last request that changes something */
    unsigned finished;       /* trainers that the server announced */
};

/* Ignores frames of earlier connections. */
static inline void on_frame(void *arg, struct rpc_stream *st, struct rpc_frame *f) {
    struct session_peer *p = arg;
    pthread_mutex_lock(&p->m);
    if (st != p->stream) {
        pthread_mutex_unlock(&p->m);
        rpc_frame_free(f);
        return;
    }
    p->answers +=
        f->head.kind != RPC_FRAME_CONTROL; /* the server announces finished trainers unasked */
    if (f->head.kind == RPC_FRAME_ERROR) {
        rpc_frame_error_read(f, &p->refused);
    }
    CO_CLEANUP(ps_control_freep) Rpc__Control *c = NULL;
    if (f->head.kind == RPC_FRAME_CONTROL && ps_control_unpack(f, &c, NULL) == 0 &&
        c->body_case == RPC__CONTROL__BODY_FINISHED) {
        p->finished += (unsigned)c->finished->n_trainers;
    } else if (f->head.kind == (RPC_FRAME_CONTROL | RPC_FRAME_ANSWER) && f->head.bytes > 0 &&
               ps_control_unpack(f, &c, NULL) == 0 && c->body_case == RPC__CONTROL__BODY_WELCOME) {
        p->step = c->welcome->step;
        p->barriers = c->welcome->barriers;
    }
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->m);
    rpc_frame_free(f);
}

static inline void on_close(void *arg, struct rpc_stream *st, const struct co_err *why) {
    (void)why;
    struct session_peer *p = arg;
    pthread_mutex_lock(&p->m);
    p->closed += st == p->stream;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->m);
}

static const struct rpc_ops ops = {NULL, on_frame, on_close, NULL};

static inline void await(struct session_peer *p, const unsigned *what, unsigned n) {
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
static inline struct co_err refusal(struct session_peer *p) {
    pthread_mutex_lock(&p->m);
    struct co_err e = p->refused;
    pthread_mutex_unlock(&p->m);
    return e;
}

static inline void is_open(struct session_peer *p) {
    pthread_mutex_lock(&p->m);
    assert_int_equal(0, p->closed);
    pthread_mutex_unlock(&p->m);
}

static inline void dial(struct session_peer *p) {
    char endpoint[32];
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", pss_server_port(p->server));
    pthread_mutex_lock(&p->m); /* callbacks must not run before p->stream is set */
    struct rpc_stream *old = p->stream;
    p->stream = NULL;
    p->answers = p->closed = 0;
    p->refused = (struct co_err){0};
    const struct net_auth auth = {&rpc_protocol, "secret", false};
    int64_t end = co_now_ms() + 60000;
    int rc;
    do { /* a server that stood still for longer than a greeting may take hangs up */
        rc = rpc_dial(p->rpc, &auth, endpoint, 60000, &p->stream, NULL);
    } while (rc == CO_PEERLOST && co_now_ms() < end);
    pthread_mutex_unlock(&p->m);
    if (old) {
        rpc_stream_unref(old);
    }
    assert_int_equal(0, rc);
}

static inline struct session_peer *peer_new(struct pss_server *server) {
    static uint64_t incarnation;
    struct session_peer *p = co_xcalloc(1, sizeof(*p));
    p->incarnation = ++incarnation;
    pthread_mutex_init(&p->m, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->server = server;
    assert_int_equal(0, rpc_open(&ops, p, NULL, &p->rpc, NULL));
    dial(p);
    return p;
}

static inline void peer_free(struct session_peer *p) {
    rpc_stream_unref(p->stream);
    assert_int_equal(0, rpc_close(p->rpc, NULL));
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->m);
    free(p);
}

static const struct pss_server_config usual = {.listen = "127.0.0.1:0",
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

static inline struct session_peer *serve(const struct pss_server_config *c) {
    struct pss_server *s = NULL;
    assert_int_equal(0, pss_server_start(c, &s, NULL));
    return peer_new(s);
}

/* Frees the peer and stops its server. */
static inline void peer_end(struct session_peer *p) {
    struct pss_server *s = p->server;
    peer_free(p);
    pss_server_stop(s);
}

static inline int setup(void **state) {
    *state = serve(&usual);
    return 0;
}

static inline int teardown(void **state) {
    peer_end(*state);
    return 0;
}

static inline void send_frame(struct session_peer *p, uint8_t kind, uint32_t shard, size_t bytes) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(kind, bytes, &f, NULL));
    memset(f->payload, 0xff, bytes);
    f->head.shard = shard;
    f->head.seq = 1;
    (void)!rpc_stream_send(p->stream, f, NULL);
}

static inline void send_control(struct session_peer *p, const Rpc__Control *c) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, ps_control_pack(c, NULL, &f, NULL));
    (void)!rpc_stream_send(p->stream, f, NULL);
}

/* A valid hello; tests then change a field. */
struct greeting {
    Rpc__Hello hello;
    Rpc__Table table, *tables[1];
};

static inline void greet(struct greeting *g, uint32_t trainer) {
    static char *list[] = {(char *)(uintptr_t) "127.0.0.1:4000"};
    *g = (struct greeting){
        .hello = RPC__HELLO__INIT, .table = RPC__TABLE__INIT, .tables = {&g->table}};
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

static inline void send_greeting(struct session_peer *p, struct greeting *g) {
    Rpc__Control c = RPC__CONTROL__INIT;
    g->hello.incarnation = p->incarnation;
    c.body_case = RPC__CONTROL__BODY_HELLO;
    c.hello = &g->hello;
    send_control(p, &c);
}

static inline void send_hello(struct session_peer *p, uint32_t trainer) {
    struct greeting g;
    greet(&g, trainer);
    send_greeting(p, &g);
}

static inline void send_begin(struct session_peer *p, uint64_t step) {
    Rpc__Begin b = RPC__BEGIN__INIT;
    b.step = step;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_BEGIN;
    c.begin = &b;
    send_control(p, &c);
}

/* Sends hello and begin.  Their two answers count as one in p->answers. */
static inline void begin_with(struct session_peer *p, struct greeting *g) {
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

static inline void join_as(struct session_peer *p, uint32_t trainer, uint32_t mode) {
    struct greeting g;
    greet(&g, trainer);
    g.hello.mode = mode;
    begin_with(p, &g);
}

static inline void send_barrier_for(struct session_peer *p, uint64_t number, uint64_t wait_ms) {
    Rpc__Barrier b = RPC__BARRIER__INIT;
    b.number = number;
    b.wait_ms = wait_ms;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_BARRIER;
    c.barrier = &b;
    send_control(p, &c);
}

static inline void ask_late(struct session_peer *p, uint64_t step) {
    Rpc__Late l = RPC__LATE__INIT;
    l.step = step;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_LATE;
    c.late = &l;
    send_control(p, &c);
}

static inline void send_barrier(struct session_peer *p, uint64_t number) {
    send_barrier_for(p, number, 0);
}

static inline void send_step(struct session_peer *p, uint64_t number) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_STEP, 0, &f, NULL));
    f->head.seq = 1;
    f->head.aux = number;
    f->head.number = ++p->number;
    (void)!rpc_stream_send(p->stream, f, NULL);
}

static inline void send_finish(struct session_peer *p) {
    Rpc__Finish fin = RPC__FINISH__INIT;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_FINISH;
    c.finish = &fin;
    send_control(p, &c);
}

static inline void send_leave(struct session_peer *p, const char *why) {
    Rpc__Leave l = RPC__LEAVE__INIT;
    l.why = (char *)(uintptr_t)why;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_LEAVE;
    c.leave = &l;
    send_control(p, &c);
}

static inline void refused_with(struct session_peer *p, const char *text) {
    await(p, &p->closed, 1);
    if (!strstr(refusal(p).msg, text)) {
        fail_msg("'%s' does not say '%s'", refusal(p).msg, text);
    }
}

/* Checks that the server still serves a well-behaved client. */
static inline void still_serves(struct session_peer *p) {
    dial(p);
    join_as(p, 0, RT_ASYNC);
    send_frame(p, RPC_FRAME_PULL_DENSE, 0, 0);
    await(p, &p->answers, 2);
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
