/* How a server handles the control messages of trainers: hello, begin, barrier, finish, leave.
 * Other frames go to the shards.  Runs on the rpc's thread. */
#include "runtime/train/ps/server/server_internal.h"

#include <stdio.h>
#include <string.h>

#include "runtime/net/net.h"
#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/shard/step.h"

/* IN_FLIGHT_MS, RIVAL_GONE_MS: see check_free.  A rival that did not retry for RIVAL_GONE_MS has
 * given up. */
enum {
    SERVERS_MAX = 65536,
    JOB_MAX = 1024,
    IN_FLIGHT_MS = 500,
    RIVAL_GONE_MS = 10000,
    WAIT_MAX_MS = 3600 * 1000
};

/* ---- control messages ---- */

/* A server that was started without a list of servers learns its index and its job from the first
 * trainer. */
static int learn_place(struct pss_server *s, const Rpc__Hello *h, struct co_err *err) {
    struct pss_server_config *c = &s->config;
    if (h->servers < 1 || h->servers > SERVERS_MAX || h->server >= h->servers ||
        strlen(h->job) > JOB_MAX) {
        return co_err_set(
            err, CO_INVALID, "server %u of %u is not a valid server index", h->server, h->servers);
    }
    free((char *)(uintptr_t)c->job);
    c->job = co_xstrdup(h->job);
    c->index = h->server;
    c->servers = h->servers;
    if (h->n_endpoints == h->servers) {
        pss_server_set_list(s, (const char *const *)h->endpoints);
    }
    pss_server_say(
        s, "this is server %u of %u, according to trainer %u", c->index, c->servers, h->trainer);
    return 0;
}

static int check_list(const struct pss_server *s, const Rpc__Hello *h, struct co_err *err) {
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

/* The errors may say what this server expects: the peer has proved the job's token. */
static int check_identity(const struct pss_server *s, const Rpc__Hello *h, struct co_err *err) {
    const struct pss_server_config *c = &s->config;
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

static int check_tables(const struct pss_server *s, const Rpc__Hello *h,
    const struct ps_table *tables, struct co_err *err) {
    enum rt_mode mode = RT_MODE_UNSET;
    CO_TRY(ps_control_mode(h, &mode, err));
    if (mode != s->mode || h->n_tables != s->n_tables) {
        return co_err_set(err, CO_PERMISSION,
            "trainer %u comes with %s mode and %zu tables, the others with %s and %u", h->trainer,
            ps_mode_name(mode), h->n_tables, ps_mode_name(s->mode), s->n_tables);
    }
    if (h->backup != s->backup) {
        return co_err_set(err, CO_PERMISSION,
            "trainer %u comes with %u backup workers, the others with %u", h->trainer, h->backup,
            s->backup);
    }
    for (uint32_t i = 0; i < s->n_tables; i++) {
        const char *field = ps_table_differs(&tables[i], &s->tables[i]);
        if (field) {
            return co_err_set(err, CO_PERMISSION,
                "table %u ('%s') of trainer %u differs from the other trainers' in its %s", i,
                tables[i].name, h->trainer, field);
        }
    }
    return 0;
}

/* Starts the shards with the tables, mode and backup of the first hello. */
static int make_tables(
    struct pss_server *s, const Rpc__Hello *h, struct ps_table *tables_own, struct co_err *err) {
    int rc = ps_control_mode(h, &s->mode, err);
    s->tables = tables_own;
    s->n_tables = (uint32_t)h->n_tables;
    s->backup = h->backup;
    s->shards = co_xcalloc(s->config.shards, sizeof(struct shard *));
    pss_server_make_saver(s);
    for (uint32_t i = 0; i < s->config.shards && rc == 0; i++) {
        struct shard_config c = {
            .index = i,
            .shards = s->config.shards,
            .server = s->config.index,
            .servers = s->config.servers,
            .trainers = s->config.trainers,
            .mode = s->mode,
            .backup = s->backup,
            .nonfinite = s->config.nonfinite,
            .tables = s->tables,
            .n_tables = s->n_tables,
            .budget = &s->budget,
            .rocks = s->rocks,
            .saver = s->saver,
            .restore = s->restored,
            .loaded = pss_server_loaded,
            .arg = s,
        };
        rc = shard_start(&c, &s->shards[i], err);
    }
    s->first_ms = co_now_ms();
    return rc; /* after a failure the job cannot run: the caller ends it */
}

/* Sync: how many steps all shards have completed. */
static uint64_t count_steps(const struct pss_server *s) {
    uint64_t step = UINT64_MAX;
    for (uint32_t i = 0; i < s->config.shards; i++) {
        uint64_t one = shard_step(s->shards[i]);
        step = one < step ? one : step;
    }
    return step;
}

static bool is_dirty(const struct pss_server *s) {
    bool dirty = false;
    for (uint32_t i = 0; i < s->config.shards; i++) {
        dirty = dirty || shard_dirty(s->shards[i]);
    }
    return dirty;
}

/* The caller frees the list. */
static uint32_t *list_finished(const struct pss_server *s, size_t *ret_n) {
    uint32_t *list = co_xcalloc(s->members.n, sizeof(*list));
    *ret_n = 0;
    for (uint32_t i = 0; i < s->members.n; i++) {
        if (s->members.all[i].state == PSS_MEMBER_FINISHED) {
            list[(*ret_n)++] = i;
        }
    }
    return list;
}

static int send_welcome(struct pss_session *se, const struct rpc_frame *f, struct co_err *err) {
    Rpc__Welcome w = RPC__WELCOME__INIT;
    w.shards = se->server->config.shards;
    w.lease_ms = (uint64_t)se->server->config.lease_ms;
    w.barriers = se->server->members.barriers;
    w.incarnation = se->server->incarnation;
    w.step = count_steps(se->server);
    w.era = se->server->era;
    w.restored = se->server->at;
    w.restored_step = se->server->mode == RT_SYNC ? se->server->at_step : 0;
    w.fresh = !se->server->begun;
    w.dirty = is_dirty(se->server);
    enum rt_nonfinite nonfinite = se->server->config.nonfinite;
    w.window = pss_server_window(se->server) / se->server->config.trainers;
    w.nonfinite = nonfinite == RT_NONFINITE_UNSET ? RT_NONFINITE_REFUSE : nonfinite;
    CO_AUTOFREE uint32_t *finished = list_finished(se->server, &w.n_finished);
    w.finished = finished;
    if (!se->key) {
        CO_TRY(pss_server_open_door(se->server, se->trainer, se->stream, &se->key, err));
    }
    w.key = se->key;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_WELCOME;
    c.welcome = &w;
    struct rpc_frame *a = NULL;
    CO_TRY(ps_control_pack(&c, &f->head, &a, err));
    return rpc_stream_send(se->stream, a, err);
}

static void say_joined(struct pss_server *s, uint32_t trainer, bool same_process) {
    const struct pss_member *m = &s->members.all[trainer];
    const char *what = m->state == PSS_MEMBER_ABSENT ? "joined"
                       : same_process                ? "is back"
                                                     : "is back after a restart,";
    pss_server_say(s, "trainer %u %s from %s, %u of %u here", trainer, what, m->peer,
        pss_members_in(&s->members, PSS_MEMBER_ALIVE) + (m->state != PSS_MEMBER_ALIVE),
        s->config.trainers);
}

static void join_member(struct pss_session *se, const Rpc__Hello *h) {
    struct pss_server *s = se->server;
    const uint32_t trainer = h->trainer;
    struct pss_member *m = &s->members.all[trainer];
    bool same = h->incarnation == m->incarnation;
    bool same_process = same || (h->former != 0 && h->former == m->incarnation);
    struct rpc_stream *old = m->stream;
    m->stream = rpc_stream_ref(se->stream);
    m->received_ms = co_now_ms();
    m->rival_ms = 0;
    if (!same && m->incarnation) {
        pss_server_pace_join(s, trainer);
    }
    m->incarnation = h->incarnation;
    m->waits = m->waits && same;
    (void)snprintf(m->peer, sizeof(m->peer), "%s", rpc_stream_peer(se->stream));
    se->trainer = trainer;
    s->orphan_ms = 0;
    say_joined(s, trainer, same_process);
    if (m->state != PSS_MEMBER_ALIVE && m->state != PSS_MEMBER_FINISHED) {
        pss_member_set(&s->members, trainer, PSS_MEMBER_ALIVE);
    }
    if (old) { /* the trainer's earlier connection; this server has not noticed that it broke */
        rpc_stream_cancel(old);
        rpc_stream_unref(old);
    }
}

/* Whether this is its trainer's present connection: not given up, not replaced by a later one. */
static bool is_current(const struct pss_session *se) {
    const struct pss_member *m =
        se->trainer == PSS_NOBODY ? NULL : &se->server->members.all[se->trainer];
    return m && m->stream == se->stream;
}

static bool is_alive(const struct pss_session *se) {
    return is_current(se) && se->server->members.all[se->trainer].state == PSS_MEMBER_ALIVE;
}

/* Checks that no other process has this trainer id.  CO_CONFLICT: one has it, but that may be the
 * trainer's previous process, which this server does not know to be dead; the trainer may retry.
 * CO_INVALID: that process sent something after the first try, so two live trainers have the same
 * id. */
static int check_free(struct pss_server *s, const Rpc__Hello *h, struct co_err *err) {
    uint32_t trainer = h->trainer;
    struct pss_member *m = &s->members.all[trainer];
    if (h->incarnation == 0) {
        return co_err_set(err, CO_INVALID, "the hello of trainer %u has no incarnation", trainer);
    }
    if (h->incarnation == m->incarnation || (h->former != 0 && h->former == m->incarnation)) {
        return 0;
    }
    bool hearsay = pss_member_is_hearsay(m);
    if (m->state == PSS_MEMBER_FINISHED && !(hearsay && h->finishing)) {
        return co_err_set(err, CO_PERMISSION, "trainer %u (from %s) has finished already", trainer,
            hearsay ? "elsewhere" : m->peer);
    }
    if (m->state != PSS_MEMBER_ALIVE) {
        return 0;
    }
    int64_t now = co_now_ms();
    if (m->rival_ms == 0 || now - m->rival_last_ms > RIVAL_GONE_MS) {
        m->rival_ms = now;
    }
    m->rival_last_ms = now;
    /* A frame that was in flight when the rival first came does not prove that its sender lives. */
    if (m->received_ms > m->rival_ms + IN_FLIGHT_MS) {
        return co_err_set(err, CO_INVALID,
            "trainer %u is here already (from %s) and alive: two trainers have the same "
            "PADDLE_TRAINER_ID",
            trainer, m->peer);
    }
    return co_err_set(err, CO_CONFLICT, "trainer %u is here already (from %s)", trainer, m->peer);
}

/* Before begin a trainer may send a second hello, to get a newer welcome: the first one may be
 * older than what the other servers have sent it since. */
static int say_again(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Hello *h, struct co_err *err) {
    if (se->begun || !is_current(se) || h->trainer != se->trainer ||
        h->incarnation != se->server->members.all[se->trainer].incarnation) {
        return co_err_set(err, CO_INVALID, "a second hello");
    }
    return send_welcome(se, f, err);
}

static int do_hello(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Hello *h, struct co_err *err) {
    struct pss_server *s = se->server;
    if (se->trainer != PSS_NOBODY) {
        return say_again(se, f, h, err);
    }
    bool last_word = h->finishing && s->result.code == 0; /* it has finished on other servers */
    if (s->over && !last_word) {
        return co_err_set(err, s->result.code ? s->result.code : CO_GONE, "%s",
            s->result.code ? s->result.msg : "this job is over");
    }
    CO_AUTOFREE struct ps_table *tables = NULL;
    CO_TRY(check_identity(s, h, err));
    CO_TRY(ps_control_tables(h, &tables, err));
    CO_TRY(check_free(s, h, err));
    if (s->config.servers == 0) {
        CO_TRY(learn_place(s, h, err));
    }
    if (s->shards) {
        CO_TRY(check_tables(s, h, tables, err));
    } else {
        int rc = make_tables(s, h, co_steal_ptr(tables), err);
        if (rc < 0) {
            pss_server_over(s, err);
            return rc;
        }
    }
    s->ending |= h->finishing;
    join_member(se, h);
    return send_welcome(se, f, err);
}

/* Answers a control message without a payload. */
static int answer_control(struct rpc_stream *stream, uint64_t seq, struct co_err *err) {
    struct rpc_frame *a = NULL;
    CO_TRY(rpc_frame_new(RPC_FRAME_CONTROL | RPC_FRAME_ANSWER, 0, &a, err));
    a->head.seq = seq;
    return rpc_stream_send(stream, a, err);
}

static void answer_barrier(struct pss_member *m) {
    if (m->stream && m->asks) { /* else it asks again: after it reconnects, or at once */
        (void)!answer_control(m->stream, m->barrier.seq, NULL);
    }
    m->waits = m->asks = false;
}

/* The trainer has the welcomes of all servers.  If they differ, its begin says to which checkpoint
 * all servers go back. */
static int check_era(struct pss_server *s, const Rpc__Begin *b, struct co_err *err) {
    if (b->era < s->era) {
        return co_err_set(err, CO_CONFLICT, "the job has gone back to checkpoint %llu meanwhile",
            (unsigned long long)s->at);
    }
    bool differs = b->restored > 0 && (b->restored != s->at || is_dirty(s));
    if ((b->era > s->era || !s->begun) && differs) {
        CO_TRY(pss_server_go_back(s, b->restored, b->step, err));
    }
    s->era = b->era;
    s->begun = true;
    return 0;
}

/* A restarted server learns how many barriers the job has completed. */
static void note_barriers(struct pss_server *s, uint64_t n) {
    if (n <= s->members.barriers) {
        return;
    }
    s->members.barriers = n;
    for (uint32_t i = 0; i < s->members.n; i++) {
        if (s->members.all[i].waits) {
            answer_barrier(&s->members.all[i]);
        }
    }
}

static void finish_member(struct pss_server *s, uint32_t trainer) {
    pss_member_set(&s->members, trainer, PSS_MEMBER_FINISHED);
    for (uint32_t i = 0; i < s->config.shards; i++) {
        shard_finished(s->shards[i], trainer);
    }
    pss_server_barrier(s);
    pss_server_pace_check(s, co_now_ms());
    pss_server_check_end(s);
}

/* A restarted server learns which trainers have finished, so that it does not wait for them.  Skips
 * those that are connected: they send finish themselves. */
static void note_finished(struct pss_session *se, const uint32_t *trainers, size_t n) {
    struct pss_server *s = se->server;
    for (size_t i = 0; i < n; i++) {
        uint32_t t = trainers[i];
        if (t < s->members.n && t != se->trainer && s->members.all[t].state != PSS_MEMBER_ALIVE &&
            s->members.all[t].state != PSS_MEMBER_FINISHED) {
            pss_server_say(s, "trainer %u has finished, according to trainer %u", t, se->trainer);
            finish_member(s, t);
        }
    }
}

/* The trainer has a welcome from every server.  Before begin it sends only hello and ping. */
static int do_begin(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Begin *b, struct co_err *err) {
    struct pss_server *s = se->server;
    CO_TRY(check_era(s, b, err));
    note_barriers(s, b->barriers);
    note_finished(se, b->finished, b->n_finished);
    se->begun = true;
    for (uint32_t i = 0; i < s->config.shards; i++) {
        shard_begin(s->shards[i], se->trainer, se->stream, s->members.all[se->trainer].incarnation,
            b->step);
    }
    return answer_control(se->stream, f->head.seq, err);
}

void pss_server_barrier(struct pss_server *s) {
    if (!pss_members_barrier_full(&s->members)) {
        return;
    }
    s->members.barriers++;
    for (uint32_t i = 0; i < s->members.n; i++) {
        if (s->members.all[i].waits) {
            answer_barrier(&s->members.all[i]);
        }
    }
}

void pss_server_barrier_say(struct pss_server *s, int64_t now) {
    for (uint32_t i = 0; i < s->members.n; i++) {
        struct pss_member *m = &s->members.all[i];
        if (!m->waits || !m->asks || !m->stream || m->ask_until_ms == 0 || now < m->ask_until_ms) {
            continue;
        }
        char late[400];
        struct co_err e = {0};
        pss_members_late(&s->members, late, sizeof(late));
        co_err_set(&e, CO_TIMEOUT, "barrier %llu waits for %s",
            (unsigned long long)s->members.barriers + 1, late);
        m->asks = false; /* it is at the barrier all the same */
        (void)!rpc_stream_send(m->stream, rpc_frame_error(&m->barrier, e.code, e.msg), NULL);
    }
}

/* Without this check, trainers that wait for each other would do so until their timeouts.  STEP
 * goes to all shards of all servers, a barrier only to server 0.  So server 0 sees both: it reads
 * the steps from its first shard. */
void pss_server_check_order(struct pss_server *s) {
    struct co_err err = {0};
    if (s->mode != RT_SYNC || s->over || !s->shards) {
        return;
    }
    for (uint32_t i = 0; i < s->members.n; i++) {
        struct pss_member *m = &s->members.all[i];
        uint64_t said = shard_said(s->shards[0], i);
        m->ended = said == RPC_STEP_NO_MORE;
        m->steps = m->ended ? m->steps : said;
    }
    if (pss_members_check_order(&s->members, s->backup, &err) < 0) {
        pss_server_over(s, &err);
    }
}

static int do_barrier(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Barrier *b, struct co_err *err) {
    const uint64_t number = b->number;
    struct pss_member *m = &se->server->members.all[se->trainer];
    uint64_t next = se->server->members.barriers + 1;
    if (number > 0 && number < next) { /* the answer was lost with a broken connection */
        return answer_control(se->stream, f->head.seq, err);
    }
    if (number != next) {
        return co_err_set(err, CO_INVALID,
            "trainer %u is at barrier %llu, the job at %llu: all trainers must call the same ones",
            se->trainer, (unsigned long long)number, (unsigned long long)next);
    }
    m->waits = true; /* it may be set already, if the connection broke */
    m->barrier = f->head;
    m->asks = true;
    m->ask_until_ms =
        b->wait_ms ? co_now_ms() + (int64_t)(b->wait_ms < WAIT_MAX_MS ? b->wait_ms : WAIT_MAX_MS)
                   : 0;
    pss_server_barrier(se->server);
    pss_server_pace_check(se->server, co_now_ms());
    pss_server_check_order(se->server);
    return 0;
}

/* Notifies the other trainers that this one has finished.  If this server is restarted, it learns
 * that from them. */
static void send_finished(struct pss_server *s, uint32_t trainer) {
    Rpc__Finished m = RPC__FINISHED__INIT;
    m.n_trainers = 1;
    m.trainers = &trainer;
    Rpc__Control c = RPC__CONTROL__INIT;
    c.body_case = RPC__CONTROL__BODY_FINISHED;
    c.finished = &m;
    for (struct pss_session *se = s->sessions; se; se = se->next) {
        struct rpc_frame *f = NULL;
        if (is_alive(se) && ps_control_pack(&c, NULL, &f, NULL) == 0) {
            (void)!rpc_stream_send(se->stream, f, NULL);
        }
    }
}

static int do_finish(struct pss_session *se, const struct rpc_frame *f, struct co_err *err) {
    struct pss_server *s = se->server;
    int rc = answer_control(se->stream, f->head.seq, err);
    if (s->members.all[se->trainer].state == PSS_MEMBER_FINISHED) {
        return rc; /* sent again, since the answer was lost with a broken connection */
    }
    pss_server_say(s, "trainer %u has finished", se->trainer);
    finish_member(s, se->trainer);
    send_finished(s, se->trainer);
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
    if (c->body_case != RPC__CONTROL__BODY_HELLO && !is_alive(se) && !(again && is_current(se))) {
        return co_err_set(err, CO_INVALID, "this connection does not belong to a trainer");
    }
    switch (c->body_case) {
    case RPC__CONTROL__BODY_HELLO:
        return do_hello(se, f, c->hello, err);
    case RPC__CONTROL__BODY_BEGIN:
        return do_begin(se, f, c->begin, err);
    case RPC__CONTROL__BODY_BARRIER:
        return do_barrier(se, f, c->barrier, err);
    case RPC__CONTROL__BODY_FINISH:
        return do_finish(se, f, err);
    case RPC__CONTROL__BODY_LEAVE:
        return do_leave(se, c->leave);
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
    se->refused = true;
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
    if (se->refused || (s->signaled && f->head.kind != RPC_FRAME_CONTROL)) {
        return;
    }
    bool alive = is_alive(se);
    if (alive) {
        s->members.all[se->trainer].received_ms = co_now_ms();
    }
    if (f->head.kind == RPC_FRAME_CONTROL) {
        if (do_control(se, f, &err) < 0) {
            refuse_peer(se, f, &err);
        }
    } else if (se->trainer != PSS_NOBODY && f->head.kind == RPC_FRAME_PING) {
        answer_ping(se, f);
    } else if (!se->begun) {
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
    pss_server_say_refused(s, peer, why);
}

const struct rpc_ops pss_session_ops = {.on_open = on_open,
    .on_frame = on_frame,
    .on_close = on_close,
    .on_lane = pss_server_on_lane,
    .on_tick = pss_server_tick,
    .on_refused = on_refused};
