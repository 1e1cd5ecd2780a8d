/* Shared by rpc.c (the completion queue and its thread), stream.c (one call), front.c (connections
 * that come in) and grpc_users.c. No other file may include it, because it shows gRPC's types. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include "common/tsan.h"
#include "runtime/net/acceptor.h"
#include "runtime/train/rpc/relay.h"
#include "runtime/train/rpc/rpc.h"
#include "runtime/train/rpc/wire.h"

/* gRPC passes work between threads by atomics that ThreadSanitizer does not see, because the
 * library is built without it. So we mark what enters gRPC and what comes out of it. */
#if CO_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define RPC_HAND_OVER(p) __tsan_release(p)
#define RPC_TAKE_OVER(p) __tsan_acquire(p)
#else
#define RPC_HAND_OVER(p) ((void)(p))
#define RPC_TAKE_OVER(p) ((void)(p))
#endif

/* A tag of the completion queue. */
struct rpc_tag {
    void (*fn)(void *arg, bool ok);
    void *arg;
};

struct rpc {
    const struct rpc_ops *ops;
    void *arg;
    int tick_ms;
    size_t max_streams;
    int idle_ms, prove_ms;
    size_t backlog, window;
    int held_ms;
    struct net_auth auth;    /* the token is owned */
    struct rpc_relay *relay; /* NULL: the job does not encrypt */
    grpc_completion_queue *cq;
    grpc_server *server; /* NULL: only adopts */
    struct net_listener *listener;
    pthread_t thread;

    pthread_mutex_t m; /* guards what follows */
    pthread_cond_t changed;
    bool closing;
    bool server_down;
    struct rpc_call_stream *streams; /* doubly linked */
    atomic_size_t n_streams;         /* changed under m */
    size_t n_open;                   /* streams whose on_close has not returned yet */
    bool orphan;                     /* closed: the last stream that is freed frees this, too */
    /* Addresses by descriptor: gRPC names the peer of an adopted connection only "fd:12". Owned. */
    struct net_peer *peers;
    size_t n_peers;
    struct {
        size_t n;
        char peer[64];
        struct co_err why;
    } refused; /* since the last on_refused: how many, and the last one */

    /* The accept in progress. Used by the rpc's thread, and by rpc_accept before that runs. */
    struct rpc_tag accept_tag, down_tag;
    grpc_call *accept_call;
    grpc_call_details accept_details;
    grpc_metadata_array accept_metadata;
};

enum {
    RPC_STREAM_WINDOW = 64 << 20,    /* bytes delivered, not yet freed; an option can change it */
    RPC_STREAM_SHARE = 256 << 10,    /* what every accepted stream may have of it, however many */
    RPC_STREAM_BACKLOG = 256 << 20,  /* bytes queued to the peer; an option can change it */
    RPC_STREAM_AHEAD = 512 << 10,    /* of an accepted stream, that gRPC reads before we do */
    RPC_STREAM_COALESCE = 256 << 10, /* small frames share a message up to here */
    RPC_STREAM_COALESCE_N = 32,
};

/* grpc_users.c. CO_UNSUPPORTED: this process was forked from one that uses gRPC. */
CO_MUST_CHECK int rpc_grpc_use(struct co_err *err);
void rpc_grpc_leave(void);

/* front.c: for net_listener_open, with an rpc. */
extern const struct net_acceptor_ops rpc_front_ops;
/* The descriptor that gRPC reads: the connection itself or, with TLS, the near end of a relay. */
CO_MUST_CHECK int rpc_front_inner(
    struct rpc *r, int fd_own, struct co_tls *tls_own, int *ret_fd, struct co_err *err);
/* Calls on_refused if connections were refused. */
void rpc_front_report(struct rpc *r);
/* The address of a call's peer, which gRPC calls "fd:12". */
void rpc_front_peer(struct rpc *r, grpc_call *call, struct net_peer *ret);

/* A stream that is a gRPC call. */
struct rpc_call_stream;
/* Wraps a call and links it. Runs on the rpc's thread or in rpc_adopt. The first member is the
 * struct rpc_stream. */
struct rpc_call_stream *rpc_call_stream_new(
    struct rpc *r, grpc_call *call, grpc_channel *channel_own, const char *peer);
/* Starts the batches of a new stream. */
void rpc_call_stream_start(struct rpc_call_stream *s);

void rpc_link(struct rpc *r, struct rpc_call_stream *s);
void rpc_closed(struct rpc *r); /* on_close has returned */
void rpc_unlink(struct rpc *r, struct rpc_call_stream *s);
struct rpc_call_stream **rpc_call_stream_next(struct rpc_call_stream *s);
struct rpc_call_stream **rpc_call_stream_prev(struct rpc_call_stream *s);
