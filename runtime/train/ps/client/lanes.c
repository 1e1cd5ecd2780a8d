/* The data lanes of a link: what is queued in them is written, what they bring is handled, and how
 * they are lost.  lane_reader.c has the thread that reads; lanes_open.c opens them. */
#include "runtime/net/net.h"
#include "runtime/train/ps/client/link_internal.h"

enum {
    WAY_UNSENT = 8 << 20, /* a lane with this many queued bytes gets no more frames */
    LAST_WORD_TICKS = 10, /* about a second: how long a stream may take to say why a lane broke */
};

/* NULL: the part uses the stream. */
static struct rpc_lane *lane_of(const struct psc_link *l, const struct psc_part *p) {
    const struct psc_lanes *w = &l->lanes;
    bool by_lane = w->all && p->head.kind != RPC_FRAME_CONTROL && p->head.shard < w->n;
    return by_lane ? w->all[p->head.shard].lane : NULL;
}

struct rpc_stream *psc_client_carrier(const struct psc_link *l, const struct psc_part *p) {
    struct rpc_lane *lane = lane_of(l, p);
    return lane ? rpc_lane_stream(lane) : l->stream;
}

bool psc_client_carrier_free(const struct psc_link *l, const struct psc_part *p) {
    const struct rpc_lane *lane = lane_of(l, p);
    return !lane || rpc_lane_queued(lane) < WAY_UNSENT;
}

/* The lane of that shard, with a reference; NULL: it was dropped.  The lock is held. */
static struct rpc_lane *take_lane(const struct psc_link *l, uint32_t shard) {
    struct rpc_lane *lane = l->lanes.all && shard < l->lanes.n ? l->lanes.all[shard].lane : NULL;
    if (lane) {
        (void)rpc_stream_ref(rpc_lane_stream(lane));
    }
    return lane;
}

/* Writes what is queued in a lane; the rest is written when epoll says so.  The reader notices a
 * failure. */
static void flush_lane(struct psc_link *l, uint32_t shard, struct rpc_lane *lane) {
    size_t left = 0;
    (void)!rpc_lane_flush(lane, &left, NULL);
    psc_lock(l->c);
    struct psc_lane *w = l->lanes.all ? &l->lanes.all[shard] : NULL;
    bool full = rpc_lane_queued(lane) > 0;
    if (w && w->lane == lane && w->full != full) {
        w->full = full;
        psc_reader_watch(l, shard, lane, full);
    }
    psc_unlock(l->c);
    rpc_stream_unref(rpc_lane_stream(lane));
}

/* The next lane from *shard on that has something to write, with a reference.  NULL: none. */
static struct rpc_lane *next_unsent(const struct psc_link *l, uint32_t *shard) {
    const struct psc_lanes *w = &l->lanes;
    struct rpc_lane *lane = NULL;
    psc_lock(l->c);
    for (; !lane && w->all && *shard < w->n; ++*shard) {
        bool waits = !w->all[*shard].full && rpc_lane_queued(w->all[*shard].lane) > 0;
        lane = waits ? take_lane(l, *shard) : NULL;
    }
    psc_unlock(l->c);
    return lane;
}

void psc_client_flush_lanes(struct psc_link *l) {
    uint32_t next = 0;
    for (struct rpc_lane *lane; (lane = next_unsent(l, &next));) {
        flush_lane(l, next - 1, lane);
    }
}

void psc_client_ping_lanes(struct psc_link *l) {
    psc_lock(l->c);
    bool waits = l->c->links->slots.used > 0;
    for (uint32_t k = 0; waits && l->lanes.all && k < l->lanes.n; k++) {
        struct rpc_lane *lane = l->lanes.all[k].lane;
        struct rpc_frame *f = NULL;
        if (rpc_lane_queued(lane) == 0 && rpc_frame_new(RPC_FRAME_PING, 0, &f, NULL) == 0) {
            f->head.shard = k;
            (void)!rpc_stream_send(rpc_lane_stream(lane), f, NULL);
        }
    }
    psc_unlock(l->c);
    psc_client_flush_lanes(l);
}

/* Uses the lanes no more, and leaves them open. */
static void retire_lanes(struct psc_link *l) {
    for (uint32_t i = 0; l->lanes.all && i < l->lanes.n; i++) {
        psc_reader_remove(l->c->reader, l->lanes.all[i].lane);
    }
    l->lanes.retired = l->lanes.all ? co_steal_ptr(l->lanes.all) : l->lanes.retired;
}

void psc_client_drop_lanes(struct psc_link *l) {
    retire_lanes(l);
    struct psc_lane *all = co_steal_ptr(l->lanes.retired);
    for (uint32_t i = 0; all && i < l->lanes.n; i++) {
        rpc_lane_shut(all[i].lane);
        rpc_stream_unref(rpc_lane_stream(all[i].lane));
    }
    free(all);
}

/* ---- reading ---- */

/* Handles the loss of a lane: the link loses its stream too.  If the peer closed the lane, the
 * stream will end by itself and may say why; the lane's end has only overtaken that.  If the stream
 * does not end, psc_client_lost_lanes ends the wait.  Meanwhile the other lanes stay open: a shard
 * that has not closed its own yet would take their end for ours, and break the stream. */
static void lose_lane(struct rt_client *c, struct psc_link *l, uint32_t shard,
    const struct rpc_lane *lane, const struct co_err *why) {
    struct rpc_stream *stream = NULL;
    psc_lock(c);
    if (l->lanes.all && l->lanes.all[shard].lane == lane) {
        l->lanes.broken = *why;
        l->lanes.patience = LAST_WORD_TICKS;
        retire_lanes(l);
        stream = l->stream && why->code != CO_PEERLOST ? rpc_stream_ref(l->stream) : NULL;
    }
    psc_unlock(c);
    if (stream) {
        rpc_stream_break(stream, why);
        rpc_stream_unref(stream);
    }
}

bool psc_client_lost_lanes(struct psc_link *l) {
    return l->lanes.broken.code && l->lanes.patience > 0 && --l->lanes.patience == 0;
}

/* True if the server refused the lane because this trainer's stream had already broken there.  The
 * link then reconnects.  psc_client_frame handles any other error. */
static bool is_refused(const struct rpc_frame *f, struct co_err *ret_why) {
    if (f->head.kind != RPC_FRAME_ERROR || f->head.seq != 0) {
        return false;
    }
    rpc_frame_error_read(f, ret_why);
    return ret_why->code == CO_UNAVAILABLE;
}

void psc_lane_serve(
    struct psc_link *l, uint32_t shard, bool in, bool out, struct rpc_lane_room *room) {
    struct rt_client *c = l->c;
    psc_lock(c);
    struct rpc_lane *lane = take_lane(l, shard);
    l->received_ms = lane ? co_now_ms() : l->received_ms;
    psc_unlock(c);
    if (!lane) {
        return;
    }
    struct co_err why = {0};
    struct rpc_frame *first = NULL;
    if (out) {
        (void)rpc_stream_ref(rpc_lane_stream(lane));
        flush_lane(l, shard, lane);
        psc_client_pump(l); /* there may be room */
    }
    if (in && rpc_lane_read(lane, room, &first, &why) < 0) {
        lose_lane(c, l, shard, lane, &why);
    }
    for (struct rpc_frame *f = first, *next; f; f = next) {
        next = f->next;
        f->next = NULL;
        if (is_refused(f, &why)) {
            lose_lane(c, l, shard, lane, &why);
            rpc_frame_free(f);
        } else {
            psc_client_frame(c, l, f);
        }
    }
    rpc_stream_unref(rpc_lane_stream(lane));
}

bool psc_client_has_lanes(struct rt_client *c) {
    bool all = true;
    psc_lock(c);
    for (uint32_t i = 0; i < c->links->n; i++) {
        all = all && c->links->at[i].lanes.all;
    }
    psc_unlock(c);
    return all;
}
