/* The rendezvous back end of etcd://host:port: keys in an etcd, over its JSON gateway.
 *
 * It is level-triggered.  take_step() finds the first duty that is not fulfilled (get a token,
 * grant or renew the lease, write the node's own keys, write messages, read all keys, propose the
 * next round) and sends one request for it; the answer calls take_step() again.  A watch on a
 * second connection only says that keys have changed and must be read again.  A failed request is
 * simply followed by the next take_step() after a backoff, so that an etcd that dies and returns
 * needs no special case.  etcd_view.h describes the keys, etcd_decide.c what follows from them. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/parse.h"
#include "runtime/launch/rendezvous/backend.h"
#include "runtime/launch/rendezvous/etcd_client.h"
#include "runtime/launch/rendezvous/etcd_write.h"
#include "runtime/launch/rendezvous/neighbour.h"

enum {
    GATHER_MS = 5, /* changes that arrive together are read once */
    RETRY_MS = 200,
    RETRY_MAX_MS = 2000,
    NOTE_MS = 5000,     /* between two log lines that say the same */
    MEMO_SECONDS = 600, /* lease of messages that outlive their node, as Paddle's status key */
    LINE_MAX = 4096,
    BEATS = 3, /* renewals of a lease within its time to live */
};

struct etcd {
    struct rdzv *m;
    struct rdzv_etcd_client *client;
    struct co_timer *timer, *watch_timer;
    char id[17];
    char *lease;        /* of the node's own keys, which end with it; decimal; NULL: none */
    char *memo;         /* a longer lease, of messages that outlive the node; as lease */
    int64_t refresh_at; /* when the lease must be renewed */
    bool registered;    /* the node's own keys are written */
    bool stale;         /* all keys must be read again */
    unsigned unsent;    /* RDZV_ETCD_SEND_...: messages that must still be written */
    int code;           /* exit code of a node that leaves */
    char *why;          /* reason of leaving or of a restart; owned */
    struct rdzv_etcd_view view;
    bool have_view;
    struct rdzv_etcd_self self;
    uint64_t hash;    /* of the view; another one: nodes came, went or became ready */
    int64_t read_at;  /* when the decision asks for another read */
    json_t *proposal; /* document of the next round, to be written by this node; NULL: none */
    struct rdzv_neighbour *neighbour;
    char *watched;                     /* the neighbour's name; NULL: there is none */
    char *late_written, *late_writing; /* the late node that etcd has, and that is being written */
    size_t late;                       /* number of late nodes in the last log line */
    /* Nodes of this round that ended well, name -> document: all that this node knows of; those
     * that a neighbour has reported and etcd must get; those of them that are being written. */
    json_t *ended, *unwritten, *writing;
    int64_t retry_ms, noted_at;
    int64_t waits_since; /* since when a failing etcd keeps it from its end; 0: it does not */
    bool overdue;        /* the launcher knows that */
    struct co_err last;  /* what the node waits for, or the last failure */
    struct co_err over;  /* the job's end; reported after the lease is revoked, as the other nodes
                          * may wait for that */
};

static void take_step(struct etcd *w);

static const char *describe_wait(void *backend) {
    const struct etcd *w = backend;
    return w->last.msg[0] ? w->last.msg : "etcd has not answered";
}

static int64_t ttl_seconds(const struct etcd *w) {
    int64_t s = w->m->options.silent_ms / 1000;
    return s < 2 ? 2 : s;
}

/* The neighbour when its process is dead although its lease still lives; else NULL. */
static const struct rdzv_etcd_node *gone_neighbour(const struct etcd *w) {
    return rdzv_neighbour_state(w->neighbour) == RDZV_NEIGHBOUR_GONE && w->watched
               ? rdzv_etcd_view_find(&w->view, w->watched)
               : NULL;
}

/* ---- what fails ---- */

/* Workers that run well need no etcd, however long it is away.  A node whose workers have ended, or
 * whose neighbour is gone, needs it to learn what the others do: it waits as long as for a round.
 * A restart is bounded by rdzv.c. */
static bool is_overdue(struct etcd *w, int64_t now) {
    if (w->m->state != RDZV_MET || !(gone_neighbour(w) || w->self.done)) {
        w->waits_since = 0;
        return false;
    }
    w->waits_since = w->waits_since ? w->waits_since : now;
    return now - w->waits_since >= w->m->options.deadline_ms;
}

/* Without word of a node that is gone this node ends.  One whose workers have ended stays a member
 * until its launcher lets it leave: etcd may answer again, and must then find it alive.  w may be
 * freed afterwards. */
static void report_overdue(struct etcd *w, const struct co_err *why) {
    const bool gone = gone_neighbour(w);
    char text[CO_ERR_MAX];
    (void)snprintf(text, sizeof(text), "%s%.200s%s within %.3g s (--join_timeout): %.300s",
        gone ? "node " : "", gone ? w->watched : "",
        gone ? " is gone, and etcd did not take that"
             : "etcd did not say whether the workers of all nodes have ended",
        (double)w->m->options.deadline_ms / 1000, why->msg);
    if (gone) {
        rdzv_end(w->m, CO_PEERLOST, text);
    } else if (!w->overdue) {
        w->overdue = true;
        rdzv_neighbour_ended_well(w->neighbour, true);
        rdzv_overdue(w->m, text);
    }
}

static void retry_later(struct etcd *w, const struct co_err *why) {
    int64_t now = co_now_ms();
    w->last = *why;
    /* A node that ends well stays for rdzv.c's time: its neighbour must read that from it. */
    if ((w->m->state == RDZV_LEAVING && w->code) || w->over.code) {
        rdzv_finish(w->m, &w->over);
        return;
    }
    w->retry_ms = w->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : w->retry_ms * 2;
    co_timer_start(w->timer, w->retry_ms);
    if (now - w->noted_at >= NOTE_MS) {
        struct co_err err = *why;
        (void)co_err_wrap(&err, "master not ready: etcd");
        w->noted_at = now;
        rdzv_note(w->m, true, err.msg);
    }
    if (is_overdue(w, now)) {
        report_overdue(w, &w->last);
    }
}

static void request_failed(void *arg, enum rdzv_etcd_failure how, const struct co_err *err) {
    struct etcd *w = arg;
    if (how == RDZV_ETCD_FORBIDDEN) {
        rdzv_end(w->m, CO_PERMISSION, err->msg);
        return;
    }
    if (how == RDZV_ETCD_EXPIRED) {
        free(co_steal_ptr(w->lease));
        free(co_steal_ptr(w->memo));
        w->registered = false;
    }
    retry_later(w, err);
}

/* ---- a token and leases ---- */

/* A request has succeeded: resets the backoff and continues with the next duty. */
static void take_answer(struct etcd *w) {
    w->retry_ms = RETRY_MS;
    take_step(w);
}

/* A transaction that compares has ended.  Whether it was done, or another node has written before,
 * the next read will show. */
static void on_compared(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    (void)answer;
    w->stale = true;
    take_answer(w);
}

static void on_token(void *arg, const json_t *answer) {
    (void)answer;
    take_answer(arg);
}

static void next_refresh(struct etcd *w) {
    w->refresh_at = co_now_ms() + ttl_seconds(w) * 1000 / BEATS;
}

static void on_lease(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    w->lease = rdzv_etcd_lease_granted(answer);
    w->registered = false;
    next_refresh(w);
    take_answer(w);
}

static void on_memo(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    w->memo = rdzv_etcd_lease_granted(answer);
    take_answer(w);
}

static void on_refreshed(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    if (!rdzv_etcd_lease_alive(answer)) {
        free(co_steal_ptr(w->lease));
        w->stale = true;
    }
    next_refresh(w);
    take_answer(w);
}

static void on_revoked(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    (void)answer;
    free(co_steal_ptr(w->lease));
    rdzv_finish(w->m, &w->over);
}

/* ---- own keys ---- */

static void on_registered(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    (void)answer;
    w->registered = true;
    w->stale = true;
    take_answer(w);
}

static void register_node(struct etcd *w) {
    bool joins = w->m->state == RDZV_MEETING;
    json_t *ops = rdzv_etcd_write_node(
        &w->view, &w->m->options, w->id, rdzv_neighbour_port(w->neighbour), joins, w->lease);
    w->self.beat_deleted = false;
    rdzv_etcd_transact(w->client, ops, NULL, on_registered);
}

static void on_sent(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    (void)answer;
    w->unsent = 0;
    w->stale = true;
    take_answer(w);
}

static void write_messages(struct etcd *w) {
    const struct rdzv_etcd_messages messages = {w->unsent, w->self.round, w->code, w->why};
    rdzv_etcd_transact(w->client,
        rdzv_etcd_write_messages(&w->view, &w->m->options, &messages, w->memo), NULL, on_sent);
}

/* ---- the neighbour ---- */

static void on_neighbour(void *arg) {
    struct etcd *w = arg;
    co_timer_start(w->timer, 0);
}

/* While workers run, this node asks its neighbour for signs of life.  Which node that is may change
 * with every read. */
static void watch_neighbour(struct etcd *w) {
    const struct rdzv_etcd_node *n =
        w->m->state == RDZV_MET ? rdzv_etcd_view_neighbour(&w->view, w->m->options.name) : NULL;
    rdzv_neighbour_watch(w->neighbour, n ? n->host : NULL, n ? n->port : 0, n ? n->id : NULL);
    free(w->watched);
    w->watched = n ? co_xstrdup(n->name) : NULL;
}

static const char *late_neighbour(const struct etcd *w) {
    return rdzv_neighbour_state(w->neighbour) == RDZV_NEIGHBOUR_LATE ? w->watched : NULL;
}

static void on_late_written(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    (void)answer;
    free(w->late_written);
    w->late_written = co_steal_ptr(w->late_writing);
    take_answer(w);
}

static void write_late(struct etcd *w) {
    const char *now = late_neighbour(w), *before = w->late_written;
    free(w->late_writing);
    w->late_writing = before ? NULL : co_xstrdup(now); /* one after the other */
    rdzv_etcd_transact(w->client,
        rdzv_etcd_write_late(&w->view, before ? before : now, !before, w->lease), NULL,
        on_late_written);
}

static void write_gone(struct etcd *w, const struct rdzv_etcd_node *n) {
    json_t *ops = rdzv_etcd_write_gone(&w->view, n, w->memo);
    json_t *unchanged = rdzv_etcd_node_unchanged(&w->view, n);
    rdzv_neighbour_watch(w->neighbour, NULL, 0, NULL);
    rdzv_etcd_transact(w->client, ops, unchanged, on_compared);
}

/* A neighbour has answered that its workers ended well.  While etcd is away it cannot write that
 * itself, and may be gone before it can: this node remembers it, and asks the next one. */
static void take_ended(struct etcd *w) {
    if (rdzv_neighbour_state(w->neighbour) != RDZV_NEIGHBOUR_DONE || !w->watched ||
        w->view.round != w->self.round) {
        return;
    }
    json_t *doc = json_pack("{s:i}", "round", w->self.round);
    co_json_set(w->unwritten, w->watched, json_incref(doc));
    co_json_set(w->ended, w->watched, doc);
    rdzv_etcd_view_remember_done(&w->view, w->ended);
    watch_neighbour(w);
}

static void forget_ended(struct etcd *w) {
    (void)json_object_clear(w->ended);
    (void)json_object_clear(w->unwritten);
    (void)json_object_clear(w->writing);
}

static bool has_ended_to_write(const struct etcd *w) {
    return json_object_size(w->unwritten) + json_object_size(w->writing) > 0;
}

static void on_ended_written(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    (void)answer;
    (void)json_object_clear(w->writing);
    w->stale = true;
    take_answer(w);
}

static void write_ended(struct etcd *w) {
    const char *name;
    json_t *doc;
    json_object_foreach(w->unwritten, name, doc) {
        co_json_set(w->writing, name, json_incref(doc));
    }
    (void)json_object_clear(w->unwritten);
    rdzv_etcd_transact(
        w->client, rdzv_etcd_write_ended(&w->view, w->writing, w->memo), NULL, on_ended_written);
}

static void note_late(struct etcd *w) {
    CO_AUTOBUF struct co_buf line = CO_BUF(LINE_MAX);
    size_t n = w->m->state == RDZV_MET ? rdzv_etcd_view_describe_late(&w->view, w->m->options.name,
                                             w->m->options.silent_ms, &line)
                                       : 0;
    if (n != w->late && line.len) {
        rdzv_note(w->m, n > 0, line.data);
    }
    w->late = n;
}

/* ---- the next round ---- */

static void propose_round(struct etcd *w) {
    rdzv_etcd_transact(w->client, rdzv_etcd_write_round(&w->view, co_steal_ptr(w->proposal)),
        rdzv_etcd_round_unchanged(&w->view), on_compared);
}

/* ---- reading and deciding ---- */

static void report_met(struct etcd *w, const struct rdzv_etcd_decision *d) {
    CO_AUTOFREE struct rdzv_peer *peers = co_xcalloc(d->n, sizeof(*peers));
    size_t self = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct rdzv_etcd_node *n = &w->view.nodes[d->order[i]];
        peers[i] = (struct rdzv_peer){n->name, n->value};
        self = strcmp(n->name, w->m->options.name) == 0 ? i : self;
    }
    w->self.round = w->view.round;
    forget_ended(w);
    rdzv_met(w->m, peers, d->n, self, w->view.round, true);
}

/* Returns false when it has called a callback of rdzv.c: w may be freed then. */
static bool act_on_decision(struct etcd *w, const struct rdzv_etcd_decision *d) {
    switch (d->next) {
    case RDZV_ETCD_REGISTER:
        w->registered = false;
        return true;
    case RDZV_ETCD_PROPOSE:
        co_json_decref(&w->proposal);
        w->proposal = rdzv_etcd_next_round(&w->view, d);
        return true;
    case RDZV_ETCD_WAIT:
        if (d->why[0]) {
            (void)co_err_set(&w->last, CO_TIMEOUT, "%s", d->why);
        }
        return true;
    case RDZV_ETCD_MET:
        w->stale = true;
        co_timer_start(w->timer, 0);
        report_met(w, d);
        return false;
    case RDZV_ETCD_CHANGED:
        co_timer_start(w->timer, 0);
        rdzv_changed(w->m, d->why);
        return false;
    case RDZV_ETCD_ALL_DONE:
        co_timer_start(w->timer, 0);
        w->self.done = false;
        rdzv_all_done(w->m);
        return false;
    case RDZV_ETCD_END:
        (void)co_err_set(&w->over, d->code, "%s", d->why);
        /* Without a message the other nodes would take this node for the cause of the end. */
        if (w->m->state == RDZV_MET) {
            w->code = 0;
            free(w->why);
            w->why = co_xstrdup(d->why);
            w->unsent |= RDZV_ETCD_SEND_WHY;
        }
        return true;
    }
    return true;
}

static void on_keys_read(void *arg, const json_t *answer) {
    struct etcd *w = arg;
    struct co_err err = {0};
    struct rdzv_etcd_decision d;
    w->retry_ms = RETRY_MS;
    take_ended(w);
    if (rdzv_etcd_view_read(&w->view, answer, &err)) {
        retry_later(w, &err);
        return;
    }
    int64_t now = co_now_ms();
    w->waits_since = 0;
    if (w->view.round == w->self.round) {
        rdzv_etcd_view_remember_done(&w->view, w->ended);
    }
    uint64_t hash = rdzv_etcd_view_hash(&w->view);
    if (!w->have_view || hash != w->hash) {
        w->hash = hash;
        w->self.quiet_since = now;
    }
    w->have_view = true;
    const struct rdzv_etcd_node *me = rdzv_etcd_view_find(&w->view, w->m->options.name);
    w->self.now = now;
    w->self.state = w->m->state;
    w->self.beat_deleted = w->registered && me && me->ours && !me->beats;
    rdzv_etcd_decide(&w->view, &w->self, &d);
    if (w->self.beat_deleted || (me && me->ours && !me->value_mod)) {
        /* The keys are written again, unless workers are being stopped: then rdzv_again does. */
        w->registered = w->registered && w->m->state == RDZV_CHANGED;
    }
    w->read_at = d.at;
    watch_neighbour(w);
    note_late(w);
    bool proceed = act_on_decision(w, &d);
    free(d.order);
    if (proceed) {
        take_step(w);
    }
}

static void read_keys(struct etcd *w) {
    w->stale = false;
    rdzv_etcd_transact(w->client, rdzv_etcd_read_all(&w->view), NULL, on_keys_read);
}

/* ---- the watch ---- */

static void keys_stirred(void *arg) {
    struct etcd *w = arg;
    w->stale = true;
    if (!rdzv_etcd_client_busy(w->client)) {
        co_timer_start(w->timer, GATHER_MS);
    }
}

static void watch_ended(void *arg) {
    struct etcd *w = arg;
    w->stale = true; /* changes may have been missed */
    co_timer_start(w->watch_timer, w->retry_ms);
}

static void watch_keys(struct etcd *w) {
    const char *const prefixes[] = {w->view.prefix_beat, w->view.prefix_info, w->view.prefix_ours};
    rdzv_etcd_watch(w->client, prefixes, CO_ARRAY_LEN(prefixes));
}

static void on_watch_timer(void *arg) {
    struct etcd *w = arg;
    watch_keys(w);
}

/* ---- the next duty ---- */

/* Nothing to do: wakes up for the lease, or for the time that the decision waits for. */
static void rest_until_due(struct etcd *w) {
    int64_t now = co_now_ms();
    int64_t at = w->refresh_at < w->read_at ? w->refresh_at : w->read_at;
    co_timer_start(w->timer, at - now);
}

/* Sends the request of the first duty that is not fulfilled.  The order matters: nothing works
 * without a token, keys need a lease, and messages must be written before the lease is revoked. */
static void take_step(struct etcd *w) {
    int64_t now = co_now_ms();
    bool leaving = w->m->state == RDZV_LEAVING, over = w->over.code != 0;
    if (!rdzv_etcd_client_watching(w->client) && !co_timer_armed(w->watch_timer) && w->have_view &&
        w->m->state < RDZV_LEAVING) {
        watch_keys(w);
    }
    take_ended(w);
    if (rdzv_etcd_client_busy(w->client) || w->m->state == RDZV_ENDED) {
        return;
    }
    if (rdzv_etcd_client_lacks_token(w->client)) {
        rdzv_etcd_authenticate(w->client, on_token);
    } else if (over && !w->lease) {
        rdzv_finish(w->m, &w->over);
    } else if (!w->lease && !leaving) {
        rdzv_etcd_grant(w->client, ttl_seconds(w), on_lease);
    } else if (!over && w->lease && now >= w->refresh_at) {
        rdzv_etcd_keep_alive(w->client, w->lease, on_refreshed);
    } else if ((w->unsent || has_ended_to_write(w) || gone_neighbour(w)) && !w->memo) {
        rdzv_etcd_grant(w->client, MEMO_SECONDS, on_memo);
    } else if (w->unsent) {
        write_messages(w);
    } else if (has_ended_to_write(w)) {
        write_ended(w);
    } else if (leaving || over) {
        if (w->lease) {
            rdzv_etcd_revoke(w->client, w->lease, on_revoked);
        } else {
            rdzv_finish(w->m, &w->over);
        }
    } else if (gone_neighbour(w)) {
        write_gone(w, gone_neighbour(w));
    } else if (!co_streq(late_neighbour(w), w->late_written)) {
        write_late(w);
    } else if (w->have_view && !w->registered && w->m->state != RDZV_CHANGED) {
        register_node(w);
    } else if (w->have_view && w->proposal) {
        propose_round(w);
    } else if (!w->have_view || w->stale || now >= w->read_at) {
        read_keys(w);
    } else {
        rest_until_due(w);
    }
}

static void on_timer(void *arg) {
    take_step(arg);
}

/* ---- the operations of the back end, see struct rdzv_backend ---- */

static void etcd_free(void *backend) {
    struct etcd *w = backend;
    rdzv_etcd_client_free(w->client);
    co_timer_free(w->timer);
    co_timer_free(w->watch_timer);
    rdzv_neighbour_free(w->neighbour);
    free(w->watched);
    free(w->late_written);
    free(w->late_writing);
    rdzv_etcd_view_done(&w->view);
    json_decref(w->ended);
    json_decref(w->unwritten);
    json_decref(w->writing);
    co_json_decref(&w->proposal);
    free(w->lease);
    free(w->memo);
    free(w->why);
    free(w);
}

static int etcd_start(struct rdzv *m, void **ret, struct co_err *err) {
    const struct rdzv_options *o = &m->options;
    bool tls = strncmp(o->master, "etcds://", 8) == 0 || o->ca_file || o->cert_file;
    struct co_hostport hp;
    const char *address = strstr(o->master, "://") + 3; /* a host name may begin with "etcd" too */
    CO_TRY(co_parse_hostport("--master etcd://", address, &hp, err));
    struct co_conn_tls files = {o->ca_file, o->cert_file, o->key_file};
    struct etcd *w = co_xcalloc(1, sizeof(*w));
    uint64_t id = 0;
    (void)!getrandom(&id, sizeof(id), 0);
    (void)snprintf(w->id, sizeof(w->id), "%016llx", (unsigned long long)id);
    w->m = m;
    w->self = (struct rdzv_etcd_self){.o = o, .id = w->id, .since = co_now_ms()};
    w->ended = json_object();
    w->unwritten = json_object();
    w->writing = json_object();
    w->read_at = INT64_MAX;
    w->retry_ms = RETRY_MS;
    w->noted_at = co_now_ms() - NOTE_MS + 2 * RETRY_MS;
    w->client = rdzv_etcd_client_new(m->loop, &(struct rdzv_etcd_client_opts){.server = o->master,
                                                  .host = hp.host,
                                                  .port = hp.port,
                                                  .tls = tls ? &files : NULL,
                                                  .user = o->user,
                                                  .failed = request_failed,
                                                  .stirred = keys_stirred,
                                                  .unwatched = watch_ended,
                                                  .arg = w});
    w->timer = co_timer_new(m->loop, on_timer, w);
    w->watch_timer = co_timer_new(m->loop, on_watch_timer, w);
    rdzv_etcd_view_init(&w->view, o->job_id);
    int r = rdzv_neighbour_new(m->loop, w->id, on_neighbour, w, &w->neighbour, err);
    if (r) {
        etcd_free(w);
        return r;
    }
    co_timer_start(w->timer, 0);
    *ret = w;
    return 0;
}

static void etcd_again(void *backend) {
    struct etcd *w = backend;
    w->self.since = co_now_ms();
    w->self.done = w->overdue = false;
    rdzv_neighbour_ended_well(w->neighbour, false);
    w->registered = false;
    w->have_view = false; /* read first: the node must announce the round after the newest one */
    co_timer_start(w->timer, 0);
}

static void etcd_send(struct etcd *w, unsigned what, const char *why) {
    free(w->why);
    w->why = co_xstrdup(why);
    w->unsent |= what;
    co_timer_start(w->timer, 0);
}

static void etcd_restart(void *backend, const char *why) {
    etcd_send(backend, RDZV_ETCD_SEND_AGAIN, why);
}

static void etcd_done(void *backend) {
    struct etcd *w = backend;
    w->self.done = true;
    etcd_send(w, RDZV_ETCD_SEND_DONE, "");
}

static void etcd_leave(void *backend, int code, const char *why) {
    struct etcd *w = backend;
    w->code = code;
    rdzv_etcd_client_cancel(w->client);
    co_timer_stop(w->watch_timer);
    rdzv_neighbour_watch(w->neighbour, NULL, 0, NULL);
    if (code == 0) {
        rdzv_neighbour_ended_well(w->neighbour, true);
    }
    etcd_send(w,
        !w->self.round ? 0
        : code         ? RDZV_ETCD_SEND_WHY
                       : RDZV_ETCD_SEND_DONE | RDZV_ETCD_SEND_STATUS,
        why);
}

const struct rdzv_backend rdzv_etcd = {
    etcd_start, etcd_again, etcd_restart, etcd_done, etcd_leave, etcd_free, describe_wait};
