/* gRPC's side of the wire: one completion queue with one thread, the server that accepts streams,
 * and the calls of clients.
 *
 * Connections reach gRPC only through the front door (runtime/net), after their peer has proved the
 * token (front.c). That thread calls all of rpc_ops; streams themselves are in stream.c. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/thread.h"
#include "common/word_list.h"
#include "runtime/train/rpc/pass.h"
#include "runtime/train/rpc/rpc_internal.h"

enum { PARTING_MS = 300, HELD_MS = 10000 };

static const char method[] = "/paddlert.Ps/Stream";

#if CO_TSAN
/* ThreadSanitizer does not see the atomics and locks of libraries that were built without it (gRPC,
 * absl, upb), so accesses inside them are ignored. Our side is marked by hand (rpc_internal.h) and
 * checked.  Threads of gRPC that nobody joins may still be ending when a child is forked, which
 * must then be free to start threads. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void) {
    return "ignore_noninstrumented_modules=1:die_after_fork=0";
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

/* After the end of its thread. */
static void end_rpc(struct rpc *r) {
    rpc_grpc_leave();
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

/* ---- the queue ---- */

static void *run_queue(void *arg) {
    struct rpc *r = arg;
    gpr_timespec tick = in_ms(r->tick_ms);
    for (;;) {
        grpc_event ev = grpc_completion_queue_next(r->cq, tick, NULL);
        if (ev.type == GRPC_QUEUE_SHUTDOWN) {
            rpc_front_report(r);
            return NULL;
        }
        if (ev.type == GRPC_OP_COMPLETE) {
            struct rpc_tag *tag = ev.tag;
            RPC_TAKE_OVER(tag);
            tag->fn(tag->arg, ev.success != 0);
        }
        if (gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), tick) >= 0) {
            rpc_front_report(r);
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
        rpc_front_peer(r, call, &peer);
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
    int rc = rpc_grpc_use(err);
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
        rpc_grpc_leave();
        return co_err_errno(err, rc, "cannot start the rpc thread");
    }
    return 0;
}

CO_DEFINE_CLEANUP(struct rpc *, free_rpc)

int rpc_open(const struct rpc_ops *ops, void *arg, const struct rpc_options *options,
    struct rpc **ret, struct co_err *err) {
    static const struct rpc_options none;
    const struct rpc_options *o = options ? options : &none;
    CO_CLEANUP(free_rpcp) struct rpc *r = co_xcalloc(1, sizeof(*r));
    r->ops = ops;
    r->arg = arg;
    r->tick_ms = o->tick_ms > 0 ? o->tick_ms : 100;
    r->max_streams = o->max_streams > 0 ? o->max_streams : 1024;
    r->idle_ms = o->idle_ms > 0 ? o->idle_ms : 10000;
    r->prove_ms = o->prove_ms;
    r->backlog = o->backlog > 0 ? o->backlog : RPC_STREAM_BACKLOG;
    r->window = o->window > 0 ? o->window : RPC_STREAM_WINDOW;
    r->held_ms = o->held_ms > 0 ? o->held_ms : HELD_MS;
    r->auth = (struct net_auth){&rpc_protocol, co_xstrdup(o->token ? o->token : ""), o->encrypt};
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
    return net_listener_open(fd_own, &r->auth, r->prove_ms, &rpc_front_ops, r, &r->listener, err);
}

int rpc_adopt(struct rpc *r, int fd_own, struct co_tls *tls_own, const char *endpoint, void *user,
    struct rpc_stream **ret_stream, struct co_err *err) {
    int fd = -1, rc = rpc_front_inner(r, fd_own, tls_own, &fd, err);
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
        rc = co_err_set(err, CO_INVALID, "\"%s\" is not an address", endpoint);
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
    for (struct rpc_call_stream *s = r->streams; s; s = *rpc_call_stream_next(s)) {
        const struct rpc_stream *base = (struct rpc_stream *)s;
        co_word_list_add(
            who, sizeof(who), "%s (references: %d)", base->peer, atomic_load(&base->refs));
    }
    return co_err_set(err, CO_TIMEOUT,
        "%zu connections are closed, but still held after %.3g s: %s", r->n_streams,
        (double)r->held_ms / 1000, who);
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
