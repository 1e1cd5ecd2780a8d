/* Opens, reads and drops the data lanes of a client.  lanes.h says which thread reads:
 *
 *     nobody  -->  a thread in psc_client_wait  -->  nobody; the threads that wait are woken
 *             -->  the client's own thread     -->  nobody, at the latest when another one waits
 *
 * The reader sleeps in epoll without the lock.  A thread that changes something the reader may wait
 * for writes to `wake` if the reader sleeps. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/thread.h"
#include "runtime/net/net.h"
#include "runtime/train/ps/client/link_internal.h"
#include "runtime/train/rpc/pass.h"

enum {
    CONNECT_MS = 2000,
    PROVE_MS = 5000,
    ANSWER_MS = 10000,
    EVENTS = 16,
    WAY_UNSENT = 8 << 20, /* a lane with this many queued bytes gets no more frames */
    NAP_MS = 2,           /* the client's own thread reads if no other has for so long */
    NAPS_MAX = 50,        /* after so many naps without need it sleeps until called */
    LOOK_MS = 1000,       /* the longest wait in epoll */
    LAST_WORD_TICKS = 10, /* about a second: how long a stream may take to say why a lane broke */
};

struct psc_reader {
    struct rt_client *c;
    int epoll, wake;
    struct rpc_lane_room room; /* of the thread that reads */
    atomic_bool asleep;        /* the reader is in epoll */
    pthread_t thread;
    /* guarded by the lock of links */
    uint32_t n_lanes;
    bool reading, own;  /* a thread reads; it is the client's own */
    uint32_t followers; /* threads that wait for the reader */
    uint64_t rounds;    /* how often a thread began to read */
    bool started, stopping, idle;
    pthread_cond_t called; /* wakes the client's own thread */
};

static void wake_reader(struct psc_reader *r) {
    if (atomic_load(&r->asleep)) {
        (void)!write(r->wake, &(uint64_t){1}, sizeof(uint64_t));
    }
}

/* ---- lanes ---- */

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

static struct epoll_event event_of(const struct psc_link *l, uint32_t shard, bool full) {
    return (struct epoll_event){.events = EPOLLIN | (full ? EPOLLOUT : 0U),
        .data.u64 = (uint64_t)(l->index + 1) << 32 | shard};
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
        struct epoll_event e = event_of(l, shard, full);
        w->full = full;
        (void)epoll_ctl(l->c->reader->epoll, EPOLL_CTL_MOD, rpc_lane_fd(lane), &e);
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
        struct psc_reader *r = l->c->reader;
        (void)epoll_ctl(r->epoll, EPOLL_CTL_DEL, rpc_lane_fd(l->lanes.all[i].lane), NULL);
        r->n_lanes--;
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

static void serve_lane(struct rt_client *c, const struct epoll_event *e) {
    struct psc_link *l = &c->links->at[(e->data.u64 >> 32) - 1];
    uint32_t shard = (uint32_t)e->data.u64;
    psc_lock(c);
    struct rpc_lane *lane = take_lane(l, shard);
    l->received_ms = lane ? co_now_ms() : l->received_ms;
    psc_unlock(c);
    if (!lane) {
        return;
    }
    struct co_err why = {0};
    struct rpc_frame *first = NULL;
    if (e->events & EPOLLOUT) {
        (void)rpc_stream_ref(rpc_lane_stream(lane));
        flush_lane(l, shard, lane);
        psc_client_pump(l); /* there may be room */
    }
    if (e->events & ~(uint32_t)EPOLLOUT &&
        rpc_lane_read(lane, &c->reader->room, &first, &why) < 0) {
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

/* Reads for all threads, until something arrives or the deadline passes.  The lock is held, and
 * released meanwhile. */
static void read_lanes(struct rt_client *c, int64_t deadline_ms, bool own) {
    struct psc_reader *r = c->reader;
    struct epoll_event events[EVENTS];
    r->reading = true;
    r->own = own;
    r->rounds++;
    atomic_store(&r->asleep, true);
    psc_unlock(c);
    int64_t left = deadline_ms - co_now_ms();
    int n =
        epoll_wait(r->epoll, events, EVENTS, left > 0 ? (int)(left < LOOK_MS ? left : LOOK_MS) : 0);
    atomic_store(&r->asleep, false);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == 0) {
            uint64_t count;
            /* no wait: the descriptor is non-blocking */
            (void)!read(r->wake, &count, sizeof(count));
        } else {
            serve_lane(c, &events[i]);
        }
    }
    psc_lock(c);
    r->reading = false;
    if (r->followers > 0) {
        pthread_cond_broadcast(&c->links->changed);
    }
}

bool psc_client_wait(struct rt_client *c, int64_t deadline_ms) {
    struct psc_reader *r = c->reader;
    if (r && r->n_lanes > 0 && !r->reading) {
        read_lanes(c, deadline_ms, false);
        return co_now_ms() < deadline_ms;
    }
    if (r && r->reading && r->own) {
        wake_reader(r);
    }
    if (r) {
        r->followers++;
    }
    bool in_time = co_cond_wait_until(&c->links->changed, &c->links->m, deadline_ms);
    if (r) {
        r->followers--;
    }
    return in_time;
}

void psc_client_changed(struct rt_client *c) {
    pthread_cond_broadcast(&c->links->changed);
    if (c->reader) {
        wake_reader(c->reader);
    }
}

/* ---- the client's own thread ---- */

bool psc_client_is_idle(const struct rt_client *c) {
    return c->reader && c->reader->idle;
}

void psc_client_expects(struct rt_client *c) {
    if (c->reader && c->reader->idle) {
        c->reader->idle = false;
        pthread_cond_signal(&c->reader->called);
    }
}

/* Reads when answers are due and, during one nap, no other thread has read or waited. */
static void *run_own(void *arg) {
    struct psc_reader *r = arg;
    struct rt_client *c = r->c;
    uint64_t seen = 0;
    uint32_t naps = 0;
    psc_lock(c);
    while (!r->stopping) {
        bool wanted = c->links->slots.used > 0 && r->n_lanes > 0;
        if (wanted && !r->reading && r->rounds == seen && r->followers == 0) {
            read_lanes(c, co_now_ms() + LOOK_MS, true);
            seen = r->rounds;
            continue;
        }
        seen = r->rounds;
        naps = wanted ? 0 : naps + 1;
        if (naps > NAPS_MAX) {
            r->idle = true;
            /* no deadline: until psc_client_expects, or psc_reader_free */
            pthread_cond_wait(&r->called, &c->links->m);
            naps = 0;
        } else {
            (void)co_cond_wait_until(&r->called, &c->links->m, co_now_ms() + NAP_MS);
        }
    }
    psc_unlock(c);
    return NULL;
}

CO_DEFINE_CLEANUP(struct psc_reader *, psc_reader_free)

int psc_reader_new(struct rt_client *c, struct psc_reader **ret, struct co_err *err) {
    CO_CLEANUP(psc_reader_freep) struct psc_reader *r = co_xcalloc(1, sizeof(*r));
    r->c = c;
    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    co_cond_init(&r->called);
    struct epoll_event e = {.events = EPOLLIN};
    if (r->epoll < 0 || r->wake < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->wake, &e) < 0) {
        return co_err_errno(err, errno, "epoll for data lanes");
    }
    int failed = co_thread_start(&r->thread, run_own, r);
    if (failed) {
        return co_err_errno(err, failed, "cannot start a thread for data lanes");
    }
    r->started = true;
    *ret = co_steal_ptr(r);
    return 0;
}

void psc_reader_free(struct psc_reader *r) {
    if (!r) {
        return;
    }
    if (r->started) {
        psc_lock(r->c);
        r->stopping = true;
        pthread_cond_signal(&r->called);
        wake_reader(r);
        psc_unlock(r->c);
        /* no deadline: it is woken, and reads for LOOK_MS at most */
        pthread_join(r->thread, NULL);
    }
    if (r->epoll >= 0) {
        co_close(r->epoll);
    }
    if (r->wake >= 0) {
        co_close(r->wake);
    }
    pthread_cond_destroy(&r->called);
    free(r);
}

/* ---- opening ---- */

/* New connections to all shards of some servers; arrays of n. */
struct opening {
    uint32_t n;
    struct net_dial *dials;
    const char **addresses;
    uint32_t *which; /* index in the caller's list of servers */
};

static void opening_done(struct opening *o) {
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->dials[i].fd >= 0) {
            co_close(o->dials[i].fd);
            co_tls_free(o->dials[i].tls);
        }
    }
    free(o->dials);
    free(o->addresses);
    free(o->which);
}

static void list_lanes(struct rt_client *c, const uint32_t *which, uint32_t n, struct opening *o) {
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct psc_link *l = &c->links->at[which[i]];
        all += l->welcome.key ? l->inflight.shards : 0;
    }
    *o = (struct opening){.dials = co_xcalloc(all, sizeof(*o->dials)),
        .addresses = co_xcalloc(all, sizeof(char *)),
        .which = co_xcalloc(all, sizeof(*o->which))};
    for (uint32_t i = 0; i < n; i++) {
        const struct psc_link *l = &c->links->at[which[i]];
        for (uint32_t k = 0; l->welcome.key && k < l->inflight.shards; k++) {
            struct rpc_pass pass = {RPC_FOR_LANE, c->trainer, k, l->welcome.key};
            rpc_pass_write(&pass, o->dials[o->n].hello);
            o->addresses[o->n] = l->lanes.address;
            o->which[o->n++] = i;
        }
    }
}

/* Connects and proves the token; failures go to errs. */
static void knock_lanes(struct rt_client *c, struct opening *o, struct co_err *errs) {
    CO_AUTOFREE struct net_reached *reached = co_xcalloc(o->n, sizeof(*reached));
    (void)net_connect(o->addresses, o->n, psc_client_left(c, CONNECT_MS), reached);
    for (uint32_t i = 0; i < o->n; i++) {
        o->dials[i].fd = reached[i].fd;
        if (reached[i].fd < 0) {
            co_err_set(&errs[o->which[i]], CO_PEERLOST, "nothing listens at %s", o->addresses[i]);
        }
    }
    net_dial_all(&c->auth, o->dials, o->n, co_now_ms() + psc_client_left(c, PROVE_MS), -1);
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->dials[i].err.code) {
            errs[o->which[i]] = o->dials[i].err;
        }
    }
}

/* From now on the link's frames use its lanes; the lock is held. */
static int use_lanes(
    struct rt_client *c, struct psc_link *l, struct net_dial *dials, struct co_err *err) {
    struct psc_reader *r = c->reader;
    l->lanes.n = l->inflight.shards;
    l->lanes.all = co_xcalloc(l->inflight.shards, sizeof(*l->lanes.all));
    int rc = 0;
    for (uint32_t k = 0; k < l->inflight.shards; k++) {
        struct epoll_event e = event_of(l, k, false);
        l->lanes.all[k].lane = rpc_lane_new(dials[k].fd, co_steal_ptr(dials[k].tls), l->endpoint);
        if (rc == 0 && epoll_ctl(r->epoll, EPOLL_CTL_ADD, dials[k].fd, &e) < 0) {
            rc = co_err_errno(err, errno, "epoll for a data lane");
        }
        dials[k].fd = -1;
        r->n_lanes++;
    }
    return rc;
}

/* Sends a ping over every lane of a link, to learn whether the server accepts the lane. */
static struct rt_call *try_lanes(struct rt_client *c, const struct psc_link *l) {
    struct rt_call *call = psc_call_new(c, "data lane", NULL, l->inflight.shards);
    call->harmless = true;
    call->greets = true;
    for (uint32_t k = 0; k < l->inflight.shards; k++) {
        struct rpc_frame_head head = {.kind = RPC_FRAME_PING, .shard = k};
        psc_call_part(call, k, l->index, &head, 0);
    }
    psc_call_start(call);
    return call;
}

void psc_client_open_lanes(
    struct rt_client *c, const uint32_t *which, uint32_t n, struct co_err *errs) {
    CO_AUTOFREE struct rt_call **calls = co_xcalloc(n, sizeof(struct rt_call *));
    struct opening o;
    list_lanes(c, which, n, &o);
    knock_lanes(c, &o, errs);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct psc_link *l = &c->links->at[which[i]];
        bool any = at < o.n && o.which[at] == i;
        if (any && !errs[i].code) {
            psc_lock(c);
            (void)!use_lanes(c, l, &o.dials[at], &errs[i]);
            psc_unlock(c);
            calls[i] = try_lanes(c, l);
        }
        at += any ? l->inflight.shards : 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (calls[i]) {
            (void)!psc_call_wait(calls[i], psc_client_left(c, ANSWER_MS), &errs[i]);
        }
    }
    opening_done(&o);
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
