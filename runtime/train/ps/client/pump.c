/* Sends the parts that wait for a link, as far as its windows and lanes allow. */
#include "runtime/train/ps/client/link_internal.h"

static int make_frame(struct psc_part *p, struct co_err *err) {
    struct rpc_frame *f = NULL;
    if (!p->frame) {
        CO_TRY(rpc_frame_new(p->head.kind, p->head.bytes, &f, err));
    }
    if (f) {
        f->head = p->head;
        if (p->head.bytes > 0) {
            p->call->fill(p->call, p, f->payload);
        }
        p->frame = f;
    }
    return 0;
}

static bool is_usable(const struct psc_link *l, const struct psc_part *p) {
    return l->stream && !l->lanes.broken.code && (l->state == PSC_LINK_UP || p->call->greets);
}

/* Another part of its call has failed, so this one is not sent.  A part that was sent before must
 * be sent again, as it has a number, and the shard expects all numbers. */
static bool is_void(const struct psc_part *p) {
    return p->call->err.code && !p->call->whole && p->state == PSC_PART_QUEUED;
}

/* Whether the first part of the line can be sent, or must be ended. */
static bool can_send(struct psc_link *l, const struct psc_line *line) {
    const struct psc_part *p = line->queue;
    return p &&
           (is_void(p) || (is_usable(l, p) &&
                              (p->call->greets || (psc_client_carrier_free(l, p) &&
                                                      psc_inflight_has_room(&l->inflight, p)))));
}

/* Takes the next part to send out of its queue.  Lines take turns; *turn: which one is next.  NULL:
 * there is none. */
static struct psc_part *next_part(struct psc_link *l, uint32_t *turn) {
    struct psc_inflight *f = &l->inflight;
    for (uint32_t n = 0; n <= f->shards && f->queued > 0;) {
        struct psc_line *line = psc_inflight_line(f, *turn);
        if (!can_send(l, line)) {
            n++;
            *turn = *turn < f->shards ? *turn + 1 : 0;
            continue;
        }
        struct psc_part *p = psc_inflight_unqueue(f, line);
        if (!is_void(p)) {
            *turn = *turn < f->shards ? *turn + 1 : 0;
            return p;
        }
        psc_part_end(l->c, p, &p->call->err);
    }
    return NULL;
}

/* The part's frame is made, or not (err).  False: it cannot be sent now. */
static bool take_made(struct psc_link *l, struct psc_part *p, struct co_err *err) {
    struct rt_client *c = l->c;
    struct psc_links *k = c->links;
    if (!err->code) {
        *err = k->failed;
    }
    if (err->code) {
        if (p->call->done) { /* nobody waits for the call, so the client fails */
            psc_calls_fail(c, err);
        }
        psc_part_end(c, p, err);
        return false;
    }
    if (!is_usable(l, p)) { /* the connection broke meanwhile */
        psc_part_set(c, p, PSC_PART_QUEUED);
        psc_inflight_queue_next(&l->inflight, p);
        return false;
    }
    psc_inflight_admit(&l->inflight, p);
    psc_slots_take(&k->slots, p);
    psc_client_expects(c);
    rpc_frame_seal(p->frame);
    psc_part_made(c, p->call);
    return true;
}

/* A frame on its way, and what carries it; stream NULL: none. */
struct sending {
    struct rpc_stream *stream;
    struct rpc_frame *frame;
};

static struct sending note_sent(struct psc_link *l, struct psc_part *p) {
    psc_part_set(l->c, p, PSC_PART_SENT);
    psc_inflight_sent(&l->inflight, p);
    return (struct sending){rpc_stream_ref(psc_client_carrier(l, p)), rpc_frame_ref(p->frame)};
}

/* Makes the frame of a part in state MAKING. */
static struct sending make_part(struct psc_link *l, struct psc_part *p) {
    struct sending s = {0};
    struct co_err err = {0};
    (void)!make_frame(p, &err);
    psc_lock(l->c);
    if (take_made(l, p, &err)) {
        s = note_sent(l, p);
    }
    psc_unlock(l->c);
    return s;
}

/* Takes the turn to send the waiting parts of a link.  False: there are none, or another thread has
 * it. */
static bool begin_pump(struct psc_link *l) {
    psc_lock(l->c);
    bool mine = !l->pumping && l->inflight.queued > 0;
    l->pumping = l->pumping || mine;
    psc_unlock(l->c);
    return mine;
}

void psc_client_pump(struct psc_link *l) {
    struct rt_client *c = l->c;
    uint32_t turn = 0;
    bool flushed = false; /* the lanes, since the last part was sent */
    for (bool pumping = begin_pump(l); pumping;) {
        struct sending s = {0};
        psc_lock(c);
        struct psc_part *p = next_part(l, &turn);
        bool again = p && p->state == PSC_PART_AGAIN;
        if (again) {
            s = note_sent(l, p);
        } else if (p) {
            psc_part_set(c, p, PSC_PART_MAKING);
        }
        l->pumping = pumping = p || !flushed;
        psc_unlock(c);
        if (p && !again) {
            s = make_part(l, p);
        }
        if (s.stream) {
            /* If the stream is over, on_close will queue the part again. */
            (void)!rpc_stream_send(s.stream, s.frame, NULL);
            rpc_stream_unref(s.stream);
        } else if (!p && pumping) {
            psc_client_flush_lanes(l); /* this may make room */
        }
        flushed = !p;
    }
}
