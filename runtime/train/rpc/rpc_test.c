#include <arpa/inet.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>

#include "common/listen.h"
#include "runtime/train/rpc/dial_testing.h"
#include "runtime/train/rpc/pass.h"

static const struct net_auth auth = {&rpc_protocol, "secret", false};

/* Threads race in gRPC: the close of a call may complete before the receive of a message that came
 * first.  While `on`, it always does so in this program, for the call that was dialled last. */
static struct {
    pthread_mutex_t m;
    bool on, closed;
    grpc_call *call;
    void *receive, *close; /* tags of its batches */
    grpc_event held;       /* of type GRPC_OP_COMPLETE: delivered once it has closed */
} disorder = {.m = PTHREAD_MUTEX_INITIALIZER};

grpc_call_error grpc_call_start_batch(
    grpc_call *call, const grpc_op *ops, size_t n, void *tag, void *reserved) {
    grpc_call_error (*real)(grpc_call *, const grpc_op *, size_t, void *, void *);
    *(void **)&real = dlsym(RTLD_NEXT, "grpc_call_start_batch");
    pthread_mutex_lock(&disorder.m);
    if (n > 0 && ops[0].op == GRPC_OP_RECV_STATUS_ON_CLIENT) {
        disorder.call = call;
        disorder.close = tag;
    } else if (n > 0 && ops[0].op == GRPC_OP_RECV_MESSAGE && call == disorder.call) {
        disorder.receive = tag;
    }
    pthread_mutex_unlock(&disorder.m);
    return real(call, ops, n, tag, reserved);
}

/* True: the event is held back. */
static bool hold_back(grpc_event *ev) {
    pthread_mutex_lock(&disorder.m);
    bool ours = disorder.on && ev->type == GRPC_OP_COMPLETE;
    bool holds = ours && ev->tag == disorder.receive && !disorder.closed;
    if (holds) {
        disorder.held = *ev;
    }
    disorder.closed = disorder.closed || (ours && ev->tag == disorder.close);
    pthread_mutex_unlock(&disorder.m);
    return holds;
}

static bool take_held(grpc_event *ret) {
    pthread_mutex_lock(&disorder.m);
    bool due = disorder.closed && disorder.held.type == GRPC_OP_COMPLETE;
    if (due) {
        *ret = disorder.held;
        disorder.held.type = GRPC_QUEUE_TIMEOUT;
    }
    pthread_mutex_unlock(&disorder.m);
    return due;
}

grpc_event grpc_completion_queue_next(
    grpc_completion_queue *cq, gpr_timespec deadline, void *reserved) {
    grpc_event (*real)(grpc_completion_queue *, gpr_timespec, void *);
    *(void **)&real = dlsym(RTLD_NEXT, "grpc_completion_queue_next");
    grpc_event ev;
    if (!take_held(&ev)) {
        do {
            ev = real(cq, deadline, reserved);
        } while (hold_back(&ev));
    }
    return ev;
}

/* A server that answers every frame with the same, or with aux bytes, and a client that counts. */
struct side {
    pthread_mutex_t m;
    pthread_cond_t changed;
    struct rpc *rpc;
    unsigned opened, closed, frames, bad;
    uint64_t last_seq;
    int close_code;
    struct co_err why; /* of the last close */
    bool hold;         /* keep frames that have a payload instead of answering */
    struct rpc_frame *held[512];
    unsigned n_held;
};

static void lock(struct side *s) {
    pthread_mutex_lock(&s->m);
}

static void unlock(struct side *s) {
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->m);
}

static void server_open(void *arg, struct rpc_stream *st) {
    (void)st;
    struct side *s = arg;
    lock(s);
    s->opened++;
    unlock(s);
}

/* Of the bytes that are looked at: each one costs much with TSan. */
enum { STRIDE = 997 };

static void fill(struct rpc_frame *f) {
    memset(f->payload, 0, f->head.bytes);
    for (size_t i = 0; i < f->head.bytes; i += STRIDE) {
        f->payload[i] = (unsigned char)(f->head.seq + i);
    }
}

static void server_frame(void *arg, struct rpc_stream *st, struct rpc_frame *f) {
    struct side *s = arg;
    lock(s);
    s->frames++;
    if (s->hold && f->head.bytes > 0 && s->n_held < 512) {
        s->held[s->n_held++] = f;
        unlock(s);
        return;
    }
    unlock(s);
    struct rpc_frame *a = NULL;
    size_t bytes = f->head.aux > 0 ? f->head.aux : f->head.bytes;
    assert_int_equal(0, rpc_frame_new(f->head.kind | RPC_FRAME_ANSWER, bytes, &a, NULL));
    a->head.seq = f->head.seq;
    if (f->head.aux > 0) {
        fill(a);
    } else {
        memcpy(a->payload, f->payload, bytes);
    }
    rpc_frame_free(f);
    (void)!rpc_stream_send(st, a, NULL);
}

static void any_close(void *arg, struct rpc_stream *st, const struct co_err *why) {
    (void)st;
    struct side *s = arg;
    lock(s);
    s->closed++;
    s->close_code = why->code;
    s->why = *why;
    unlock(s);
}

static void client_frame(void *arg, struct rpc_stream *st, struct rpc_frame *f) {
    (void)st;
    struct side *s = arg;
    lock(s);
    s->frames++;
    s->bad += f->head.seq != s->last_seq + 1 || s->closed > 0;
    s->last_seq = f->head.seq;
    for (uint32_t i = 0; i < f->head.bytes; i += STRIDE) {
        s->bad += f->payload[i] != (unsigned char)(f->head.seq + i);
    }
    unlock(s);
    rpc_frame_free(f);
}

static void server_last_frame(void *arg, struct rpc_stream *st, struct rpc_frame *f) {
    server_frame(arg, st, f);
    rpc_stream_end(st);
}

static const struct rpc_ops server_ops = {server_open, server_frame, any_close, NULL};
static const struct rpc_ops ending_ops = {server_open, server_last_frame, any_close, NULL};
static const struct rpc_ops client_ops = {NULL, client_frame, any_close, NULL};

struct pair {
    struct net_auth auth;
    struct side server, client;
    struct rpc_stream *stream;
    char endpoint[32];
};

static void side_init_as(
    struct side *s, const struct rpc_ops *ops, const struct rpc_options *options) {
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->m, NULL);
    pthread_cond_init(&s->changed, NULL);
    struct rpc_options o = *options;
    o.token = "secret";
    assert_int_equal(0, rpc_open(ops, s, &o, &s->rpc, NULL));
}

static void side_init(struct side *s, const struct rpc_ops *ops) {
    side_init_as(s, ops, &(struct rpc_options){0});
}

static int setup_with(void **state, const struct rpc_ops *ops, const struct rpc_options *options) {
    struct pair *p = co_xcalloc(1, sizeof(*p));
    p->auth = auth;
    p->auth.encrypt = options->encrypt;
    side_init_as(&p->server, ops, options);
    side_init_as(&p->client, &client_ops, options);
    int fd = -1;
    struct co_err err = {0};
    assert_int_equal(0, net_listen("127.0.0.1:0", &fd, &err));
    (void)snprintf(p->endpoint, sizeof(p->endpoint), "127.0.0.1:%u", co_listen_port(fd));
    assert_int_equal(0, rpc_accept(p->server.rpc, fd, &err));
    assert_int_equal(0, rpc_dial(p->client.rpc, &p->auth, p->endpoint, 60000, &p->stream, &err));
    *state = p;
    return 0;
}

static int setup_as(void **state, const struct rpc_options *options) {
    return setup_with(state, &server_ops, options);
}

static int setup_ending(void **state) {
    return setup_with(state, &ending_ops, &(struct rpc_options){0});
}

static int setup(void **state) {
    return setup_as(state, &(struct rpc_options){0});
}

static int setup_encrypted(void **state) {
    return setup_as(state, &(struct rpc_options){.encrypt = true});
}

static int setup_quick_to_close(void **state) {
    return setup_as(state, &(struct rpc_options){.idle_ms = 2000});
}

/* A stream that is still held when its rpc closes is waited for only a moment. */
static int setup_impatient(void **state) {
    return setup_as(state, &(struct rpc_options){.held_ms = 1});
}

static int setup_impatient_encrypted(void **state) {
    return setup_as(state, &(struct rpc_options){.encrypt = true, .held_ms = 1});
}

static int teardown(void **state) {
    struct pair *p = *state;
    if (p->stream) {
        rpc_stream_unref(p->stream);
    }
    assert_int_equal(0, rpc_close(p->client.rpc, NULL));
    for (unsigned i = 0; i < p->server.n_held; i++) {
        rpc_frame_free(p->server.held[i]);
    }
    p->server.n_held = 0;
    assert_int_equal(0, rpc_close(p->server.rpc, NULL));
    free(p);
    return 0;
}

static void await(struct side *s, const unsigned *what, unsigned n) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    int rc = 0;
    pthread_mutex_lock(&s->m);
    while (*what < n && rc == 0) {
        rc = pthread_cond_timedwait(&s->changed, &s->m, &end);
    }
    pthread_mutex_unlock(&s->m); /* first: callbacks take it when the teardown closes */
    assert_int_equal(0, rc);
}

static int push(struct pair *p, uint64_t seq, size_t bytes, struct co_err *err) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_CONTROL | RPC_FRAME_ANSWER, bytes, &f, NULL));
    f->head.seq = seq;
    fill(f);
    return rpc_stream_send(p->stream, f, err);
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

/* A server that holds frames stops reading; nothing is lost when it continues. */
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
        rpc_frame_free(p->server.held[i]);
    }
    await(&p->server, &p->server.frames, n);
}

static int push_on(struct rpc_stream *st, size_t bytes) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_CONTROL | RPC_FRAME_ANSWER, bytes, &f, NULL));
    memset(f->payload, 0, bytes);
    return rpc_stream_send(st, f, NULL);
}

/* Gives the server's thread all the time that it wants: it answers another client, many times. */
static void let_it_read(struct pair *p) {
    struct side other;
    struct rpc_stream *st = NULL;
    side_init(&other, &client_ops);
    assert_int_equal(0, rpc_dial(other.rpc, &auth, p->endpoint, 60000, &st, NULL));
    for (unsigned i = 1; i <= 200; i++) {
        assert_int_equal(0, push_on(st, 0));
        await(&other, &other.frames, i);
    }
    rpc_stream_unref(st);
    assert_int_equal(0, rpc_close(other.rpc, NULL));
}

/* Frames of many peers take no more memory than those of one. */
static void streams_share_the_window(void **state) {
    enum { STREAMS = 8, EACH = 20, MIB = 1 << 20 };
    struct pair *p = *state;
    struct rpc_stream *all[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(0, rpc_dial(p->client.rpc, &p->auth, p->endpoint, 60000, &all[i], NULL));
    }
    await(&p->server, &p->server.opened, STREAMS + 1);
    lock(&p->server);
    p->server.hold = true;
    unlock(&p->server);
    for (int k = 0; k < EACH * STREAMS; k++) {
        assert_int_equal(0, push_on(all[k % STREAMS], MIB));
    }
    await(&p->server, &p->server.frames, 56); /* 9 streams: seven MiB are the share of each */
    let_it_read(p);
    lock(&p->server);
    p->server.hold = false;
    unsigned held = p->server.n_held;
    p->server.n_held = 0;
    unlock(&p->server);
    assert_in_range(held, 56, 9 * STREAMS);
    for (unsigned i = 0; i < held; i++) {
        rpc_frame_free(p->server.held[i]);
    }
    await(&p->server, &p->server.frames, EACH * STREAMS);
    for (int i = 0; i < STREAMS; i++) {
        rpc_stream_unref(all[i]);
    }
}

/* It asks for more than a server may queue for it, while its own thread is kept from reading.  The
 * server takes no more of its requests before it has taken some answers. */
static void a_peer_that_does_not_read_is_not_read(void **state) {
    enum { FRAMES = 300, MIB = 1 << 20 };
    struct pair *p = *state;
    lock(&p->client);
    for (unsigned i = 1; i <= FRAMES; i++) {
        struct rpc_frame *f = NULL;
        assert_int_equal(0, rpc_frame_new(RPC_FRAME_CONTROL | RPC_FRAME_ANSWER, 0, &f, NULL));
        f->head.seq = i;
        f->head.aux = MIB;
        assert_int_equal(0, rpc_stream_send(p->stream, f, NULL));
    }
    let_it_read(p);
    unlock(&p->client);
    await(&p->client, &p->client.frames, FRAMES);
    assert_int_equal(0, p->client.bad);
}

static void a_peer_that_closes_is_noticed(void **state) {
    struct pair *p = *state;
    assert_int_equal(0, push(p, 1, 10, NULL));
    await(&p->client, &p->client.frames, 1);
    rpc_stream_cancel(p->stream);
    await(&p->server, &p->server.closed, 1);
    assert_int_equal(CO_PEERLOST, p->server.close_code);
    await(&p->client, &p->client.closed, 1);
    struct co_err err = {0};
    assert_int_equal(CO_PEERLOST, push(p, 2, 10, &err));
    assert_non_null(strstr(err.msg, "127.0.0.1"));
}

static void an_endpoint_without_a_listener_is_named(void **state) {
    struct pair *p = *state;
    struct rpc_stream *s = NULL;
    struct co_err err = {0};
    assert_int_equal(CO_PEERLOST, rpc_dial(p->client.rpc, &p->auth, "127.0.0.1:1", 1000, &s, &err));
    assert_non_null(strstr(err.msg, "127.0.0.1:1"));
}

/* A connection that has proved the token. */
static int enter(const char *endpoint) {
    struct net_reached reached;
    assert_int_equal(1, net_connect(&endpoint, 1, 60000, &reached));
    struct rpc_pass pass = {RPC_FOR_STREAM, 0, 0, 0};
    struct net_dial d = rpc_prove(reached.fd, &auth, &pass, 60000);
    assert_int_equal(0, d.err.code);
    return d.fd;
}

/* One call of a client that compresses, which ours does not; *ret_status is how it ended. */
static grpc_status_code send_compressed(const char *endpoint, size_t bytes) {
    struct rpc_frame *f = NULL;
    assert_int_equal(0, rpc_frame_new(RPC_FRAME_CONTROL, bytes, &f, NULL));
    memset(f->payload, 0, bytes);
    rpc_frame_seal(f);
    grpc_slice slice =
        grpc_slice_from_copied_buffer((const char *)f->wire, RPC_FRAME_HEAD + f->head.bytes);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    rpc_frame_free(f);
    grpc_arg arg = {.type = GRPC_ARG_INTEGER,
        .key = (char *)(uintptr_t)GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM,
        .value.integer = GRPC_COMPRESS_GZIP};
    grpc_channel_args args = {1, &arg};
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create_from_fd(endpoint, enter(endpoint), creds, &args);
    grpc_completion_queue *cq = grpc_completion_queue_create_for_next(NULL);
    /* Far: it ends a test that would otherwise wait for ever. */
    gpr_timespec end =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(60000, GPR_TIMESPAN));
    grpc_call *call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq,
        grpc_slice_from_static_string("/paddlert.Ps/Stream"), NULL, end, NULL);
    grpc_metadata_array initial, trailing;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_status_code status = GRPC_STATUS_OK;
    grpc_slice details = grpc_empty_slice();
    grpc_op ops[] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
            .data.recv_initial_metadata.recv_initial_metadata = &initial},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
            .data.recv_status_on_client = {
                .trailing_metadata = &trailing, .status = &status, .status_details = &details}}};
    assert_int_equal(GRPC_CALL_OK, grpc_call_start_batch(call, ops, CO_ARRAY_LEN(ops), call, NULL));
    (void)grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_slice_unref(details);
    grpc_slice_unref(slice);
    grpc_byte_buffer_destroy(message);
    grpc_call_unref(call);
    grpc_channel_destroy(channel);
    grpc_channel_credentials_release(creds);
    grpc_completion_queue_shutdown(cq);
    (void)grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_completion_queue_destroy(cq);
    return status;
}

/* The limit of a message would count the bytes on the wire only. */
static void compressed_messages_are_refused(void **state) {
    struct pair *p = *state;
    assert_int_equal(GRPC_STATUS_UNIMPLEMENTED, send_compressed(p->endpoint, 1 << 20));
    lock(&p->server);
    assert_int_equal(0, p->server.frames);
    unlock(&p->server);
    assert_int_equal(0, push(p, 1, 10, NULL));
    await(&p->client, &p->client.frames, 1);
}

/* They hold descriptors; one with a stream may be silent (leases are not the rpc's business). */
static void connections_without_a_stream_are_closed(void **state) {
    struct pair *p = *state;
    assert_int_equal(0, push(p, 1, 10, NULL));
    await(&p->client, &p->client.frames, 1);
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const size_t sent[] = {0, sizeof(preface) - 1};
    for (size_t i = 0; i < CO_ARRAY_LEN(sent); i++) {
        int fd = enter(p->endpoint);
        assert_int_equal(sent[i], write(fd, preface, sent[i]));
        struct pollfd in = {.fd = fd, .events = POLLIN};
        char text[256];
        ssize_t n;
        do {
            assert_int_equal(1, poll(&in, 1, 60000));
            n = read(fd, text, sizeof(text));
        } while (n > 0);
        close(fd);
    }
    lock(&p->server);
    assert_int_equal(0, p->server.closed);
    unlock(&p->server);
    assert_int_equal(0, push(p, 2, 10, NULL));
    await(&p->client, &p->client.frames, 2);
}

/* What is said last still arrives when a side closes at once. */
static void the_last_words_arrive(void **state) {
    struct pair *p = *state;
    for (unsigned i = 1; i <= 20; i++) {
        assert_int_equal(0, push(p, i, 300000, NULL));
    }
    await(&p->server, &p->server.frames, 20);
    assert_int_equal(0, rpc_close(p->server.rpc, NULL));
    p->server.rpc = NULL;
    await(&p->client, &p->client.closed, 1);
    assert_int_equal(CO_PEERLOST, p->client.close_code);
    assert_non_null(strstr(p->client.why.msg, "the server is ending"));
}

/* What a server says before it ends a stream, its reason perhaps, comes before the end. */
static void no_frame_comes_after_the_close(void **state) {
    struct pair *p = *state;
    pthread_mutex_lock(&disorder.m);
    disorder.on = true;
    pthread_mutex_unlock(&disorder.m);
    assert_int_equal(0, push(p, 1, 10, NULL));
    await(&p->client, &p->client.closed, 1);
    await(&p->client, &p->client.frames, 1);
    pthread_mutex_lock(&disorder.m);
    disorder.on = false;
    bool closed = disorder.closed;
    pthread_mutex_unlock(&disorder.m);
    assert_true(closed);
    assert_int_equal(0, p->client.bad);
    assert_int_equal(1, p->client.closed);
}

/* Both sides close while somebody holds a stream, or frames of it: they say so, and continue.  What
 * is held stays valid. */
static void a_close_names_what_is_still_held(void **state) {
    struct pair *p = *state;
    struct co_err err = {0};
    p->server.hold = true;
    for (unsigned i = 1; i <= 70; i++) { /* so many that the server's stream is not read any more */
        assert_int_equal(0, push(p, i, 1 << 20, NULL));
    }
    await(&p->server, &p->server.frames, 64);
    assert_int_equal(CO_TIMEOUT, rpc_close(p->server.rpc, &err));
    p->server.rpc = NULL;
    assert_int_equal(1, p->server.closed);
    assert_non_null(strstr(err.msg, "still held after 0.001 s: 127.0.0.1:"));
    assert_int_equal(CO_TIMEOUT, rpc_close(p->client.rpc, &err));
    p->client.rpc = NULL;
    assert_int_equal(1, p->client.closed);
    assert_non_null(strstr(err.msg, p->endpoint));
    assert_non_null(strstr(err.msg, "(references: "));
    assert_int_equal(CO_PEERLOST, push(p, 71, 10, &err));
}

static void *leave_late(void *arg) {
    (void)poll(NULL, 0, 100);
    grpc_shutdown();
    return arg;
}

/* One of its own threads may be who frees the last channel. */
static void nothing_of_grpc_is_left_after_the_last_close(void **state) {
    assert_int_equal(0, setup(state));
    grpc_init();
    pthread_t late;
    assert_int_equal(0, pthread_create(&late, NULL, leave_late, NULL));
    assert_int_equal(0, teardown(state));
    assert_int_equal(0, grpc_is_initialized());
    pthread_join(late, NULL);
}

static int open_in_child(void) {
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static const struct rpc_ops none = {0};
        struct rpc *r = NULL;
        struct co_err err = {0};
        int rc = rpc_open(&none, NULL, NULL, &r, &err);
        bool named = rc == 0 || strstr(err.msg, "forked") != NULL;
        if (rc == 0) {
            rc = rpc_close(r, NULL);
        }
        _exit(named ? -rc : 100);
    }
    int status = 0;
    assert_int_equal(pid, waitpid(pid, &status, 0));
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -101;
}

/* It would wait for threads that it has not got. */
static void a_child_of_an_open_rpc_is_refused(void **state) {
    struct pair *p = *state;
    assert_int_equal(CO_UNSUPPORTED, open_in_child());
    rpc_stream_unref(p->stream);
    p->stream = NULL;
    assert_int_equal(0, rpc_close(p->client.rpc, NULL));
    p->client.rpc = NULL;
    assert_int_equal(CO_UNSUPPORTED, open_in_child());
    assert_int_equal(0, rpc_close(p->server.rpc, NULL));
    p->server.rpc = NULL;
    assert_int_equal(0, open_in_child());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_child_of_an_open_rpc_is_refused, setup, teardown),
        cmocka_unit_test(nothing_of_grpc_is_left_after_the_last_close),
        cmocka_unit_test_setup_teardown(frames_of_all_sizes_come_back_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_reader_bounds_what_is_in_flight, setup, teardown),
        cmocka_unit_test_setup_teardown(streams_share_the_window, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_does_not_read_is_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_closes_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(an_endpoint_without_a_listener_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(compressed_messages_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(
            connections_without_a_stream_are_closed, setup_quick_to_close, teardown),
        cmocka_unit_test_setup_teardown(the_last_words_arrive, setup, teardown),
        cmocka_unit_test_setup_teardown(no_frame_comes_after_the_close, setup_ending, teardown),
        cmocka_unit_test_setup_teardown(
            frames_of_all_sizes_come_back_in_order, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(
            a_slow_reader_bounds_what_is_in_flight, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_closes_is_noticed, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(the_last_words_arrive, setup_encrypted, teardown),
        cmocka_unit_test_setup_teardown(
            a_close_names_what_is_still_held, setup_impatient, teardown),
        cmocka_unit_test_setup_teardown(
            a_close_names_what_is_still_held, setup_impatient_encrypted, teardown),
    };
    return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
