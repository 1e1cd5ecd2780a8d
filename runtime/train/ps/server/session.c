/* The connections of trainers: their control messages go to admit.c (hello, begin), barrier.c and
 * pace.c, or end here (finish, leave); their other frames go to the shards.  Runs on the rpc's
 * thread. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/server/server_internal.h"

/* One notice for each pair of 2,000 trainers is 4 million: in jobs of more than this many trainers
 * those who finish within a tick share one. */
enum { AT_ONCE_MAX = 64 };

/* ---- control messages ---- */

void pss_session_set(struct pss_session *se, enum pss_session_state to) {
    /* A bit for each state that may follow. */
    static const unsigned next[] = {
        [PSS_SESSION_NEW] = 1U << PSS_SESSION_JOINED | 1U << PSS_SESSION_REFUSED,
        [PSS_SESSION_JOINED] = 1U << PSS_SESSION_BEGUN | 1U << PSS_SESSION_REFUSED,
        [PSS_SESSION_BEGUN] =
            1U << PSS_SESSION_JOINED | 1U << PSS_SESSION_BEGUN | 1U << PSS_SESSION_REFUSED,
        [PSS_SESSION_REFUSED] = 0,
    };
    assert(next[se->state] & 1U << to);
    se->state = to;
}

bool pss_session_is_current(const struct pss_session *se) {
    const struct pss_member *m =
        se->trainer == PSS_NOBODY ? NULL : &se->server->members.all[se->trainer];
    return m && m->stream == se->stream;
}

bool pss_session_is_alive(const struct pss_session *se) {
    return pss_session_is_current(se) &&
           se->server->members.all[se->trainer].state == PSS_MEMBER_ALIVE;
}

int pss_session_answer(struct rpc_stream *stream, uint64_t seq, struct co_err *err) {
    struct rpc_frame *a = NULL;
    CO_TRY(rpc_frame_new(RPC_FRAME_CONTROL | RPC_FRAME_ANSWER, 0, &a, err));
    a->head.seq = seq;
    return rpc_stream_send(stream, a, err);
}

void pss_server_finish(struct pss_server *s, uint32_t trainer) {
    pss_member_set(&s->members, trainer, PSS_MEMBER_FINISHED);
    s->left_ms = co_now_ms();
    for (uint32_t i = 0; i < s->config.shards; i++) {
        shard_finished(s->shards[i], trainer);
    }
    pss_server_barrier(s);
    pss_server_pace_check(s, co_now_ms());
    pss_server_check_end(s);
}

void pss_server_send_finished(struct pss_server *s) {
    if (s->unsaid == 0) {
        return;
    }
    CO_AUTOFREE uint32_t *trainers = co_xcalloc(s->unsaid, sizeof(*trainers));
    Rpc__Finished m = RPC__FINISHED__INIT;
    m.trainers = trainers;
    for (uint32_t i = 0; i < s->members.n; i++) {
        if (s->members.all[i].unsaid) {
            s->members.all[i].unsaid = false;
            trainers[m.n_trainers++] = i;
        }
    }
    s->unsaid = 0;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_FINISHED;
    c.finished = &m;
    for (struct pss_session *se = s->sessions; se; se = se->next) {
        struct rpc_frame *f = NULL;
        if (pss_session_is_alive(se) && ps_control_pack(&c, NULL, &f, NULL) == 0) {
            (void)!rpc_stream_send(se->stream, f, NULL);
        }
    }
}

static int do_finish(struct pss_session *se, const struct rpc_frame *f, struct co_err *err) {
    struct pss_server *s = se->server;
    int rc = pss_session_answer(se->stream, f->head.seq, err);
    if (s->members.all[se->trainer].state == PSS_MEMBER_FINISHED) {
        return rc; /* sent again, since the answer was lost with a broken connection */
    }
    pss_server_say(s, "trainer %u has finished", se->trainer);
    pss_server_finish(s, se->trainer);
    s->members.all[se->trainer].unsaid = true;
    s->unsaid++;
    if (s->members.n <= AT_ONCE_MAX) {
        pss_server_send_finished(s);
    }
    return rc;
}

static int do_leave(struct pss_session *se, const Rpc__Leave *l) {
    struct pss_server *s = se->server;
    struct pss_member *m = &s->members.all[se->trainer];
    char cause[sizeof(m->cause)];
    (void)snprintf(cause, sizeof(cause), "gave up: %s", l->why);
    if (m->state == PSS_MEMBER_FINISHED) {
        m->parted = true;
    } else if (l->returns && !s->over) {
        pss_server_expect(s, se->trainer);
    } else if (!s->over) {
        pss_server_lose(s, se->trainer, cause);
    }
    rpc_stream_end(se->stream);
    return 0;
}

static int do_control(struct pss_session *se, const struct rpc_frame *f, struct co_err *err) {
    CO_CLEANUP(ps_control_freep) Rpc__Control *c = NULL;
    CO_TRY(ps_control_unpack(f, &c, err));
    bool again = c->body_case == RPC__CONTROL__BODY_BEGIN ||
                 c->body_case == RPC__CONTROL__BODY_FINISH ||
                 c->body_case == RPC__CONTROL__BODY_LEAVE;
    if (c->body_case != RPC__CONTROL__BODY_HELLO && !pss_session_is_alive(se) &&
        !(again && pss_session_is_current(se))) {
        return co_err_set(err, CO_INVALID, "this connection does not belong to a trainer");
    }
    switch (c->body_case) {
    case RPC__CONTROL__BODY_HELLO:
        return pss_session_hello(se, f, c->hello, err);
    case RPC__CONTROL__BODY_BEGIN:
        return pss_session_begin(se, f, c->begin, err);
    case RPC__CONTROL__BODY_BARRIER:
        return pss_session_barrier(se, f, c->barrier, err);
    case RPC__CONTROL__BODY_FINISH:
        return do_finish(se, f, err);
    case RPC__CONTROL__BODY_LEAVE:
        return do_leave(se, c->leave);
    case RPC__CONTROL__BODY_LATE:
        return pss_session_late(se, f, c->late, err);
    case RPC__CONTROL__BODY_PACE:
        return pss_server_pace(se, f, c->pace, err);
    default:
        return co_err_set(err, CO_INVALID, "control message %d is unknown", (int)c->body_case);
    }
}

/* ---- callbacks ---- */

static void on_open(void *arg, struct rpc_stream *stream) {
    struct pss_server *s = arg;
    struct pss_session *se = co_xcalloc(1, sizeof(*se));
    *se = (struct pss_session){.server = s,
        .stream = stream,
        .since_ms = co_now_ms(),
        .trainer = PSS_NOBODY,
        .next = s->sessions};
    if (se->next) {
        se->next->prev = se;
    }
    s->sessions = se;
    rpc_stream_set_user(stream, se);
}

static void refuse_peer(
    struct pss_session *se, const struct rpc_frame *f, const struct co_err *err) {
    pss_server_say_refused(se->server, rpc_stream_peer(se->stream), err);
    pss_session_set(se, PSS_SESSION_REFUSED);
    (void)!rpc_stream_send(
        se->stream, rpc_frame_error(&f->head, err->code, co_err_text(err)), NULL);
    rpc_stream_end(se->stream);
}

static void answer_ping(struct pss_session *se, const struct rpc_frame *f) {
    struct rpc_frame *a = NULL;
    if (rpc_frame_new(RPC_FRAME_PING | RPC_FRAME_ANSWER, 0, &a, NULL) == 0) {
        a->head.seq = f->head.seq;
        (void)!rpc_stream_send(se->stream, a, NULL);
    }
}

static void on_frame(void *arg, struct rpc_stream *stream, struct rpc_frame *f_own) {
    struct pss_server *s = arg;
    struct pss_session *se = rpc_stream_user(stream);
    CO_CLEANUP(rpc_frame_freep) struct rpc_frame *f = f_own;
    struct co_err err = {0};
    if (se->state == PSS_SESSION_REFUSED || (s->signaled && f->head.kind != RPC_FRAME_CONTROL)) {
        return;
    }
    bool alive = pss_session_is_alive(se);
    if (alive) {
        s->members.all[se->trainer].received_ms = co_now_ms();
    }
    if (f->head.kind == RPC_FRAME_CONTROL) {
        if (do_control(se, f, &err) < 0) {
            refuse_peer(se, f, &err);
        }
    } else if (se->trainer != PSS_NOBODY && f->head.kind == RPC_FRAME_PING) {
        answer_ping(se, f);
    } else if (se->state != PSS_SESSION_BEGUN) {
        co_err_set(
            &err, CO_INVALID, "%s before hello and begin", rpc_frame_kind_name(f->head.kind));
        refuse_peer(se, f, &err);
    } else if (f->head.kind >= RPC_FRAME_KINDS || f->head.shard >= s->config.shards) {
        co_err_set(&err, CO_INVALID, "%s for shard %u of %u", rpc_frame_kind_name(f->head.kind),
            f->head.shard, s->config.shards);
        refuse_peer(se, f, &err);
    } else if (alive) {
        struct shard *shard = s->shards[f->head.shard];
        shard_post(shard, se->trainer, co_steal_ptr(f));
    }
}

static void leave_member(struct pss_session *se, const struct co_err *why) {
    struct pss_server *s = se->server;
    struct pss_member *m = &s->members.all[se->trainer];
    pss_server_close_door(s, se->trainer, se->stream);
    for (uint32_t i = 0; i < s->config.shards; i++) {
        shard_left(s->shards[i], se->trainer, se->stream);
    }
    if (m->stream == se->stream) {
        rpc_stream_unref(m->stream);
        m->stream = NULL;
        if (m->state == PSS_MEMBER_ALIVE && !s->over) {
            pss_server_miss(s, se->trainer, co_err_text(why));
        }
    }
}

static void on_close(void *arg, struct rpc_stream *stream, const struct co_err *why) {
    struct pss_server *s = arg;
    struct pss_session *se = rpc_stream_user(stream);
    if (why->code == CO_INVALID) { /* the peer sent bytes that are no frame */
        pss_server_say_refused(s, rpc_stream_peer(stream), why);
    }
    if (se->trainer != PSS_NOBODY) {
        leave_member(se, why);
    }
    if (se->prev) {
        se->prev->next = se->next;
    } else {
        s->sessions = se->next;
    }
    if (se->next) {
        se->next->prev = se->prev;
    }
    free(se);
    pss_server_notify(s);
}

static void on_refused(void *arg, size_t n, const char *peer, const struct co_err *why) {
    struct pss_server *s = arg;
    s->refused += n - 1;
    s->refusals.unsaid += n - 1;
    pss_members_refuse(&s->members, PSS_NOBODY, peer, why);
    pss_server_say_refused(s, peer, why);
}

const struct rpc_ops pss_session_ops = {.on_open = on_open,
    .on_frame = on_frame,
    .on_close = on_close,
    .on_lane = pss_server_on_lane,
    .on_tick = pss_server_tick,
    .on_refused = on_refused};
