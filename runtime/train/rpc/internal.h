/* Shared by rpc.c (the completion queue and its thread) and stream.c (one call). No other file may
 * include it, because it shows gRPC's types. */
#pragma once

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/net/net.h"
#include "runtime/train/rpc/front.h"
#include "runtime/train/rpc/relay.h"
#include "runtime/train/rpc/rpc.h"
#include "runtime/train/rpc/wire.h"

/* gRPC passes work between threads by atomics that ThreadSanitizer does not see, because the
 * library is built without it. So we mark what enters gRPC and what comes out of it. */
#if defined(__SANITIZE_THREAD__)
#define RT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RT_TSAN 1
#endif
#endif
#ifdef RT_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define RT_HAND_OVER(p) __tsan_release(p)
#define RT_TAKE_OVER(p) __tsan_acquire(p)
#else
#define RT_HAND_OVER(p) ((void)(p))
#define RT_TAKE_OVER(p) ((void)(p))
#endif

/* A tag of the completion queue. */
struct rt_tag {
    void (*fn)(void *arg, bool ok);
    void *arg;
};

struct rt_rpc {
    const struct rt_rpc_ops *ops;
    void *arg;
    int tick_ms;
    size_t max_streams;
    int idle_ms, prove_ms;
    size_t backlog, window;
    int held_ms;
    struct rt_peer_auth auth; /* the token is owned */
    struct rt_relay *relay;   /* NULL: the job does not encrypt */
    grpc_completion_queue *cq;
    grpc_server *server; /* NULL: only dials */
    struct rt_front *front;
    pthread_t thread;

    pthread_mutex_t m; /* guards what follows */
    pthread_cond_t changed;
    bool closing;
    bool server_down;
    struct rt_call_stream *streams; /* doubly linked */
    atomic_size_t n_streams;        /* changed under m */
    size_t n_open;                  /* streams whose on_close has not returned yet */
    bool orphan;                    /* closed: the last stream that is freed frees this, too */
    /* Addresses by descriptor: gRPC names the peer of an adopted connection only "fd:12". Owned. */
    struct net_peer *peers;
    size_t n_peers;
    struct {
        size_t n;
        char peer[64];
        struct co_err why;
    } refused; /* since the last on_refused: how many, and the last one */

    /* The accept in progress. Used by the rpc's thread, and by rt_rpc_listen before that runs. */
    struct rt_tag accept_tag, down_tag;
    grpc_call *accept_call;
    grpc_call_details accept_details;
    grpc_metadata_array accept_metadata;
};

enum {
    RT_STREAM_WINDOW = 64 << 20,    /* bytes delivered, not yet freed; an option can change it */
    RT_STREAM_SHARE = 256 << 10,    /* what every accepted stream may have of it, however many */
    RT_STREAM_BACKLOG = 256 << 20,  /* bytes queued to the peer; an option can change it */
    RT_STREAM_AHEAD = 512 << 10,    /* of an accepted stream, that gRPC reads before we do */
    RT_STREAM_COALESCE = 256 << 10, /* small frames share a message up to here */
    RT_STREAM_COALESCE_N = 32,
};

/* A stream that is a gRPC call. */
struct rt_call_stream;
/* Wraps a call and links it. Runs on the rpc's thread or in rt_rpc_dial. The first member is the
 * struct rt_stream. */
struct rt_call_stream *rt_call_stream_new(
    struct rt_rpc *r, grpc_call *call, grpc_channel *channel_own, const char *peer);
/* Starts the batches of a new stream. */
void rt_call_stream_start(struct rt_call_stream *s);

void rt_rpc_link(struct rt_rpc *r, struct rt_call_stream *s);
void rt_rpc_closed(struct rt_rpc *r); /* on_close has returned */
void rt_rpc_unlink(struct rt_rpc *r, struct rt_call_stream *s);
struct rt_call_stream **rt_call_stream_next(struct rt_call_stream *s);
struct rt_call_stream **rt_call_stream_prev(struct rt_call_stream *s);
