/* The event loop of a shard's thread, on epoll.  A frame's way through one lane:
 *
 *     socket --> place.waiting --> ops->frame, one by one --> the lane's queue --> socket
 *
 * A lane is not read while frames of it wait, while its peer does not read its answers, or while
 * others hold too many of its frames (rpc_stream_paused).  A `place` is what this file knows of one
 * lane.  Any change of a place puts it on the list `touched`.  At the end of a turn
 * shard_lanes_flush goes through that list: it sends the answers, sets in epoll which events matter
 * now, and frees lanes that were shut. */
#include "runtime/train/ps/shard/lanes.h"

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

/* TURN_NS: a lane may keep the others waiting for a millisecond. */
enum { EVENTS = 64, TURN_NS = 1000000 };

struct lane_slot {
    struct shard_lanes *all;
    struct rpc_lane *lane; /* counted */
    uint32_t trainer;
    struct rpc_stream *stream; /* counted: the connection that the lane belongs to */
    struct rpc_frame *waiting; /* read, not handled yet */
    uint32_t events;           /* as registered with epoll */
    bool touched, gone;        /* gone: shut; freed by the next flush */
    bool early;                /* ops->early said so of the first waiting frame */
    struct lane_slot *next_touched;
    struct lane_slot *next, **at; /* in the list of all places */
};

struct shard_lanes {
    uint32_t shard;
    const struct shard_lanes_ops *ops;
    void *arg;
    int epoll, wake;
    struct lane_slot *places, *touched;
    bool left;         /* some lane has waiting frames that can be handled now */
    bool early;        /* some lane has frames that must wait for shard_lanes_again */
    struct co_err why; /* of a lost lane; shared, as clearing it costs more than most reads */
    struct rpc_lane_room room;
};

static void touch(struct lane_slot *p) {
    if (!p->touched) {
        p->touched = true;
        p->next_touched = p->all->touched;
        p->all->touched = p;
    }
}

static void on_stir(void *place) {
    touch(place);
}

/* ---- adding and removing lanes ---- */

int shard_lanes_new(uint32_t shard, const struct shard_lanes_ops *ops, void *arg,
    struct shard_lanes **ret, struct co_err *err) {
    struct shard_lanes *all = co_xcalloc(1, sizeof(*all));
    all->shard = shard;
    all->ops = ops;
    all->arg = arg;
    all->epoll = epoll_create1(EPOLL_CLOEXEC);
    all->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN};
    if (all->epoll < 0 || all->wake < 0 ||
        epoll_ctl(all->epoll, EPOLL_CTL_ADD, all->wake, &e) < 0) {
        int rc = co_err_errno(err, errno, "cannot watch the lanes of a shard");
        shard_lanes_free(all);
        return rc;
    }
    *ret = all;
    return 0;
}

/* Shuts the lane.  The flush frees the place: callers may still hold pointers to it. */
static void end_place(struct lane_slot *p) {
    if (!p->gone) {
        p->gone = true;
        (void)epoll_ctl(p->all->epoll, EPOLL_CTL_DEL, rpc_lane_fd(p->lane), NULL);
        rpc_lane_shut(p->lane);
        touch(p);
    }
}

static void free_place(struct lane_slot *p) {
    *p->at = p->next;
    if (p->next) {
        p->next->at = p->at;
    }
    for (struct rpc_frame *f = p->waiting, *next; f; f = next) {
        next = f->next;
        rpc_frame_free(f);
    }
    rpc_stream_unref(rpc_lane_stream(p->lane));
    rpc_stream_unref(p->stream);
    free(p);
}

void shard_lanes_free(struct shard_lanes *all) {
    if (!all) {
        return;
    }
    for (struct lane_slot *p = all->places; p; p = p->next) {
        end_place(p);
    }
    shard_lanes_flush(all);
    if (all->epoll >= 0) {
        co_close(all->epoll);
    }
    if (all->wake >= 0) {
        co_close(all->wake);
    }
    free(all);
}

static void lose(struct lane_slot *p, const struct co_err *why) {
    if (!p->gone) {
        end_place(p);
        rpc_stream_break(p->stream, why);
    }
}

static uint32_t count_of(const struct shard_lanes *all, uint32_t trainer) {
    uint32_t n = 0;
    for (const struct lane_slot *p = all->places; p; p = p->next) {
        n += p->trainer == trainer && !p->gone;
    }
    return n;
}

static void refuse_lane(struct rpc_lane *lane, const struct co_err *why) {
    struct rpc_stream *s = rpc_lane_stream(lane);
    size_t left = 0;
    (void)!rpc_stream_send(s, rpc_frame_error(NULL, why->code, co_err_text(why)), NULL);
    (void)!rpc_lane_flush(lane, &left, NULL);
    rpc_stream_unref(s);
}

void shard_lanes_add(struct shard_lanes *all, uint32_t trainer, struct rpc_stream *stream,
    struct rpc_lane *lane_own) {
    struct co_err why = {0};
    struct lane_slot *p = co_xcalloc(1, sizeof(*p));
    *p = (struct lane_slot){.all = all,
        .lane = lane_own,
        .trainer = trainer,
        .stream = stream,
        .events = EPOLLIN,
        .next = all->places,
        .at = &all->places};
    struct epoll_event e = {.events = p->events, .data.ptr = p};
    if (count_of(all, trainer) >= SHARD_LANES_EACH) {
        co_err_set(&why, CO_NORESOURCE, "trainer %u has %d lanes to shard %u already", trainer,
            SHARD_LANES_EACH, all->shard);
    } else if (epoll_ctl(all->epoll, EPOLL_CTL_ADD, rpc_lane_fd(lane_own), &e) < 0) {
        co_err_errno(&why, errno, "cannot watch a lane");
    }
    if (why.code) {
        free(p);
        refuse_lane(lane_own, &why);
        return;
    }
    if (p->next) {
        p->next->at = &p->next;
    }
    all->places = p;
    (void)rpc_stream_ref(stream);
    rpc_lane_set_owner(lane_own, on_stir, p);
}

void shard_lanes_keep(struct shard_lanes *all, uint32_t trainer, const struct rpc_stream *stream) {
    for (struct lane_slot *p = all->places; p; p = p->next) {
        if (p->trainer == trainer && p->stream != stream) {
            end_place(p);
        }
    }
}

void shard_lanes_drop(struct shard_lanes *all, const struct rpc_stream *stream) {
    for (struct lane_slot *p = all->places; p; p = p->next) {
        if (p->stream == stream) {
            end_place(p);
        }
    }
}

/* ---- a turn ---- */

/* Returns false if the frame was invalid; the lane is then shut. */
static bool check_frame(struct lane_slot *p, const struct rpc_frame *f) {
    if (f->head.kind >= RPC_FRAME_KINDS || f->head.shard != p->all->shard) {
        co_err_set(&p->all->why, CO_INVALID, "%s for shard %u on a lane to shard %u",
            rpc_frame_kind_name(f->head.kind), f->head.shard, p->all->shard);
        lose(p, &p->all->why);
    }
    return !p->gone;
}

static bool takes_answers(const struct lane_slot *p) {
    return rpc_lane_queued(p->lane) < SHARD_LANE_UNSENT;
}

static void do_frames(struct lane_slot *p) {
    int64_t end = co_now_ns() + TURN_NS;
    while (p->waiting && !p->gone && takes_answers(p)) {
        struct rpc_frame *f = p->waiting;
        if (!check_frame(p, f)) {
            return;
        }
        p->early = p->all->ops->early(p->all->arg, p->trainer, f);
        if (p->early) {
            p->all->early = true;
            break;
        }
        p->waiting = f->next;
        f->next = NULL;
        p->all->ops->frame(p->all->arg, p->trainer, f);
        if (p->waiting && co_now_ns() > end) {
            break;
        }
    }
    touch(p);
}

static bool is_readable(const struct lane_slot *p) {
    return !p->waiting && takes_answers(p) && !rpc_stream_paused(rpc_lane_stream(p->lane));
}

static void serve_place(struct lane_slot *p, uint32_t events) {
    struct co_err *why = &p->all->why;
    if (p->gone) {
        return;
    }
    if (is_readable(p) && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        if (rpc_lane_read(p->lane, &p->all->room, &p->waiting, why) < 0) {
            lose(p, why);
            return;
        }
    } else if (events & (EPOLLHUP | EPOLLERR)) {
        co_err_set(why, CO_PEERLOST, "connection closed");
        lose(p, why);
        return;
    }
    do_frames(p);
}

/* Calls epoll_pwait2 directly: glibc has a wrapper only since 2.35.  Kernels before 5.11 lack the
 * call; there the wait is rounded up to milliseconds.  ns below 0: no limit. */
static int wait_events(int epoll, struct epoll_event events[EVENTS], int64_t ns) {
    struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    /* no deadline: until a lane has something, or shard_lanes_wake */
    long n = syscall(SYS_epoll_pwait2, epoll, events, EVENTS, ns < 0 ? NULL : &time, NULL, 0);
    int64_t ms = ns / 1000000 + (ns % 1000000 > 0);

    if (n >= 0 || errno != ENOSYS) {
        return (int)n;
    }
    /* no deadline: as above */
    return epoll_wait(epoll, events, EVENTS, ns < 0 ? -1 : (int)(ms < INT_MAX ? ms : INT_MAX));
}

bool shard_lanes_turn(struct shard_lanes *all, int64_t wait_ns) {
    struct epoll_event events[EVENTS];
    int n = wait_events(all->epoll, events, all->left ? 0 : wait_ns);
    bool any = all->left;
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr) {
            serve_place(events[i].data.ptr, events[i].events);
            any = true;
        } else {
            uint64_t count;
            /* no wait: the descriptor is non-blocking */
            (void)!read(all->wake, &count, sizeof(count));
        }
    }
    if (all->left) {
        all->left = false;
        for (struct lane_slot *p = all->places; p; p = p->next) {
            if (p->waiting && !p->gone && !p->early) {
                do_frames(p);
            }
        }
    }
    return any;
}

/* The end of a turn for one lane.  Frames that were read but not handled raise no epoll event, so
 * `left` keeps the next turn from waiting. */
static void settle(struct lane_slot *p) {
    size_t left = 0;
    if (!p->gone && rpc_lane_flush(p->lane, &left, &p->all->why) < 0) {
        lose(p, &p->all->why);
    }
    if (p->gone) {
        return;
    }
    uint32_t want = (is_readable(p) ? EPOLLIN : 0U) | (left > 0 ? EPOLLOUT : 0U);
    p->all->left = p->all->left || (p->waiting && takes_answers(p) && !p->early);
    if (want != p->events) {
        struct epoll_event e = {.events = want, .data.ptr = p};
        p->events = want;
        (void)epoll_ctl(p->all->epoll, EPOLL_CTL_MOD, rpc_lane_fd(p->lane), &e);
    }
}

void shard_lanes_flush(struct shard_lanes *all) {
    while (all->touched) {
        struct lane_slot *p = all->touched;
        all->touched = p->next_touched;
        settle(p);
        p->touched = false;
        if (p->gone) {
            free_place(p);
        }
    }
}

void shard_lanes_again(struct shard_lanes *all) {
    for (struct lane_slot *p = all->early ? all->places : NULL; p; p = p->next) {
        all->left = all->left || p->early;
        p->early = false;
    }
    all->early = false;
}

void shard_lanes_wake(struct shard_lanes *all) {
    (void)!write(all->wake, &(uint64_t){1}, sizeof(uint64_t));
}
