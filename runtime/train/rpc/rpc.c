#include "runtime/train/rpc/internal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char method[] = "/paddlert.Ps/Stream";

#ifdef RT_TSAN
/* ThreadSanitizer does not see the atomics and locks of libraries built without it (gRPC, absl,
 * upb): what happens inside them is not judged.  Our side of the doors is marked (internal.h)
 * and checked. */
const char *__tsan_default_options(void);

const char *__tsan_default_options(void) {
    return "ignore_noninstrumented_modules=1";
}
#endif

static gpr_timespec in_ms(int ms) {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

void rt_rpc_link(struct rt_rpc *r, struct rt_stream *s) {
    pthread_mutex_lock(&r->m);
    *rt_stream_next(s) = r->streams;
    if (r->streams) {
        *rt_stream_prev(r->streams) = s;
    }
    r->streams = s;
    r->n_streams++;
    pthread_mutex_unlock(&r->m);
}

void rt_rpc_unlink(struct rt_rpc *r, struct rt_stream *s) {
    pthread_mutex_lock(&r->m);
    struct rt_stream *next = *rt_stream_next(s), *prev = *rt_stream_prev(s);
    if (prev) {
        *rt_stream_next(prev) = next;
    } else {
        r->streams = next;
    }
    if (next) {
        *rt_stream_prev(next) = prev;
    }
    r->n_streams--;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->m);
}

static void *run_queue(void *arg) {
    struct rt_rpc *r = arg;
    gpr_timespec tick = in_ms(r->tick_ms);
    for (;;) {
        grpc_event ev = grpc_completion_queue_next(r->cq, tick, NULL);
        if (ev.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        if (ev.type == GRPC_OP_COMPLETE) {
            struct rt_tag *tag = ev.tag;
            RT_TAKE_OVER(tag);
            tag->fn(tag->arg, ev.success != 0);
        }
        if (gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), tick) >= 0) {
            if (r->ops->on_tick) {
                r->ops->on_tick(r->arg);
            }
            tick = in_ms(r->tick_ms);
        }
    }
}

static void request_call(struct rt_rpc *r) {
    r->accept_call = NULL;
    RT_HAND_OVER(&r->accept_tag);
    /* Fails only when the server is shutting down. */
    (void)grpc_server_request_call(r->server, &r->accept_call, &r->accept_details,
        &r->accept_metadata, r->cq, r->cq, &r->accept_tag);
}

static void on_accept(void *arg, bool ok) {
    struct rt_rpc *r = arg;
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
        char *peer = grpc_call_get_peer(call);
        struct rt_stream *s = rt_stream_new(r, call, NULL, peer);
        gpr_free(peer);
        r->ops->on_open(r->arg, s);
        rt_stream_start(s);
    }
    request_call(r);
}

static void on_down(void *arg, bool ok) {
    (void)ok;
    struct rt_rpc *r = arg;
    pthread_mutex_lock(&r->m);
    r->server_down = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->m);
}

static void no_log(gpr_log_func_args *args) {
    (void)args;
}

/* What gRPC prints by itself says less than our errors do; GRPC_VERBOSITY brings it back. */
static void silence_grpc(void) {
    if (!getenv("GRPC_VERBOSITY")) {
        gpr_set_log_function(no_log);
    }
}

/* gRPC makes its threads in grpc_init and later from ours: signals are for the program. */
static void block_signals(sigset_t *old) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, old);
}

int rt_rpc_open(const struct rt_rpc_ops *ops, void *arg, const struct rt_rpc_options *options,
    struct rt_rpc **ret, struct co_err *err) {
    struct rt_rpc *r = co_xcalloc(1, sizeof(*r));
    r->ops = ops;
    r->arg = arg;
    r->tick_ms = options && options->tick_ms > 0 ? options->tick_ms : 100;
    r->max_streams = options && options->max_streams > 0 ? options->max_streams : 1024;
    r->idle_ms = options && options->idle_ms > 0 ? options->idle_ms : 10000;
    r->accept_tag = (struct rt_tag){on_accept, r};
    r->down_tag = (struct rt_tag){on_down, r};
    pthread_mutex_init(&r->m, NULL);
    pthread_cond_init(&r->changed, NULL);
    sigset_t old;
    block_signals(&old);
    silence_grpc();
    grpc_init();
    r->cq = grpc_completion_queue_create_for_next(NULL);
    int rc = pthread_create(&r->thread, NULL, run_queue, r);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        grpc_completion_queue_shutdown(r->cq);
        grpc_completion_queue_destroy(r->cq);
        grpc_shutdown();
        free(r);
        return co_err_errno(err, rc, "cannot start the rpc thread");
    }
    *ret = r;
    return 0;
}

#define INT_ARG(k, v)                                                                              \
    { .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)(k), .value.integer = (v) }

/* The limit of a message counts what is on the wire: a compressed one could be a thousand times as
 * large in memory.  The bit set of algorithms holds GRPC_COMPRESS_NONE alone. */
#define NO_COMPRESSION                                                                             \
    INT_ARG(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE)

int rt_rpc_listen(struct rt_rpc *r, const char *addr, uint16_t *ret_port, struct co_err *err) {
    /* No reuse of the port: two servers on one address must not share trainers silently. */
    grpc_arg args[] = {
        INT_ARG(GRPC_ARG_ALLOW_REUSEPORT, 0),
        INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RT_MESSAGE_MAX),
        INT_ARG(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16),
        NO_COMPRESSION,
        INT_ARG(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, r->idle_ms),
        INT_ARG(GRPC_ARG_MAX_CONNECTION_IDLE_MS, r->idle_ms),
    };
    grpc_channel_args channel_args = {CO_ARRAY_LEN(args), args};
    sigset_t old;
    block_signals(&old);
    r->server = grpc_server_create(&channel_args, NULL);
    grpc_server_register_completion_queue(r->server, r->cq, NULL);
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(r->server, addr, creds);
    grpc_server_credentials_release(creds);
    grpc_server_start(r->server);
    grpc_call_details_init(&r->accept_details);
    grpc_metadata_array_init(&r->accept_metadata);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (port <= 0) {
        return co_err_set(err, CO_UNAVAILABLE,
            "cannot listen on %s: the address is in use or not of this machine", addr);
    }
    request_call(r);
    *ret_port = (uint16_t)port;
    return 0;
}

int rt_rpc_dial(struct rt_rpc *r, const char *endpoint, void *user, struct rt_stream **ret_stream,
    struct co_err *err) {
    /* Own connections (no sharing between clients of a process), no proxies, quick retries. */
    grpc_arg args[] = {
        INT_ARG(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        INT_ARG(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RT_MESSAGE_MAX),
        INT_ARG(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        INT_ARG(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
        INT_ARG(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500),
        INT_ARG(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        INT_ARG(GRPC_ARG_ENABLE_RETRIES, 0),
        NO_COMPRESSION,
    };
    grpc_channel_args channel_args = {CO_ARRAY_LEN(args), args};
    sigset_t old;
    block_signals(&old);
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(endpoint, creds, &channel_args);
    grpc_channel_credentials_release(creds);
    grpc_call *call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, r->cq,
        grpc_slice_from_static_string(method), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    int rc = 0;
    if (call) {
        struct rt_stream *s = rt_stream_new(r, call, channel, endpoint);
        rt_stream_set_user(s, user);
        *ret_stream = rt_stream_ref(s);
        rt_stream_start(s);
    } else {
        grpc_channel_destroy(channel);
        rc = co_err_set(err, CO_INVALID, "'%s' is no address", endpoint);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

static void cancel_all(struct rt_rpc *r) {
    pthread_mutex_lock(&r->m);
    r->closing = true;
    size_t n = 0;
    struct rt_stream **all = co_xcalloc(r->n_streams, sizeof(struct rt_stream *));
    for (struct rt_stream *s = r->streams; s; s = *rt_stream_next(s)) {
        if (rt_stream_try_ref(s)) {
            all[n++] = s;
        }
    }
    pthread_mutex_unlock(&r->m);
    for (size_t i = 0; i < n; i++) {
        rt_stream_cancel(all[i]);
        rt_stream_unref(all[i]);
    }
    free(all);
}

/* The order gRPC asks for: notify, cancel, wait for the tag, queue shutdown, drain, destroy. */
void rt_rpc_close(struct rt_rpc *r) {
    if (!r) {
        return;
    }
    if (r->server) {
        grpc_server_shutdown_and_notify(r->server, r->cq, &r->down_tag);
        grpc_server_cancel_all_calls(r->server);
    }
    cancel_all(r);
    pthread_mutex_lock(&r->m);
    while (r->n_streams > 0 || (r->server && !r->server_down)) {
        pthread_cond_wait(&r->changed, &r->m);
    }
    pthread_mutex_unlock(&r->m);
    grpc_completion_queue_shutdown(r->cq);
    pthread_join(r->thread, NULL);
    grpc_completion_queue_destroy(r->cq);
    if (r->server) {
        grpc_server_destroy(r->server);
        grpc_metadata_array_destroy(&r->accept_metadata);
    }
    grpc_shutdown();
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->m);
    free(r);
}
