/* A stream over gRPC: one bidirectional call that carries frames in both directions.
 *
 * Sending: frames wait in `queue`; one send is in progress at a time and takes as many frames as
 * fit one message. Receiving: one message is read at a time and cut into frames. Delivered frames
 * count until they are freed, on any thread. A stream that holds its window of them, or an accepted
 * one that has as much to send, is not read, so that peers cannot fill our memory. Ending: gRPC
 * orders the completions of different batches only within a thread, so while another thread sends,
 * the close batch may complete before the receive of a message that came first, such as the reason
 * why the peer ends the call. So a stream has ended when its close batch is complete and no receive
 * is in progress. The close batch holds the reference that the stream was made with. */
#include <stdio.h>
#include <string.h>

#include "runtime/train/rpc/rpc_internal.h"

struct rpc_call_stream {
    struct rpc_stream base;
    struct rpc *rpc;
    grpc_call *call;
    grpc_channel *channel;               /* of a dialled stream, owned; NULL: an accepted one */
    struct rpc_call_stream *next, *prev; /* guarded by rpc->m */

    pthread_mutex_t m; /* guards what follows; a leaf */
    bool closed;       /* nothing more is sent; the queue is dropped */
    bool ending;       /* the status is sent when the queue is empty */
    bool sending;      /* a send batch is in progress */
    bool ended;        /* the status was sent */
    struct rpc_frame *queue, **queue_end;
    size_t queued;     /* bytes in queue */
    size_t delivered;  /* bytes of frames not yet freed */
    bool reading;      /* a receive is in progress, or will be at once */
    bool over;         /* the close batch is complete */
    bool paused;       /* no receive is in progress: it holds too much */
    bool took;         /* the peer has taken a message since is_paused was last asked */
    struct co_err why; /* we cancelled the call for this reason */

    /* used by the rpc's thread, and by gRPC while a batch is in progress */
    struct rpc_tag start_tag, send_tag, recv_tag, close_tag;
    grpc_byte_buffer *outgoing, *incoming;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    int cancelled;
    struct co_err malformed; /* what was wrong with a message from the peer */
};

static struct rpc_call_stream *of(struct rpc_stream *s) {
    return (struct rpc_call_stream *)s;
}

struct rpc_call_stream **rpc_call_stream_next(struct rpc_call_stream *s) {
    return &s->next;
}

struct rpc_call_stream **rpc_call_stream_prev(struct rpc_call_stream *s) {
    return &s->prev;
}

static void drop_queue(struct rpc_call_stream *s) {
    for (struct rpc_frame *f = s->queue, *next; f; f = next) {
        next = f->next;
        rpc_frame_free(f);
    }
    s->queue = NULL;
    s->queue_end = &s->queue;
    s->queued = 0;
}

static void free_stream(struct rpc_stream *stream) {
    struct rpc_call_stream *s = of(stream);
    drop_queue(s);
    grpc_call_unref(s->call);
    if (s->channel) {
        grpc_channel_destroy(s->channel);
    }
    grpc_metadata_array_destroy(&s->initial);
    grpc_metadata_array_destroy(&s->trailing);
    grpc_slice_unref(s->details);
    pthread_mutex_destroy(&s->m);
    /* Last: after this, gRPC may be shut down. */
    rpc_unlink(s->rpc, s);
    free(s);
}

/* If the call is already over, gRPC still completes the batch, as failed. */
static void start_batch(
    struct rpc_call_stream *s, const grpc_op *ops, size_t n, struct rpc_tag *tag) {
    RPC_HAND_OVER(tag);
    grpc_call_error e = grpc_call_start_batch(s->call, ops, n, tag, NULL);
    if (e != GRPC_CALL_OK) {
        /* Only a mistake in this file leads here: gRPC refuses batches that are malformed. */
        (void)fprintf(stderr, "grpc_call_start_batch: %s\n", grpc_call_error_to_string(e));
        abort();
    }
}

/* A batch whose completion releases a reference to the stream. */
static void start_held_batch(
    struct rpc_call_stream *s, const grpc_op *ops, size_t n, struct rpc_tag *tag) {
    rpc_stream_ref(&s->base);
    start_batch(s, ops, n, tag);
}

static void receive_message(struct rpc_call_stream *s) {
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &s->incoming};
    start_held_batch(s, &op, 1, &s->recv_tag);
}

/* ---- how much a stream may hold; the lock is held ---- */

/* A server's streams share its window, so that many trainers take no more memory than few. */
static size_t window_of(const struct rpc_call_stream *s) {
    size_t n = s->channel ? 1 : atomic_load(&s->rpc->n_streams);
    size_t share = s->rpc->window / (n > 0 ? n : 1);
    return share > RPC_STREAM_SHARE ? share : RPC_STREAM_SHARE;
}

/* A stream that was dialled is read whatever waits to be sent: if both ends waited for each other
 * to read, they would for ever. */
static size_t weigh_stream(const struct rpc_call_stream *s) {
    return !s->channel && s->queued > s->delivered ? s->queued : s->delivered;
}

/* Reading resumes at half the window, so that a stream does not pause and resume with every frame.
 * True: the caller reads, without the lock. */
static bool must_resume(struct rpc_call_stream *s) {
    bool resume = s->paused && !s->closed && weigh_stream(s) < window_of(s) / 2;
    s->paused = s->paused && !resume;
    s->reading = s->reading || resume;
    return resume;
}

/* ---- sending ---- */

static void slice_sent(void *frame) {
    RPC_TAKE_OVER(frame);
    rpc_frame_free(frame);
}

/* Takes as many frames from the queue as fit one message. The caller holds the lock. */
static grpc_byte_buffer *next_message(struct rpc_call_stream *s) {
    grpc_slice slices[RPC_STREAM_COALESCE_N];
    size_t n = 0, bytes = 0;
    while (s->queue && n < RPC_STREAM_COALESCE_N) {
        struct rpc_frame *f = s->queue;
        size_t len = RPC_FRAME_HEAD + (size_t)f->head.bytes;
        if (n > 0 && bytes + len > RPC_STREAM_COALESCE) {
            break;
        }
        s->queue = f->next;
        s->queued -= len;
        bytes += len;
        slices[n++] = grpc_slice_new_with_user_data(f->wire, len, slice_sent, f);
        RPC_HAND_OVER(f);
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

/* Sends the next message unless a send is in progress. Only one thread gets past `sending`, so the
 * batch can start outside the lock; starting it may write to the socket. */
static void pump_frames(struct rpc_call_stream *s) {
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
    struct rpc_call_stream *s = arg;
    grpc_byte_buffer *b = s->outgoing;
    s->outgoing = NULL;
    if (b) {
        grpc_byte_buffer_destroy(b);
    }
    pthread_mutex_lock(&s->m);
    s->sending = false;
    s->took = s->took || ok;
    if (!ok) {
        s->closed = true;
        drop_queue(s);
    }
    bool resume = must_resume(s);
    pthread_mutex_unlock(&s->m);
    if (resume) {
        receive_message(s);
    }
    pump_frames(s);
    rpc_stream_unref(&s->base);
}

/* The peer of an accepted stream gets the reason as the call's status. */
static void stop_stream(struct rpc_stream *stream, const struct co_err *why) {
    struct rpc_call_stream *s = of(stream);
    pthread_mutex_lock(&s->m);
    s->closed = true;
    if (!s->why.code) {
        s->why = *why;
    }
    drop_queue(s);
    pthread_mutex_unlock(&s->m);
    if (s->channel) {
        grpc_call_cancel(s->call, NULL);
    } else {
        (void)grpc_call_cancel_with_status(
            s->call, GRPC_STATUS_UNAVAILABLE, why->code ? why->msg : "connection closed", NULL);
    }
}

static int send_frame(struct rpc_stream *stream, struct rpc_frame *f_own, struct co_err *err) {
    struct rpc_call_stream *s = of(stream);
    size_t len = RPC_FRAME_HEAD + (size_t)f_own->head.bytes;
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
        rpc_frame_free(f_own);
    }
    if (over) {
        return co_err_set(err, CO_PEERLOST, "the connection to %s is closed", s->base.peer);
    }
    if (full) {
        struct co_err why = {0};
        co_err_set(&why, CO_NORESOURCE, "%s does not read: %zu MiB wait to be sent", s->base.peer,
            s->rpc->backlog >> 20);
        stop_stream(&s->base, &why);
        return co_err_set(err, why.code, "%s", why.msg);
    }
    pump_frames(s);
    return 0;
}

static void end_stream(struct rpc_stream *stream) {
    struct rpc_call_stream *s = of(stream);
    pthread_mutex_lock(&s->m);
    s->ending = true;
    pthread_mutex_unlock(&s->m);
    pump_frames(s);
}

/* ---- receiving ---- */

static size_t weigh_frame(const struct rpc_frame *f) {
    return sizeof(*f) + RPC_FRAME_HEAD + f->head.bytes;
}

/* Runs on any thread when a delivered frame is freed. */
static void on_released(struct rpc_frame *f) {
    struct rpc_call_stream *s = of(f->from);
    pthread_mutex_lock(&s->m);
    s->delivered -= weigh_frame(f);
    bool resume = must_resume(s);
    pthread_mutex_unlock(&s->m);
    if (resume) {
        receive_message(s);
    }
    rpc_stream_unref(&s->base);
}

/* A peer that takes none of what waits for it gives no sign of life: it is not read because of
 * itself. */
static bool is_paused(struct rpc_stream *stream) {
    struct rpc_call_stream *s = of(stream);
    pthread_mutex_lock(&s->m);
    bool paused = s->paused && (s->delivered > 0 || s->took);
    s->took = false;
    pthread_mutex_unlock(&s->m);
    return paused;
}

static int split_message(grpc_byte_buffer *b, struct rpc_frame **ret_first, struct co_err *err) {
    struct rpc_splitter sp;
    rpc_splitter_init(&sp, grpc_byte_buffer_length(b));
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, b)) {
        return co_err_set(err, CO_INVALID, "message cannot be decompressed");
    }
    grpc_slice *slice;
    int rc = 0;
    while (rc == 0 && grpc_byte_buffer_reader_peek(&reader, &slice)) {
        rc = rpc_splitter_feed(&sp, GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice), err);
    }
    grpc_byte_buffer_reader_destroy(&reader);
    if (rc == 0) {
        rc = rpc_splitter_take(&sp, ret_first, err);
    }
    rpc_splitter_done(&sp);
    return rc;
}

static void deliver_frames(struct rpc_call_stream *s, struct rpc_frame *first) {
    size_t bytes = 0;
    for (struct rpc_frame *f = first; f; f = f->next) {
        f->from = rpc_stream_ref(&s->base);
        f->release = on_released;
        bytes += weigh_frame(f);
    }
    pthread_mutex_lock(&s->m);
    s->delivered += bytes;
    pthread_mutex_unlock(&s->m);
    for (struct rpc_frame *f = first, *next; f; f = next) {
        next = f->next;
        f->next = NULL;
        s->rpc->ops->on_frame(s->rpc->arg, &s->base, f);
    }
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

/* Nothing more will come: says to the owner why. */
static void finish_close(struct rpc_call_stream *s) {
    pthread_mutex_lock(&s->m);
    struct co_err why = s->why.code ? s->why : s->malformed;
    pthread_mutex_unlock(&s->m);
    if (why.code) {
        /* our own reason says more than gRPC's status */
    } else if (s->channel && s->status != GRPC_STATUS_OK) {
        co_err_set(&why, close_code(s->status), "%.*s", (int)GRPC_SLICE_LENGTH(s->details),
            (const char *)GRPC_SLICE_START_PTR(s->details));
    } else {
        co_err_set(&why, CO_PEERLOST, "connection closed");
    }
    s->rpc->ops->on_close(s->rpc->arg, &s->base, &why);
    rpc_closed(s->rpc);
    rpc_stream_unref(&s->base); /* the reference that the stream was made with */
}

static void on_closed(void *arg, bool ok) {
    (void)ok;
    struct rpc_call_stream *s = arg;
    pthread_mutex_lock(&s->m);
    s->closed = s->over = true;
    drop_queue(s);
    bool reading = s->reading;
    pthread_mutex_unlock(&s->m);
    if (!reading) {
        finish_close(s);
    }
}

/* Ends the reading; gRPC completes every receive once a call is over. */
static void stop_reading(struct rpc_call_stream *s) {
    pthread_mutex_lock(&s->m);
    s->reading = false;
    bool over = s->over;
    pthread_mutex_unlock(&s->m);
    if (over) {
        finish_close(s);
    }
}

static void on_received(void *arg, bool ok) {
    struct rpc_call_stream *s = arg;
    grpc_byte_buffer *b = s->incoming;
    s->incoming = NULL;
    if (!ok || !b) {
        /* The peer is gone or has finished. An accepted call completes only when we end it. */
        if (!s->channel) {
            grpc_call_cancel(s->call, NULL);
        }
        stop_reading(s);
        rpc_stream_unref(&s->base);
        return;
    }
    struct rpc_frame *first = NULL;
    int rc = split_message(b, &first, &s->malformed);
    grpc_byte_buffer_destroy(b);
    if (rc < 0) {
        (void)grpc_call_cancel_with_status(
            s->call, GRPC_STATUS_INVALID_ARGUMENT, co_err_text(&s->malformed), NULL);
        stop_reading(s);
        rpc_stream_unref(&s->base);
        return;
    }
    deliver_frames(s, first);
    pthread_mutex_lock(&s->m);
    s->paused = weigh_stream(s) >= window_of(s);
    bool more = !s->paused;
    s->reading = more;
    bool over = s->over;
    pthread_mutex_unlock(&s->m);
    if (more) {
        receive_message(s);
    } else if (over) {
        finish_close(s);
    }
    rpc_stream_unref(&s->base);
}

/* ---- life ---- */

static void on_started(void *arg, bool ok) {
    (void)ok; /* a failure shows in the close batch */
    rpc_stream_unref(&((struct rpc_call_stream *)arg)->base);
}

static const struct rpc_stream_ops stream_ops = {
    send_frame, stop_stream, end_stream, is_paused, free_stream};

struct rpc_call_stream *rpc_call_stream_new(
    struct rpc *r, grpc_call *call, grpc_channel *channel_own, const char *peer) {
    struct rpc_call_stream *s = co_xcalloc(1, sizeof(*s));
    rpc_stream_init(&s->base, &stream_ops, peer);
    s->rpc = r;
    s->call = call;
    s->reading = true; /* by the first receive of rpc_call_stream_start */
    s->channel = channel_own;
    pthread_mutex_init(&s->m, NULL);
    s->queue_end = &s->queue;
    s->start_tag = (struct rpc_tag){on_started, s};
    s->send_tag = (struct rpc_tag){on_sent, s};
    s->recv_tag = (struct rpc_tag){on_received, s};
    s->close_tag = (struct rpc_tag){on_closed, s};
    s->details = grpc_empty_slice();
    grpc_metadata_array_init(&s->initial);
    grpc_metadata_array_init(&s->trailing);
    rpc_link(r, s);
    return s;
}

void rpc_call_stream_start(struct rpc_call_stream *s) {
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
    /* The close batch may complete, and release the first reference, while the others still start.
     */
    rpc_stream_ref(&s->base);
    start_held_batch(s, start, s->channel ? 2 : 1, &s->start_tag);
    start_batch(s, &over, 1, &s->close_tag);
    receive_message(s);
    pump_frames(s);
    rpc_stream_unref(&s->base);
}
