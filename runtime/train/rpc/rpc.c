/* gRPC's side of the wire: one completion queue with one thread, the server that accepts streams,
 * and the client that dials them.
 *
 * Connections reach gRPC only through the front door (runtime/net), after their peer has proved the
 * token. That thread calls all of rpc_ops; streams themselves are in stream.c. */
#include "runtime/train/rpc/rpc_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fork.h"
#include "common/thread.h"
#include "runtime/train/rpc/pass.h"

enum { PARTING_MS = 300, HELD_MS = 10000 };

static const char method[] = "/paddlert.Ps/Stream";

#ifdef RPC_TSAN
/* ThreadSanitizer does not see the atomics and locks of libraries that were built without it (gRPC,
 * absl, upb), so accesses inside them are ignored. Our side is marked by hand (rpc_internal.h) and
 * checked. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void) {
    return "ignore_noninstrumented_modules=1";
}
#endif

static void free_rpc(struct rpc *r) {
    rpc_relay_close(r->relay);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->m);
    free(r->peers);
    free((char *)(uintptr_t)r->auth.token);
    free(r);
}

/* ---- gRPC as a whole ---- */

/* A forked child has none of gRPC's threads, and its calls would wait for them.  Once nothing uses
 * gRPC any more it has no threads either, and a child begins with its own. */
static struct {
    pthread_mutex_t m;
    size_t n; /* that use it */
    struct co_fork fork;
    atomic_bool inherited; /* this process is a child that was forked while n > 0 */
} users = {.m = PTHREAD_MUTEX_INITIALIZER};

static void in_child(struct co_fork *f) {
    (void)f;
    atomic_store(&users.inherited, true);
}

static int use_grpc(struct co_err *err) {
    if (atomic_load(&users.inherited)) {
        return co_err_set(err, CO_UNSUPPORTED,
            "this process was forked from one that had a client or a server open, and gRPC does "
            "not "
            "work in it: fork before that, or start it as a new program (Python: multiprocessing's "
            "\"spawn\")");
    }
    pthread_mutex_lock(&users.m);
    if (users.n++ == 0) {
        co_fork_watch(&users.fork, in_child);
    }
    pthread_mutex_unlock(&users.m);
    grpc_init();
    return 0;
}

static void leave_grpc(void) {
    grpc_shutdown();
    pthread_mutex_lock(&users.m);
    if (--users.n == 0) {
        co_fork_unwatch(&users.fork);
    }
    pthread_mutex_unlock(&users.m);
}

/* After the end of its thread. */
static void end_rpc(struct rpc *r) {
    leave_grpc();
    free_rpc(r);
}

static gpr_timespec in_ms(int ms) {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

void rpc_link(struct rpc *r, struct rpc_call_stream *s) {
    pthread_mutex_lock(&r->m);
    *rpc_call_stream_next(s) = r->streams;
    if (r->streams) {
        *rpc_call_stream_prev(r->streams) = s;
    }
    r->streams = s;
    r->n_streams++;
    r->n_open++;
    pthread_mutex_unlock(&r->m);
}

void rpc_closed(struct rpc *r) {
    pthread_mutex_lock(&r->m);
    r->n_open--;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->m);
}

void rpc_unlink(struct rpc *r, struct rpc_call_stream *s) {
    pthread_mutex_lock(&r->m);
    struct rpc_call_stream *next = *rpc_call_stream_next(s), *prev = *rpc_call_stream_prev(s);
    if (prev) {
        *rpc_call_stream_next(prev) = next;
    } else {
        r->streams = next;
    }
    if (next) {
        *rpc_call_stream_prev(next) = prev;
    }
    r->n_streams--;
    bool last = r->orphan && r->n_streams == 0;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->m);
    if (last) {
        end_rpc(r);
    }
}

/* ---- connections that the front door lets in or refuses ---- */

static void on_refuse(
    void *arg, const struct net_peer *from, enum net_refusal refusal, const struct co_err *why) {
    struct rpc *r = arg;
    (void)refusal;
    pthread_mutex_lock(&r->m);
    r->refused.n++;
    (void)snprintf(r->refused.peer, sizeof(r->refused.peer), "%s", from->text);
    r->refused.why = *why;
    pthread_mutex_unlock(&r->m);
}

/* A lane that the server does not take gets an error frame with the reason, then it is closed. */
static void enter_lane(struct rpc *r, int fd_own, struct co_tls *tls_own,
    const struct net_peer *from, const struct rpc_pass *pass) {
    struct rpc_lane *l = rpc_lane_new(fd_own, tls_own, from->text);
    struct co_err why = {0};
    co_err_set(&why, CO_INVALID, "there are no data lanes here");
    if (!r->ops->on_lane || r->ops->on_lane(r->arg, l, pass, &why) < 0) {
        size_t left = 0;
        (void)!rpc_stream_send(
            rpc_lane_stream(l), rpc_frame_error(NULL, why.code, co_err_text(&why)), NULL);
        (void)!rpc_lane_flush(l, &left, NULL);
        on_refuse(r, from, NET_REFUSAL_OWN, &why);
    }
    rpc_stream_unref(rpc_lane_stream(l));
}

/* The descriptor that gRPC reads: the connection itself or, with TLS, the near end of a relay. */
static int open_inner(
    struct rpc *r, int fd_own, struct co_tls *tls_own, int *ret_fd, struct co_err *err) {
    if (tls_own) {
        return rpc_relay_add(r->relay, fd_own, tls_own, ret_fd, err);
    }
    *ret_fd = fd_own;
    return 0;
}

static void enter_stream(
    struct rpc *r, int fd_own, struct co_tls *tls_own, const struct net_peer *from) {
    int fd = -1;
    struct co_err why = {0};
    if (open_inner(r, fd_own, tls_own, &fd, &why) < 0) {
        on_refuse(r, from, NET_REFUSAL_OWN, &why);
        return;
    }
    /* gRPC names such a connection "fd:12" only; name_peer() finds the address by that number. */
    size_t at = (size_t)fd;
    pthread_mutex_lock(&r->m);
    if (at >= r->n_peers) {
        size_t n = at + at / 2 + 16;
        r->peers = co_xrealloc(r->peers, n, sizeof(r->peers[0]));
        memset(r->peers + r->n_peers, 0, (n - r->n_peers) * sizeof(r->peers[0]));
        r->n_peers = n;
    }
    r->peers[at] = *from;
    pthread_mutex_unlock(&r->m);
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(r->server, fd, creds);
    grpc_server_credentials_release(creds);
}

static enum net_refusal on_look(void *arg, const struct net_pending *p, bool proved,
    unsigned char ret_answer[NET_CALLER_BYTES]) { /* NOLINT(readability-non-const-parameter) */
    struct rpc_pass pass;
    (void)arg;
    (void)proved;
    (void)ret_answer; /* who listens here follows from the address */
    return rpc_pass_read(net_caller_bytes(p->shake.hello), &pass);
}

static void on_enter(void *arg, int fd_own, struct co_tls *tls_own, const struct net_peer *from,
    const unsigned char caller[NET_CALLER_BYTES]) {
    struct rpc *r = arg;
    struct rpc_pass pass;
    (void)rpc_pass_read(caller, &pass); /* on_look has accepted it */
    if (pass.purpose == RPC_FOR_LANE) {
        enter_lane(r, fd_own, tls_own, from, &pass);
    } else {
        enter_stream(r, fd_own, tls_own, from);
    }
}

static const struct net_acceptor_ops acceptor_ops = {on_look, on_enter, on_refuse};

static void log_refused(struct rpc *r) {
    char peer[64];
    pthread_mutex_lock(&r->m);
    size_t n = r->refused.n;
    struct co_err why = r->refused.why;
    memcpy(peer, r->refused.peer, sizeof(peer));
    r->refused.n = 0;
    pthread_mutex_unlock(&r->m);
    if (n > 0 && r->ops->on_refused) {
        r->ops->on_refused(r->arg, n, peer, &why);
    }
}

/* "fd:12" -> "10.0.0.7:41234". */
static void name_peer(struct rpc *r, grpc_call *call, struct net_peer *ret) {
    char *text = grpc_call_get_peer(call);
    size_t at = strncmp(text, "fd:", 3) == 0 ? (size_t)strtoul(text + 3, NULL, 10) : SIZE_MAX;
    pthread_mutex_lock(&r->m);
    *ret = at < r->n_peers ? r->peers[at] : (struct net_peer){.text = "a connection"};
    pthread_mutex_unlock(&r->m);
    gpr_free(text);
}

/* ---- the queue ---- */

static void *run_queue(void *arg) {
    struct rpc *r = arg;
    gpr_timespec tick = in_ms(r->tick_ms);
    for (;;) {
        grpc_event ev = grpc_completion_queue_next(r->cq, tick, NULL);
        if (ev.type == GRPC_QUEUE_SHUTDOWN) {
            log_refused(r);
            return NULL;
        }
        if (ev.type == GRPC_OP_COMPLETE) {
            struct rpc_tag *tag = ev.tag;
            RPC_TAKE_OVER(tag);
            tag->fn(tag->arg, ev.success != 0);
        }
        if (gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), tick) >= 0) {
            log_refused(r);
            if (r->ops->on_tick) {
                r->ops->on_tick(r->arg);
            }
            tick = in_ms(r->tick_ms);
        }
    }
}

static void request_call(struct rpc *r) {
    r->accept_call = NULL;
    RPC_HAND_OVER(&r->accept_tag);
    /* Fails only when the server is shutting down. */
    (void)grpc_server_request_call(r->server, &r->accept_call, &r->accept_details,
        &r->accept_metadata, r->cq, r->cq, &r->accept_tag);
}

static void on_accept(void *arg, bool ok) {
    struct rpc *r = arg;
    if (!ok) {
        return; /* shutting down */
    }
    grpc_call *call = r->accept_call;
    pthread_mutex_lock(&r->m);
    bool refuse = r->closing || r->n_streams >= r->max_streams;
    pthread_mutex_unlock(&r->m);
    if (grpc_slice_str_cmp(r->accept_details.method, method) != 0) {
        refuse = true;
    }
    grpc_slice_unref(r->accept_details.method);
    grpc_slice_unref(r->accept_details.host);
    if (refuse) {
        grpc_call_cancel(call, NULL);
        grpc_call_unref(call);
    } else {
        struct net_peer peer;
        name_peer(r, call, &peer);
        struct rpc_call_stream *s = rpc_call_stream_new(r, call, NULL, peer.text);
        r->ops->on_open(r->arg, (struct rpc_stream *)s);
        rpc_call_stream_start(s);
    }
    request_call(r);
}

static void on_down(void *arg, bool ok) {
    (void)ok;
    struct rpc *r = arg;
    pthread_mutex_lock(&r->m);
    r->server_down = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->m);
}

static void no_log(gpr_log_func_args *args) {
    (void)args;
}

/* gRPC's own log lines repeat our errors with less detail. GRPC_VERBOSITY brings them back. */
static void silence_grpc(void) {
    if (!getenv("GRPC_VERBOSITY")) {
        gpr_set_log_function(no_log);
    }
}

/* gRPC starts threads in grpc_init and later from our calls. They inherit this mask, so that
 * signals are delivered to the program's own threads. */
static void block_signals(sigset_t *old) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, old);
}

static int start_queue(struct rpc *r, struct co_err *err) {
    sigset_t old;
    block_signals(&old);
    silence_grpc();
    int rc = use_grpc(err);
    if (rc < 0) {
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        return rc;
    }
    r->cq = grpc_completion_queue_create_for_next(NULL);
    rc = pthread_create(&r->thread, NULL, run_queue, r);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        grpc_completion_queue_shutdown(r->cq);
        grpc_completion_queue_destroy(r->cq);
        leave_grpc();
        return co_err_errno(err, rc, "cannot start the rpc thread");
    }
    return 0;
}

CO_DEFINE_CLEANUP(struct rpc *, free_rpc)

int rpc_open(const struct rpc_ops *ops, void *arg, const struct rpc_options *options,
    struct rpc **ret, struct co_err *err) {
    CO_CLEANUP(free_rpcp) struct rpc *r = co_xcalloc(1, sizeof(*r));
    r->ops = ops;
    r->arg = arg;
    r->tick_ms = options && options->tick_ms > 0 ? options->tick_ms : 100;
    r->max_streams = options && options->max_streams > 0 ? options->max_streams : 1024;
    r->idle_ms = options && options->idle_ms > 0 ? options->idle_ms : 10000;
    r->prove_ms = options ? options->prove_ms : 0;
    r->backlog = options && options->backlog > 0 ? options->backlog : RPC_STREAM_BACKLOG;
    r->window = options && options->window > 0 ? options->window : RPC_STREAM_WINDOW;
    r->held_ms = options && options->held_ms > 0 ? options->held_ms : HELD_MS;
    r->auth = (struct net_auth){&rpc_protocol,
        co_xstrdup(options && options->token ? options->token : ""), options && options->encrypt};
    r->accept_tag = (struct rpc_tag){on_accept, r};
    r->down_tag = (struct rpc_tag){on_down, r};
    pthread_mutex_init(&r->m, NULL);
    co_cond_init(&r->changed);
    if (r->auth.encrypt) {
        CO_TRY(rpc_relay_open(&r->relay, err));
    }
    CO_TRY(start_queue(r, err));
    *ret = co_steal_ptr(r);
    return 0;
}

#define INT_ARG(k, v)                                                                              \
    { .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)(k), .value.integer = (v) }

/* gRPC's message limit counts bytes on the wire. A compressed message could be a thousand times as
 * large in memory, so no algorithm but GRPC_COMPRESS_NONE is allowed. */
#define NO_COMPRESSION                                                                             \
    INT_ARG(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE)

static void start_server(struct rpc *r) {
    grpc_arg args[] = {
        INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RPC_MESSAGE_MAX),
        INT_ARG(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16),
        NO_COMPRESSION,
        INT_ARG(GRPC_ARG_MAX_CONNECTION_IDLE_MS, r->idle_ms),
        /* By its own estimate gRPC would read megabytes ahead of us on each stream. */
        INT_ARG(GRPC_ARG_HTTP2_BDP_PROBE, 0),
        INT_ARG(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, RPC_STREAM_AHEAD),
    };
    grpc_channel_args channel_args = {CO_ARRAY_LEN(args), args};
    sigset_t old;
    block_signals(&old);
    r->server = grpc_server_create(&channel_args, NULL);
    grpc_server_register_completion_queue(r->server, r->cq, NULL);
    grpc_server_start(r->server);
    grpc_call_details_init(&r->accept_details);
    grpc_metadata_array_init(&r->accept_metadata);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    request_call(r);
}

int rpc_accept(struct rpc *r, int fd_own, struct co_err *err) {
    start_server(r);
    return net_listener_open(fd_own, &r->auth, r->prove_ms, &acceptor_ops, r, &r->listener, err);
}

int rpc_adopt(struct rpc *r, int fd_own, struct co_tls *tls_own, const char *endpoint, void *user,
    struct rpc_stream **ret_stream, struct co_err *err) {
    int fd = -1, rc = open_inner(r, fd_own, tls_own, &fd, err);
    if (rc < 0) {
        return rc;
    }
    grpc_arg args[] = {
        INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RPC_MESSAGE_MAX),
        INT_ARG(GRPC_ARG_ENABLE_RETRIES, 0),
        NO_COMPRESSION,
    };
    grpc_channel_args channel_args = {CO_ARRAY_LEN(args), args};
    sigset_t old;
    block_signals(&old);
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create_from_fd(endpoint, fd, creds, &channel_args);
    grpc_channel_credentials_release(creds);
    grpc_call *call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, r->cq,
        grpc_slice_from_static_string(method), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    if (call) {
        struct rpc_call_stream *s = rpc_call_stream_new(r, call, channel, endpoint);
        *ret_stream = rpc_stream_ref((struct rpc_stream *)s);
        rpc_stream_set_user(*ret_stream, user);
        rpc_call_stream_start(s);
    } else {
        grpc_channel_destroy(channel);
        rc = co_err_set(err, CO_INVALID, "'%s' is not an address", endpoint);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

static void break_all(struct rpc *r) {
    struct co_err why = {0};
    co_err_set(&why, CO_CANCELED, "%s", r->server ? "the server is ending" : "closed here");
    pthread_mutex_lock(&r->m);
    r->closing = true;
    size_t n = 0;
    struct rpc_stream **all = co_xcalloc(r->n_streams, sizeof(struct rpc_stream *));
    for (struct rpc_call_stream *s = r->streams; s; s = *rpc_call_stream_next(s)) {
        if (rpc_stream_try_ref((struct rpc_stream *)s)) {
            all[n++] = (struct rpc_stream *)s;
        }
    }
    pthread_mutex_unlock(&r->m);
    for (size_t i = 0; i < n; i++) {
        rpc_stream_break(all[i], &why);
        rpc_stream_unref(all[i]);
    }
    free(all);
}

/* Until peers have closed their connections, which they do when they have read why, or for
 * PARTING_MS. Cancelling all calls closes the sockets under peers that are still writing: those see
 * a broken pipe and never read the reason. The caller holds the lock. */
static void await_parting(struct rpc *r) {
    int64_t end = co_now_ms() + PARTING_MS;
    bool in_time = true;
    while (!r->server_down && in_time) {
        in_time = co_cond_wait_until(&r->changed, &r->m, end);
    }
}

/* Names the peers of the streams that somebody holds. The caller holds the lock. */
static int say_held(const struct rpc *r, struct co_err *err) {
    char who[256] = "";
    size_t at = 0;
    for (struct rpc_call_stream *s = r->streams; s && at + 160 < sizeof(who);
         s = *rpc_call_stream_next(s)) {
        const struct rpc_stream *base = (struct rpc_stream *)s;
        at += (size_t)snprintf(who + at, sizeof(who) - at, "%s%s (references: %d)", at ? ", " : "",
            base->peer, atomic_load(&base->refs));
    }
    return co_err_set(err, CO_TIMEOUT,
        "%zu connections are closed, but still held after %.3g s: %s%s", r->n_streams,
        (double)r->held_ms / 1000, who, at + 160 < sizeof(who) ? "" : ", ...");
}

/* Waits for on_close of all streams, then for their holders. */
static int await_streams(struct rpc *r, struct co_err *err) {
    pthread_mutex_lock(&r->m);
    while (r->n_open > 0 || (r->server && !r->server_down)) {
        /* no deadline: gRPC ends a cancelled call by itself, whatever its peer or a holder does */
        pthread_cond_wait(&r->changed, &r->m);
    }
    int64_t end = co_now_ms() + r->held_ms;
    bool in_time = true;
    while (r->n_streams > 0 && in_time) {
        in_time = co_cond_wait_until(&r->changed, &r->m, end);
    }
    int rc = r->n_streams > 0 ? say_held(r, err) : 0;
    pthread_mutex_unlock(&r->m);
    return rc;
}

/* Frees r, or leaves that to the last holder of a stream. */
static void disown(struct rpc *r) {
    pthread_mutex_lock(&r->m);
    bool held = r->orphan = r->n_streams > 0;
    pthread_mutex_unlock(&r->m);
    if (!held) {
        end_rpc(r);
    }
}

/* The order gRPC asks for: notify, cancel, wait for the tag, queue shutdown, drain, destroy. */
int rpc_close(struct rpc *r, struct co_err *err) {
    if (!r) {
        return 0;
    }
    net_listener_close(r->listener);
    break_all(r); /* before gRPC cancels all calls, so that peers read the real reason */
    if (r->server) {
        grpc_server_shutdown_and_notify(r->server, r->cq, &r->down_tag);
        pthread_mutex_lock(&r->m);
        await_parting(r);
        pthread_mutex_unlock(&r->m);
        grpc_server_cancel_all_calls(r->server);
    }
    int rc = await_streams(r, err);
    grpc_completion_queue_shutdown(r->cq);
    pthread_join(r->thread, NULL); /* no deadline: the queue is shut down, and no callback blocks */
    grpc_completion_queue_destroy(r->cq);
    if (r->server) {
        grpc_server_destroy(r->server);
        grpc_metadata_array_destroy(&r->accept_metadata);
    }
    rpc_relay_close(co_steal_ptr(r->relay)); /* sends what gRPC has written so far */
    disown(r);
    return rc;
}
