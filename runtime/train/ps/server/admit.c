/* How a trainer is admitted: hello says who it is and what it works on, welcome what this server
 * has, begin where the job begins.  Runs on the rpc's thread. */
#include <stdio.h>
#include <string.h>

#include "runtime/train/ps/control.h"
#include "runtime/train/ps/glog.h"
#include "runtime/train/ps/server/server_internal.h"

/* IN_FLIGHT_MS, RIVAL_GONE_MS: see check_free.  A rival that did not retry for RIVAL_GONE_MS has
 * given up. */
enum {
    SERVERS_MAX = 65536,
    JOB_MAX = 1024,
    IN_FLIGHT_MS = 500,
    RIVAL_GONE_MS = 10000,
};

/* ---- hello ---- */

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
                "entry %u of the list of servers is \"%.160s\" here, and \"%.160s\" at trainer %u: "
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
            "this server belongs to job \"%.160s\", not to \"%.160s\"", c->job, h->job);
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
        struct co_err why = {0};
        if (ps_table_same(&tables[i], &s->tables[i], &why) < 0) {
            return co_err_set(err, CO_PERMISSION,
                "table %u (\"%s\") of trainer %u differs from the other trainers': %s", i,
                tables[i].name, h->trainer, why.msg);
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
    w.origin = se->server->at_origin;
    w.fresh = !se->server->begun;
    w.dirty = is_dirty(se->server);
    enum rt_nonfinite nonfinite = se->server->config.nonfinite;
    w.window = pss_server_window(se->server) / se->server->config.trainers;
    w.late = true;
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
    pss_session_set(se, PSS_SESSION_JOINED);
    say_joined(s, trainer, same_process);
    if (m->state != PSS_MEMBER_ALIVE && m->state != PSS_MEMBER_FINISHED) {
        pss_member_set(&s->members, trainer, PSS_MEMBER_ALIVE);
    }
    if (old) { /* the trainer's earlier connection; this server has not noticed that it broke */
        rpc_stream_cancel(old);
        rpc_stream_unref(old);
    }
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
    if (se->state != PSS_SESSION_JOINED || !pss_session_is_current(se) ||
        h->trainer != se->trainer ||
        h->incarnation != se->server->members.all[se->trainer].incarnation) {
        return co_err_set(err, CO_INVALID, "a second hello");
    }
    return send_welcome(se, f, err);
}

static int admit(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Hello *h, struct co_err *err) {
    struct pss_server *s = se->server;
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

/* Those who wait for a trainer that was refused must learn why it does not come. */
int pss_session_hello(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Hello *h, struct co_err *err) {
    int rc = se->trainer != PSS_NOBODY ? say_again(se, f, h, err) : admit(se, f, h, err);
    if (rc < 0) {
        pss_members_refuse(&se->server->members, h->trainer, rpc_stream_peer(se->stream), err);
    }
    return rc;
}

/* ---- begin ---- */

/* The trainer has the welcomes of all servers.  If they differ, its begin says to which checkpoint
 * all servers go back. */
static int check_era(struct pss_server *s, const Rpc__Begin *b, struct co_err *err) {
    if (b->era < s->era) {
        return co_err_set(err, CO_CONFLICT, "the job has gone back to checkpoint %llu meanwhile",
            (unsigned long long)s->at);
    }
    bool differs = b->restored > 0 && (b->restored != s->at || is_dirty(s));
    if ((b->era > s->era || !s->begun) && differs) {
        CO_TRY(pss_server_go_back(s, b, err));
    }
    s->era = b->era;
    s->begun = true;
    return 0;
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
            pss_server_finish(s, t);
        }
    }
}

static int check_rates(const struct pss_server *s, const Rpc__Begin *b, struct co_err *err) {
    if (b->n_rates > s->n_tables) {
        return co_err_set(err, CO_INVALID, "%zu rates of %u tables", b->n_rates, s->n_tables);
    }
    for (size_t i = 0; i < b->n_rates; i++) {
        const Rpc__Rate *r = b->rates[i];
        if (r->table >= s->n_tables) {
            return co_err_set(err, CO_INVALID, "a rate of table %u of %u", r->table, s->n_tables);
        }
        struct optim checked = s->tables[r->table].optim;
        CO_TRY(optim_set(&checked, "lr", r->lr, err));
    }
    return 0;
}

int pss_session_begin(
    struct pss_session *se, const struct rpc_frame *f, const Rpc__Begin *b, struct co_err *err) {
    struct pss_server *s = se->server;
    CO_TRY(check_rates(s, b, err));
    CO_TRY(check_era(s, b, err));
    pss_server_note_barriers(s, b->barriers);
    note_finished(se, b->finished, b->n_finished);
    pss_session_set(se, PSS_SESSION_BEGUN);
    for (uint32_t i = 0; i < s->config.shards; i++) {
        for (size_t r = 0; r < b->n_rates; r++) {
            shard_put_rate(s->shards[i], b->rates[r]->table, b->rates[r]->lr);
        }
        shard_begin(s->shards[i], se->trainer, se->stream, s->members.all[se->trainer].incarnation,
            b->step);
    }
    return pss_session_answer(se->stream, f->head.seq, err);
}
