#include "runtime/train/ps/server_internal.h"

#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/say.h"

enum { SERVERS_MAX = 65536, JOB_MAX = 1024, IN_FLIGHT_MS = 500, RIVAL_GONE_MS = 10000 };

/* ---- what trainers ask for ---- */

/* A server that was started without a list has its place, and its job, from the first trainer. */
static int learn_place(struct rt_server *s, const Rt__Hello *h, struct co_err *err) {
    struct rt_server_config *c = &s->config;
    if (h->servers < 1 || h->servers > SERVERS_MAX || h->server >= h->servers ||
        strlen(h->job) > JOB_MAX) {
        return co_err_set(
            err, CO_INVALID, "server %u of %u is no place in a job", h->server, h->servers);
    }
    free((char *)(uintptr_t)c->job);
    c->job = co_xstrdup(h->job);
    c->index = h->server;
    c->servers = h->servers;
    if (h->n_endpoints == h->servers) {
        rt_server_set_list(s, (const char *const *)h->endpoints);
    }
    rt_server_say(
        s, "this is server %u of %u, as trainer %u tells", c->index, c->servers, h->trainer);
    return 0;
}

static int check_list(const struct rt_server *s, const Rt__Hello *h, struct co_err *err) {
    for (uint32_t i = 0; s->list && i < s->config.servers; i++) {
        const char *given = i < h->n_endpoints ? h->endpoints[i] : "";
        if (strcmp(given, s->list[i]) != 0) {
            return co_err_set(err, CO_PERMISSION,
                "entry %u of the list of servers is '%.160s' here, and '%.160s' at trainer %u: "
                "the list must be the same text everywhere",
                i, s->list[i], given, h->trainer);
        }
    }
    return 0;
}

/* What differs, expected and given: for one of us, as the connection has proved. */
static int check_identity(const struct rt_server *s, const Rt__Hello *h, struct co_err *err) {
    const struct rt_server_config *c = &s->config;
    if (h->trainers != c->trainers || h->trainer >= c->trainers) {
        return co_err_set(err, CO_PERMISSION,
            "this server expects %u trainers, not trainer %u of %u (PADDLE_TRAINERS_NUM)",
            c->trainers, h->trainer, h->trainers);
    }
    if (c->servers == 0) {
        return 0;
    }
    if (h->servers != c->servers || h->server != c->index) {
        return co_err_set(err, CO_PERMISSION,
            "this is server %u of %u, the trainer's list has it as %u of %u", c->index, c->servers,
            h->server, h->servers);
    }
    if (strcmp(h->job, c->job) != 0) {
        return co_err_set(err, CO_PERMISSION,
            "this server belongs to job '%.160s', not to '%.160s'", c->job, h->job);
    }
    return check_list(s, h, err);
}

static int check_tables(const struct rt_server *s, const Rt__Hello *h,
    const struct rt_table *tables, struct co_err *err) {
    if (h->mode != (uint32_t)s->mode || h->n_tables != s->n_tables) {
        return co_err_set(err, CO_PERMISSION,
            "trainer %u comes with %s mode and %zu tables, the others with %s and %u", h->trainer,
            h->mode == RT_SYNC ? "sync" : "async", h->n_tables,
            s->mode == RT_SYNC ? "sync" : "async", s->n_tables);
    }
    for (uint32_t i = 0; i < s->n_tables; i++) {
        const char *field = rt_table_differs(&tables[i], &s->tables[i]);
        if (field) {
            return co_err_set(err, CO_PERMISSION,
                "table %u ('%s') of trainer %u differs from the other trainers' in its %s", i,
                tables[i].name, h->trainer, field);
        }
    }
    return 0;
}

/* The first hello brings the tables. */
static int make_tables(
    struct rt_server *s, const Rt__Hello *h, struct rt_table *tables_own, struct co_err *err) {
    s->tables = tables_own;
    s->n_tables = (uint32_t)h->n_tables;
    s->mode = h->mode == RT_SYNC ? RT_SYNC : RT_ASYNC;
    s->shards = co_xcalloc(s->config.shards, sizeof(struct rt_shard *));
    for (uint32_t i = 0; i < s->config.shards; i++) {
        struct rt_shard_config c = {
            .index = i,
            .shards = s->config.shards,
            .server = s->config.index,
            .servers = s->config.servers,
            .trainers = s->config.trainers,
            .mode = s->mode,
            .nonfinite = s->config.nonfinite,
            .tables = s->tables,
            .n_tables = s->n_tables,
            .budget = &s->budget,
        };
        int rc = rt_shard_start(&c, &s->shards[i], err);
        if (rc < 0) {
            return rc; /* the job cannot run: the caller ends it */
        }
    }
    s->first_ms = net_now();
    return 0;
}

static int send_welcome(struct rt_session *se, const struct rt_frame *f, struct co_err *err) {
    Rt__Welcome w = RT__WELCOME__INIT;
    w.shards = se->server->config.shards;
    w.lease_ms = (uint64_t)se->server->config.lease_ms;
    w.barriers = se->server->members.barriers;
    Rt__Control c = RT__CONTROL__INIT;
    c.body_case = RT__CONTROL__BODY_WELCOME;
    c.welcome = &w;
    struct rt_frame *a = NULL;
    int rc = rt_control_pack(&c, &f->head, &a, err);
    return rc < 0 ? rc : rt_stream_send(se->stream, a, err);
}

static void join_member(struct rt_session *se, uint32_t trainer) {
    struct rt_server *s = se->server;
    struct rt_member *m = &s->members.all[trainer];
    bool back = m->state == RT_MEMBER_LOST;
    rt_member_set(&s->members, trainer, RT_MEMBER_ALIVE);
    if (m->stream) {
        rt_stream_unref(m->stream); /* of the former life, not yet closed */
    }
    m->stream = rt_stream_ref(se->stream);
    m->heard_ms = net_now();
    m->rival_ms = 0;
    (void)snprintf(m->peer, sizeof(m->peer), "%s", rt_stream_peer(se->stream));
    se->trainer = trainer;
    s->orphan_ms = 0;
    rt_server_say(s, "trainer %u %s from %s, %u of %u here", trainer, back ? "is back" : "joined",
        m->peer, rt_members_in(&s->members, RT_MEMBER_ALIVE), s->config.trainers);
}

/* The session speaks for its trainer: it is neither lost, nor replaced, nor finished. */
static bool is_alive(const struct rt_session *se) {
    const struct rt_member *m =
        se->trainer == RT_NOBODY ? NULL : &se->server->members.all[se->trainer];
    return m && m->state == RT_MEMBER_ALIVE && m->stream == se->stream;
}

/* CO_CONFLICT: who holds the id may be the trainer's own former life, not yet known to be dead;
 * worth another try.  CO_INVALID: it was heard since such a try, so there are two of them. */
static int check_free(struct rt_server *s, uint32_t trainer, struct co_err *err) {
    struct rt_member *m = &s->members.all[trainer];
    if (m->state == RT_MEMBER_FINISHED) {
        return co_err_set(
            err, CO_PERMISSION, "trainer %u (from %s) has finished already", trainer, m->peer);
    }
    if (m->state != RT_MEMBER_ALIVE) {
        return 0;
    }
    int64_t now = net_now();
    if (m->rival_ms == 0 || now - m->rival_last_ms > RIVAL_GONE_MS) {
        m->rival_ms = now;
    }
    m->rival_last_ms = now;
    /* What was on its way when the rival came proves nothing. */
    if (m->heard_ms > m->rival_ms + IN_FLIGHT_MS) {
        return co_err_set(err, CO_INVALID,
            "trainer %u is here already (from %s) and alive: two trainers have the same "
            "PADDLE_TRAINER_ID",
            trainer, m->peer);
    }
    return co_err_set(err, CO_CONFLICT, "trainer %u is here already (from %s)", trainer, m->peer);
}

static int do_hello(
    struct rt_session *se, const struct rt_frame *f, const Rt__Hello *h, struct co_err *err) {
    struct rt_server *s = se->server;
    if (se->trainer != RT_NOBODY) {
        return co_err_set(err, CO_INVALID, "a second hello");
    }
    if (s->over) {
        return co_err_set(err, s->result.code ? s->result.code : CO_GONE, "%s",
            s->result.code ? s->result.msg : "this job is over");
    }
    int rc = check_identity(s, h, err);
    CO_AUTOFREE struct rt_table *tables = NULL;
    rc = rc < 0 ? rc : rt_control_tables(h, &tables, err);
    if (rc < 0) {
        return rc;
    }
    rc = check_free(s, h->trainer, err);
    if (rc < 0) {
        return rc;
    }
    if (s->config.servers == 0) {
        rc = learn_place(s, h, err);
    }
    if (rc == 0 && !s->shards) {
        rc = make_tables(s, h, co_steal_ptr(tables), err);
        if (rc < 0) {
            rt_server_over(s, err);
        }
    } else if (rc == 0) {
        rc = check_tables(s, h, tables, err);
    }
    if (rc == 0) {
        join_member(se, h->trainer);
        rc = send_welcome(se, f, err);
    }
    return rc;
}

static void answer_barrier(struct rt_member *m) {
    struct rt_frame *a = NULL;
    if (rt_frame_new(RT_FRAME_CONTROL | RT_FRAME_ANSWER, 0, &a, NULL) == 0) {
        a->head.seq = m->barrier.seq;
        (void)!rt_stream_send(m->stream, a, NULL);
    }
    m->waits = false;
}

void rt_server_barrier(struct rt_server *s) {
    if (!rt_members_barrier_full(&s->members)) {
        return;
    }
    s->members.barriers++;
    for (uint32_t i = 0; i < s->members.n; i++) {
        if (s->members.all[i].waits) {
            answer_barrier(&s->members.all[i]);
        }
    }
}

/* Those who wait for each other would do so until their time is over. */
static void check_order(struct rt_server *s) {
    struct co_err err = {0};
    if (s->mode == RT_SYNC && !s->over && rt_members_check_order(&s->members, &err) < 0) {
        rt_server_over(s, &err);
    }
}

/* A step is said to all shards of all servers, a barrier to server 0 only: its first shard is
 * where both are seen. */
static void note_step(struct rt_session *se, const struct rt_frame *f) {
    struct rt_member *m = &se->server->members.all[se->trainer];
    if (f->head.kind == RT_FRAME_STEP && f->head.shard == 0 && f->head.aux == m->steps + 1) {
        m->steps++;
        check_order(se->server);
    }
}

static int do_barrier(
    struct rt_session *se, const struct rt_frame *f, uint64_t number, struct co_err *err) {
    struct rt_member *m = &se->server->members.all[se->trainer];
    uint64_t next = se->server->members.barriers + 1;
    if (number != next) {
        return co_err_set(err, CO_INVALID,
            "trainer %u is at barrier %llu, the job at %llu: all trainers must call the same ones",
            se->trainer, (unsigned long long)number, (unsigned long long)next);
    }
    if (m->waits) {
        return co_err_set(err, CO_INVALID, "trainer %u is at the barrier already", se->trainer);
    }
    m->waits = true;
    m->barrier = f->head;
    rt_server_barrier(se->server);
    check_order(se->server);
    return 0;
}

static int do_finish(struct rt_session *se, const struct rt_frame *f, struct co_err *err) {
    struct rt_server *s = se->server;
    struct rt_frame *a = NULL;
    int rc = rt_frame_new(RT_FRAME_CONTROL | RT_FRAME_ANSWER, 0, &a, err);
    if (rc < 0) {
        return rc;
    }
    a->head.seq = f->head.seq;
    rc = rt_stream_send(se->stream, a, err);
    rt_member_set(&s->members, se->trainer, RT_MEMBER_FINISHED);
    rt_server_say(s, "trainer %u has finished", se->trainer);
    for (uint32_t i = 0; i < s->config.shards; i++) {
        rt_shard_finished(s->shards[i], se->trainer);
    }
    rt_server_barrier(s);
    rt_server_check_end(s);
    return rc;
}

static int do_leave(struct rt_session *se, const Rt__Leave *l) {
    struct rt_server *s = se->server;
    char cause[sizeof(s->members.all[0].cause)];
    (void)snprintf(cause, sizeof(cause), "gave up: %s", l->why);
    if (!s->over) {
        rt_server_lose(s, se->trainer, cause);
    }
    rt_stream_end(se->stream);
    return 0;
}

static int do_control(struct rt_session *se, const struct rt_frame *f, struct co_err *err) {
    CO_CLEANUP(rt_control_freep) Rt__Control *c = NULL;
    int rc = rt_control_unpack(f, &c, err);
    if (rc < 0) {
        return rc;
    }
    if (c->body_case != RT__CONTROL__BODY_HELLO && !is_alive(se)) {
        return co_err_set(err, CO_INVALID, "this connection is no trainer's (any more)");
    }
    switch (c->body_case) {
    case RT__CONTROL__BODY_HELLO:
        return do_hello(se, f, c->hello, err);
    case RT__CONTROL__BODY_BARRIER:
        return do_barrier(se, f, c->barrier->number, err);
    case RT__CONTROL__BODY_FINISH:
        return do_finish(se, f, err);
    case RT__CONTROL__BODY_LEAVE:
        return do_leave(se, c->leave);
    default:
        return co_err_set(err, CO_INVALID, "control message %d is unknown", (int)c->body_case);
    }
}

/* ---- callbacks ---- */

static void on_open(void *arg, struct rt_stream *stream) {
    struct rt_server *s = arg;
    struct rt_session *se = co_xcalloc(1, sizeof(*se));
    *se = (struct rt_session){.server = s,
        .stream = stream,
        .since_ms = net_now(),
        .trainer = RT_NOBODY,
        .next = s->sessions};
    if (se->next) {
        se->next->prev = se;
    }
    s->sessions = se;
    rt_stream_set_user(stream, se);
}

static void refuse_peer(struct rt_session *se, const struct rt_frame *f, const struct co_err *err) {
    rt_server_say_refused(se->server, rt_stream_peer(se->stream), err);
    se->refused = true;
    (void)!rt_stream_send(se->stream, rt_frame_error(&f->head, err->code, co_err_text(err)), NULL);
    rt_stream_end(se->stream);
}

static void answer_ping(struct rt_session *se, const struct rt_frame *f) {
    struct rt_frame *a = NULL;
    if (rt_frame_new(RT_FRAME_PING | RT_FRAME_ANSWER, 0, &a, NULL) == 0) {
        a->head.seq = f->head.seq;
        (void)!rt_stream_send(se->stream, a, NULL);
    }
}

static void on_frame(void *arg, struct rt_stream *stream, struct rt_frame *f_own) {
    struct rt_server *s = arg;
    struct rt_session *se = rt_stream_user(stream);
    CO_CLEANUP(rt_frame_freep) struct rt_frame *f = f_own;
    struct co_err err = {0};
    if (se->refused || s->told) {
        return;
    }
    bool alive = is_alive(se);
    if (alive) {
        s->members.all[se->trainer].heard_ms = net_now();
    }
    if (f->head.kind == RT_FRAME_CONTROL) {
        if (do_control(se, f, &err) < 0) {
            refuse_peer(se, f, &err);
        }
    } else if (se->trainer == RT_NOBODY) {
        co_err_set(&err, CO_INVALID, "%s before hello", rt_frame_kind_name(f->head.kind));
        refuse_peer(se, f, &err);
    } else if (f->head.kind == RT_FRAME_PING) {
        answer_ping(se, f);
    } else if (f->head.kind >= RT_FRAME_KINDS || f->head.shard >= s->config.shards) {
        co_err_set(&err, CO_INVALID, "%s for shard %u of %u", rt_frame_kind_name(f->head.kind),
            f->head.shard, s->config.shards);
        refuse_peer(se, f, &err);
    } else if (alive) {
        struct rt_shard *shard = s->shards[f->head.shard];
        note_step(se, f);
        rt_shard_post(shard, se->trainer, co_steal_ptr(f));
    }
}

static void leave_member(struct rt_session *se, const struct co_err *why) {
    struct rt_server *s = se->server;
    struct rt_member *m = &s->members.all[se->trainer];
    for (uint32_t i = 0; i < s->config.shards; i++) {
        rt_shard_left(s->shards[i], se->trainer);
    }
    if (m->stream == se->stream) {
        rt_stream_unref(m->stream);
        m->stream = NULL;
        if (m->state == RT_MEMBER_ALIVE && !s->over) {
            rt_server_lose(s, se->trainer, co_err_text(why));
        }
    }
}

static void on_close(void *arg, struct rt_stream *stream, const struct co_err *why) {
    struct rt_server *s = arg;
    struct rt_session *se = rt_stream_user(stream);
    if (why->code == CO_INVALID) { /* it sent what is no frame */
        rt_server_say_refused(s, rt_stream_peer(stream), why);
    }
    if (se->trainer != RT_NOBODY) {
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
    rt_server_tell(s);
}

static void on_refused(void *arg, size_t n, const char *peer, const struct co_err *why) {
    struct rt_server *s = arg;
    s->refused += n - 1;
    s->refused_unsaid += n - 1;
    rt_server_say_refused(s, peer, why);
}

const struct rt_rpc_ops rt_session_ops = {on_open, on_frame, on_close, rt_server_tick, on_refused};
