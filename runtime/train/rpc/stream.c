#include "runtime/train/rpc/internal.h"

#include <stdio.h>
#include <string.h>

struct rt_stream {
    struct rt_rpc *rpc;
    grpc_call *call;
    grpc_channel *channel; /* dialled streams: owned */
    atomic_int refs;
    void *user;
    char peer[128];
    struct rt_stream *next, *prev; /* guarded by rpc->m */

    pthread_mutex_t m; /* guards what follows; a leaf */
    bool closed;       /* nothing more is sent */
    bool ending;       /* status follows the queue */
    bool sending;      /* the send tag is in use */
    bool ended;        /* status was sent */
    struct rt_frame *queue, **queue_end;
    size_t queued;     /* bytes in queue */
    size_t delivered;  /* bytes of frames not yet freed */
    bool paused;       /* no receive in progress, as delivered is too much */
    struct co_err why; /* we cancelled it, for that */

    /* the rpc's thread; gRPC while a batch is in progress */
    struct rt_tag start_tag, send_tag, recv_tag, close_tag;
    grpc_byte_buffer *outgoing, *incoming;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    int cancelled;
    struct co_err malformed; /* what was wrong with a message of the peer */
};

struct rt_stream **rt_stream_next(struct rt_stream *s) {
    return &s->next;
}

struct rt_stream **rt_stream_prev(struct rt_stream *s) {
    return &s->prev;
}

void rt_stream_set_user(struct rt_stream *s, void *user) {
    s->user = user;
}

void *rt_stream_user(const struct rt_stream *s) {
    return s->user;
}

const char *rt_stream_peer(const struct rt_stream *s) {
    return s->peer;
}

struct rt_stream *rt_stream_ref(struct rt_stream *s) {
    atomic_fetch_add(&s->refs, 1);
    return s;
}

bool rt_stream_try_ref(struct rt_stream *s) {
    int n = atomic_load(&s->refs);
    while (n > 0 && !atomic_compare_exchange_weak(&s->refs, &n, n + 1)) {
    }
    return n > 0;
}

static void drop_queue(struct rt_stream *s) {
    for (struct rt_frame *f = s->queue, *next; f; f = next) {
        next = f->next;
        rt_frame_free(f);
    }
    s->queue = NULL;
    s->queue_end = &s->queue;
    s->queued = 0;
}

void rt_stream_unref(struct rt_stream *s) {
    if (atomic_fetch_sub(&s->refs, 1) != 1) {
        return;
    }
    drop_queue(s);
    grpc_call_unref(s->call);
    if (s->channel) {
        grpc_channel_destroy(s->channel);
    }
    grpc_metadata_array_destroy(&s->initial);
    grpc_metadata_array_destroy(&s->trailing);
    grpc_slice_unref(s->details);
    pthread_mutex_destroy(&s->m);
    /* Last, as rt_rpc_close waits for it before it ends gRPC. */
    rt_rpc_unlink(s->rpc, s);
    free(s);
}

/* On a call that is over gRPC still completes the batch, as failed. */
static void start_batch(struct rt_stream *s, const grpc_op *ops, size_t n, struct rt_tag *tag) {
    RT_HAND_OVER(tag);
    grpc_call_error e = grpc_call_start_batch(s->call, ops, n, tag, NULL);
    if (e != GRPC_CALL_OK) {
        /* only a mistake in this file leads here */
        (void)fprintf(stderr, "grpc_call_start_batch: %s\n", grpc_call_error_to_string(e));
        abort();
    }
}

/* One whose completion holds a reference. */
static void start_held_batch(
    struct rt_stream *s, const grpc_op *ops, size_t n, struct rt_tag *tag) {
    rt_stream_ref(s);
    start_batch(s, ops, n, tag);
}

static void receive_message(struct rt_stream *s) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->incoming};
    start_held_batch(s, &op, 1, &s->recv_tag);
}

/* ---- sending ---- */

static void slice_sent(void *frame) {
    RT_TAKE_OVER(frame);
    rt_frame_free(frame);
}

/* Takes frames from the queue, as many as fit one message; the lock is held. */
static grpc_byte_buffer *next_message(struct rt_stream *s) {
    grpc_slice slices[RT_STREAM_COALESCE_N];
    size_t n = 0, bytes = 0;
    while (s->queue && n < RT_STREAM_COALESCE_N) {
        struct rt_frame *f = s->queue;
        size_t len = RT_FRAME_HEAD + (size_t)f->head.bytes;
        if (n > 0 && bytes + len > RT_STREAM_COALESCE) {
            break;
        }
        s->queue = f->next;
        s->queued -= len;
        bytes += len;
        slices[n++] = grpc_slice_new_with_user_data(f->wire, len, slice_sent, f);
        RT_HAND_OVER(f);
    }
    if (!s->queue) {
        s->queue_end = &s->queue;
    }
    grpc_byte_buffer *b = grpc_raw_byte_buffer_create(slices, n);
    for (size_t i = 0; i < n; i++) {
        grpc_slice_unref(slices[i]);
    }
    return b;
}

/* Sends what is next unless a send is in progress.  Only one thread gets past `sending`, so the
 * batch itself starts outside the lock: it may write to the socket. */
static void pump_frames(struct rt_stream *s) {
    pthread_mutex_lock(&s->m);
    grpc_op op = {0};
    if (!s->sending && !s->closed && s->queue) {
        s->outgoing = next_message(s);
        op.op = GRPC_OP_SEND_MESSAGE;
        op.data.send_message.send_message = s->outgoing;
        s->sending = true;
    } else if (!s->sending && !s->closed && s->ending && !s->ended) {
        op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        op.data.send_status_from_server.status = GRPC_STATUS_OK;
        s->sending = s->ended = true;
    } else {
        pthread_mutex_unlock(&s->m);
        return;
    }
    pthread_mutex_unlock(&s->m);
    start_held_batch(s, &op, 1, &s->send_tag);
}

static void on_sent(void *arg, bool ok) {
    struct rt_stream *s = arg;
    grpc_byte_buffer *b = s->outgoing;
    s->outgoing = NULL;
    if (b) {
        grpc_byte_buffer_destroy(b);
    }
    pthread_mutex_lock(&s->m);
    s->sending = false;
    if (!ok) {
        s->closed = true;
        drop_queue(s);
    }
    pthread_mutex_unlock(&s->m);
    pump_frames(s);
    rt_stream_unref(s);
}

/* why: what on_close is to say; NULL: it says what gRPC does. */
static void cancel_stream(struct rt_stream *s, const struct co_err *why) {
    pthread_mutex_lock(&s->m);
    s->closed = true;
    if (why && !s->why.code) {
        s->why = *why;
    }
    drop_queue(s);
    pthread_mutex_unlock(&s->m);
    grpc_call_cancel(s->call, NULL);
}

int rt_stream_send(struct rt_stream *s, struct rt_frame *f_own, struct co_err *err) {
    rt_frame_seal(f_own);
    size_t len = RT_FRAME_HEAD + (size_t)f_own->head.bytes;
    pthread_mutex_lock(&s->m);
    bool over = s->closed || s->ending;
    bool full = !over && s->queued + len > s->rpc->backlog;
    if (!over && !full) {
        f_own->next = NULL;
        *s->queue_end = f_own;
        s->queue_end = &f_own->next;
        s->queued += len;
    }
    pthread_mutex_unlock(&s->m);
    if (over || full) {
        rt_frame_free(f_own);
    }
    if (over) {
        return co_err_set(err, CO_PEERLOST, "the connection to %s is closed", s->peer);
    }
    if (full) {
        struct co_err why = {0};
        co_err_set(&why, CO_NORESOURCE, "%s does not read: %zu MiB wait to be sent", s->peer,
            s->rpc->backlog >> 20);
        cancel_stream(s, &why);
        return co_err_set(err, why.code, "%s", why.msg);
    }
    pump_frames(s);
    return 0;
}

void rt_stream_cancel(struct rt_stream *s) {
    cancel_stream(s, NULL);
}

void rt_stream_end(struct rt_stream *s) {
    pthread_mutex_lock(&s->m);
    s->ending = true;
    pthread_mutex_unlock(&s->m);
    pump_frames(s);
}

/* ---- receiving ---- */

struct rt_stream *rt_frame_stream(const struct rt_frame *f) {
    return f->from;
}

static size_t weigh_frame(const struct rt_frame *f) {
    return sizeof(*f) + RT_FRAME_HEAD + f->head.bytes;
}

/* A delivered frame was freed, on any thread: its place in the window is free again. */
static void on_released(struct rt_frame *f) {
    struct rt_stream *s = f->from;
    pthread_mutex_lock(&s->m);
    s->delivered -= weigh_frame(f);
    bool resume = s->paused && s->delivered < RT_STREAM_WINDOW / 2;
    if (resume) {
        s->paused = false;
    }
    pthread_mutex_unlock(&s->m);
    if (resume) {
        receive_message(s);
    }
    rt_stream_unref(s);
}

bool rt_stream_paused(struct rt_stream *s) {
    pthread_mutex_lock(&s->m);
    bool paused = s->paused;
    pthread_mutex_unlock(&s->m);
    return paused;
}

static int split_message(grpc_byte_buffer *b, struct rt_frame **ret_first, struct co_err *err) {
    struct rt_splitter sp;
    rt_splitter_init(&sp, grpc_byte_buffer_length(b));
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, b)) {
        return co_err_set(err, CO_INVALID, "message cannot be decompressed");
    }
    grpc_slice *slice;
    int rc = 0;
    while (rc == 0 && grpc_byte_buffer_reader_peek(&reader, &slice)) {
        rc = rt_splitter_feed(&sp, GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice), err);
    }
    grpc_byte_buffer_reader_destroy(&reader);
    if (rc == 0) {
        rc = rt_splitter_take(&sp, ret_first, err);
    }
    rt_splitter_done(&sp);
    return rc;
}

static void deliver_frames(struct rt_stream *s, struct rt_frame *first) {
    size_t bytes = 0;
    for (struct rt_frame *f = first; f; f = f->next) {
        f->from = rt_stream_ref(s);
        f->release = on_released;
        bytes += weigh_frame(f);
    }
    pthread_mutex_lock(&s->m);
    s->delivered += bytes;
    pthread_mutex_unlock(&s->m);
    for (struct rt_frame *f = first, *next; f; f = next) {
        next = f->next;
        f->next = NULL;
        s->rpc->ops->on_frame(s->rpc->arg, s, f);
    }
}

static void on_received(void *arg, bool ok) {
    struct rt_stream *s = arg;
    grpc_byte_buffer *b = s->incoming;
    s->incoming = NULL;
    if (!ok || !b) {
        /* The peer is gone or says no more; an accepted call must be ended to be over. */
        if (!s->channel) {
            grpc_call_cancel(s->call, NULL);
        }
        rt_stream_unref(s);
        return;
    }
    struct rt_frame *first = NULL;
    int rc = split_message(b, &first, &s->malformed);
    grpc_byte_buffer_destroy(b);
    if (rc < 0) {
        (void)grpc_call_cancel_with_status(
            s->call, GRPC_STATUS_INVALID_ARGUMENT, co_err_text(&s->malformed), NULL);
        rt_stream_unref(s);
        return;
    }
    deliver_frames(s, first);
    pthread_mutex_lock(&s->m);
    s->paused = s->delivered >= RT_STREAM_WINDOW;
    bool more = !s->paused;
    pthread_mutex_unlock(&s->m);
    if (more) {
        receive_message(s);
    }
    rt_stream_unref(s);
}

/* ---- life ---- */

static void on_started(void *arg, bool ok) {
    (void)ok; /* a failure shows in the close batch */
    rt_stream_unref(arg);
}

static int close_code(grpc_status_code status) {
    switch (status) {
    case GRPC_STATUS_CANCELLED:
        return CO_CANCELED;
    case GRPC_STATUS_INVALID_ARGUMENT:
    case GRPC_STATUS_UNIMPLEMENTED:
        return CO_INVALID;
    case GRPC_STATUS_RESOURCE_EXHAUSTED:
        return CO_NORESOURCE;
    default:
        return CO_PEERLOST;
    }
}

static void on_closed(void *arg, bool ok) {
    (void)ok;
    struct rt_stream *s = arg;
    pthread_mutex_lock(&s->m);
    s->closed = true;
    drop_queue(s);
    struct co_err why = s->why.code ? s->why : s->malformed;
    pthread_mutex_unlock(&s->m);
    if (why.code) {
        /* known better than from what gRPC makes of it */
    } else if (s->channel && s->status != GRPC_STATUS_OK) {
        co_err_set(&why, close_code(s->status), "%.*s", (int)GRPC_SLICE_LENGTH(s->details),
            (const char *)GRPC_SLICE_START_PTR(s->details));
    } else {
        co_err_set(&why, CO_PEERLOST, "connection closed");
    }
    s->rpc->ops->on_close(s->rpc->arg, s, &why);
    rt_stream_unref(s); /* the one it was made with */
}

struct rt_stream *rt_stream_new(
    struct rt_rpc *r, grpc_call *call, grpc_channel *channel_own, const char *peer) {
    struct rt_stream *s = co_xcalloc(1, sizeof(*s));
    s->rpc = r;
    s->call = call;
    s->channel = channel_own;
    atomic_init(&s->refs, 1);
    pthread_mutex_init(&s->m, NULL);
    s->queue_end = &s->queue;
    s->start_tag = (struct rt_tag){on_started, s};
    s->send_tag = (struct rt_tag){on_sent, s};
    s->recv_tag = (struct rt_tag){on_received, s};
    s->close_tag = (struct rt_tag){on_closed, s};
    s->details = grpc_empty_slice();
    grpc_metadata_array_init(&s->initial);
    grpc_metadata_array_init(&s->trailing);
    (void)snprintf(s->peer, sizeof(s->peer), "%s", peer);
    rt_rpc_link(r, s);
    return s;
}

void rt_stream_start(struct rt_stream *s) {
    grpc_op start[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
            .data.recv_initial_metadata.recv_initial_metadata = &s->initial}};
    grpc_op over = {0};
    if (s->channel) {
        over.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
        over.data.recv_status_on_client.trailing_metadata = &s->trailing;
        over.data.recv_status_on_client.status = &s->status;
        over.data.recv_status_on_client.status_details = &s->details;
    } else {
        over.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
        over.data.recv_close_on_server.cancelled = &s->cancelled;
    }
    /* The close batch may complete, and the first reference go, while the others start. */
    rt_stream_ref(s);
    start_held_batch(s, start, s->channel ? 2 : 1, &s->start_tag);
    start_batch(s, &over, 1, &s->close_tag);
    receive_message(s);
    pump_frames(s);
    rt_stream_unref(s);
}
