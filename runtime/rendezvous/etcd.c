/* etcd://: by keys in an etcd, over its JSON gateway.  One duty after the other on one connection
 * (a token, a lease, own keys, what has to be said, a look, the next round), and a watch on another
 * that tells when to look.  Whatever fails is tried again from the first duty that is not
 * fulfilled, so that an etcd that dies and returns needs no rule of its own. */
#include "runtime/rendezvous/internal.h"

#include "common/buf.h"
#include "common/httpc.h"
#include "common/parse.h"
#include "runtime/rendezvous/etcd_json.h"
#include "runtime/rendezvous/etcd_view.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    ANSWER_MAX = 64 * 1024 * 1024,
    ANSWER_MS = 5000,
    WATCH_MS = 5000, /* for its headers */
    GATHER_MS = 5,   /* what changes together is looked at once */
    RETRY_MS = 200,
    RETRY_MAX_MS = 2000,
    NOTE_MS = 5000,
    MEMO_SECONDS = 600, /* how long last words are kept, as Paddle's status */
    BEATS = 3,          /* refreshes of a lease in its time */
};

/* What a node says at some time; bits. */
enum { SAY_DONE = 1, SAY_AGAIN = 2, SAY_WHY = 4, SAY_STATUS = 8 };

struct etcd {
    struct rt_rdzv *m;
    struct co_httpc *http, *watch;
    struct co_timer *timer, *watch_timer;
    char id[17];
    char *token; /* NULL: none needed, or not known yet */
    bool tls;
    char *lease, *memo; /* decimal; NULL: none */
    int64_t refresh_at; /* the lease */
    bool registered, look, watching;
    unsigned say;
    int code;  /* of leaving */
    char *why; /* of leaving or starting again; owned */
    struct rt_etcd_view view;
    bool have_view;
    struct rt_etcd_self self;
    uint64_t hash;
    int64_t look_at;
    json_t *proposal; /* the next round */
    int64_t retry_ms, noted_at;
    struct co_err last;
    struct co_err over; /* told when the lease is given back: others may wait for that */
    void (*then)(struct etcd *w, const json_t *answer); /* of the request on its way */
};

static void step(struct etcd *w);
static void finish(struct etcd *w);

static const char *story(void *way) {
    const struct etcd *w = way;
    return w->last.msg[0] ? w->last.msg : "etcd was not heard of";
}

static int64_t ttl_seconds(const struct etcd *w) {
    int64_t s = w->m->options.silent_ms / 1000;
    return s < 2 ? 2 : s;
}

/* ---- requests ---- */

static void trouble(struct etcd *w, const struct co_err *why) {
    int64_t now = co_now_ms();
    w->last = *why;
    if (w->m->state == RT_RDZV_LEAVING || w->over.code) {
        finish(w);
        return;
    }
    w->retry_ms = w->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : w->retry_ms * 2;
    co_timer_start(w->timer, w->retry_ms);
    if (now - w->noted_at >= NOTE_MS) {
        struct co_err err = *why;
        (void)co_err_wrap(&err, "master not ready: etcd");
        w->noted_at = now;
        rt_rdzv_note(w->m, true, err.msg);
    }
}

/* gRPC's numbers, which the gateway passes on. */
enum {
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_UNAUTHENTICATED = 16
};

static void refused(struct etcd *w, const json_t *answer, int status) {
    struct co_err err = {0};
    const char *text = co_json_str(answer, "message");
    int64_t code = json_integer_value(co_json_at(answer, "code"));
    (void)co_err_set(
        &err, CO_UNAVAILABLE, "%s answers %d: %s", w->m->options.master, status, text ? text : "");
    bool asked_token = w->m->options.user && !w->token;
    if (code == GRPC_PERMISSION_DENIED || (asked_token && code == GRPC_INVALID_ARGUMENT) ||
        (code == GRPC_INVALID_ARGUMENT && text && strstr(text, "user name is empty"))) {
        rt_rdzv_end(w->m, CO_PERMISSION, err.msg);
        return;
    }
    if (code == GRPC_UNAUTHENTICATED) {
        free(co_steal_ptr(w->token)); /* it has expired */
    } else if (code == GRPC_NOT_FOUND) {
        free(co_steal_ptr(w->lease)); /* so has it */
        free(co_steal_ptr(w->memo));
        w->registered = false;
    }
    trouble(w, &err);
}

static void on_answer(void *arg, const struct co_httpc_result *r) {
    struct etcd *w = arg;
    CO_AUTOJSON json_t *answer = NULL;
    struct co_err err = {0};
    if (r->code) {
        trouble(w, r->err);
        return;
    }
    if (co_json_parse(r->body, r->len, &answer, &err)) {
        (void)co_err_wrap(&err, "%s answers %d", w->m->options.master, r->status);
        trouble(w, &err);
        return;
    }
    if (r->status != 200) {
        refused(w, answer, r->status);
        return;
    }
    w->retry_ms = RETRY_MS;
    w->then(w, answer);
}

static char *auth_header(const struct etcd *w) {
    return w->token ? co_xasprintf("Authorization: %s\r\n", w->token) : NULL;
}

static void call(struct etcd *w, const char *path, json_t *body_own,
    void (*then)(struct etcd *w, const json_t *answer)) {
    CO_AUTOJSON json_t *body = body_own;
    CO_AUTOFREE char *text = co_json_dump(body), *header = auth_header(w);
    w->then = then;
    co_httpc_send(w->http, &(struct co_httpc_request){.method = "POST",
                               .path = path,
                               .headers = header,
                               .body = text,
                               .len = strlen(text),
                               .timeout_ms = ANSWER_MS,
                               .done = on_answer,
                               .arg = w});
}

static void transact(struct etcd *w, json_t *ops_own, json_t *compare_own,
    void (*then)(struct etcd *w, const json_t *answer)) {
    json_t *body = json_object();
    if (compare_own) {
        co_json_set(body, "compare", compare_own);
    }
    co_json_set(body, "success", ops_own);
    call(w, "/v3/kv/txn", body, then);
}

/* ---- a token and a lease ---- */

static void on_token(struct etcd *w, const json_t *answer) {
    const char *token = co_json_str(answer, "token");
    w->token = token ? co_xstrdup(token) : NULL;
    step(w);
}

static void authenticate(struct etcd *w) {
    const char *user = w->m->options.user, *colon = strchr(user, ':');
    json_t *body = json_object();
    co_json_set(body, "name", json_stringn(user, colon ? (size_t)(colon - user) : strlen(user)));
    co_json_set(body, "password", co_json_string(colon ? colon + 1 : ""));
    call(w, "/v3/auth/authenticate", body, on_token);
}

static char *lease_of(const json_t *answer) {
    const char *id = co_json_str(answer, "ID");
    return id ? co_xstrdup(id) : NULL;
}

static void next_refresh(struct etcd *w) {
    w->refresh_at = co_now_ms() + ttl_seconds(w) * 1000 / BEATS;
}

static void on_lease(struct etcd *w, const json_t *answer) {
    w->lease = lease_of(answer);
    w->registered = false;
    next_refresh(w);
    step(w);
}

static void on_memo(struct etcd *w, const json_t *answer) {
    w->memo = lease_of(answer);
    step(w);
}

static void grant(
    struct etcd *w, int64_t seconds, void (*then)(struct etcd *w, const json_t *answer)) {
    json_t *body = json_object();
    co_json_set(body, "TTL", json_integer(seconds));
    call(w, "/v3/lease/grant", body, then);
}

static json_t *lease_body(const char *lease) {
    json_t *body = json_object();
    co_json_set(body, "ID", json_string(lease));
    return body;
}

static void on_refreshed(struct etcd *w, const json_t *answer) {
    if (!co_json_str(answer, "result", "TTL")) { /* it is over: etcd leaves zeros out */
        free(co_steal_ptr(w->lease));
        w->look = true;
    }
    next_refresh(w);
    step(w);
}

/* Nothing is left to do. */
static void finish(struct etcd *w) {
    if (w->m->state == RT_RDZV_LEAVING) {
        rt_rdzv_gone(w->m);
    } else {
        rt_rdzv_end(w->m, w->over.code, w->over.msg);
    }
}

static void on_revoked(struct etcd *w, const json_t *answer) {
    (void)answer;
    free(co_steal_ptr(w->lease));
    finish(w);
}

/* ---- own keys ---- */

static char *ours(const struct etcd *w, const char *what, const char *name) {
    return co_xasprintf("%s%s%s", w->view.prefix_ours, what, name);
}

static void on_registered(struct etcd *w, const json_t *answer) {
    (void)answer;
    w->registered = true;
    w->look = true;
    step(w);
}

/* The key of ours only where no other node of the name holds it. */
static void register_node(struct etcd *w) {
    const struct rt_rdzv_options *o = &w->m->options;
    bool joins = w->m->state == RT_RDZV_MEETING;
    json_t *doc = json_object(), *ops = json_array();
    co_json_set(doc, "id", json_string(w->id));
    co_json_set(doc, "host", co_json_string(o->host ? o->host : ""));
    co_json_set(doc, "ready", json_integer(joins ? w->view.round + 1 : w->view.round));
    co_json_append(
        ops, rt_etcd_put(co_xasprintf("%s%s", w->view.prefix_beat, o->name), o->name, w->lease));
    co_json_append(ops, rt_etcd_put(co_xasprintf("%s%s/%d", w->view.prefix_info, o->name, o->rank),
                            o->value, w->lease));
    co_json_append(ops, rt_etcd_put_json(ours(w, "node/", o->name), doc, w->lease));
    w->self.beat_deleted = false;
    transact(w, ops, NULL, on_registered);
}

static json_t *document(int round) {
    json_t *doc = json_object();
    co_json_set(doc, "round", json_integer(round));
    return doc;
}

static void on_said(struct etcd *w, const json_t *answer) {
    (void)answer;
    w->say = 0;
    w->look = true;
    step(w);
}

static void say(struct etcd *w) {
    const struct rt_rdzv_options *o = &w->m->options;
    const char *why = w->why ? w->why : "";
    json_t *ops = json_array();
    if (w->say & SAY_DONE) {
        co_json_append(
            ops, rt_etcd_put_json(ours(w, "done/", o->name), document(w->self.round), w->memo));
    }
    if (w->say & SAY_AGAIN) {
        json_t *doc = document(w->self.round);
        CO_AUTOFREE char *text = co_xasprintf("node %s starts again: %s", o->name, why);
        co_json_set(doc, "why", co_json_string(text));
        co_json_append(ops, rt_etcd_put_json(ours(w, "again", ""), doc, w->memo));
    }
    if (w->say & SAY_WHY) {
        json_t *doc = document(w->self.round);
        co_json_set(doc, "code", json_integer(w->code));
        co_json_set(doc, "why", co_json_string(why));
        co_json_append(ops, rt_etcd_put_json(ours(w, "why/", o->name), doc, w->memo));
    }
    if (w->say & SAY_STATUS) { /* Paddle's nodes do not start again when it is "completed" */
        co_json_append(
            ops, rt_etcd_put(co_xasprintf("/paddle/%s", o->job_id), "completed", w->memo));
    }
    transact(w, ops, NULL, on_said);
}

/* ---- the next round ---- */

static void on_proposed(struct etcd *w, const json_t *answer) {
    (void)answer; /* if another one was faster, its round counts */
    w->look = true;
    step(w);
}

static void propose(struct etcd *w) {
    CO_AUTOFREE char *key = ours(w, "round", "");
    json_t *ops = json_array();
    co_json_append(ops, rt_etcd_put_json(co_xstrdup(key), co_steal_ptr(w->proposal), NULL));
    transact(w, ops, rt_etcd_unchanged(key, w->view.round_mod), on_proposed);
}

static void keep_proposal(struct etcd *w, const struct rt_etcd_decision *d) {
    json_t *nodes = json_array(), *paddles = json_array(), *doc = document(w->view.round + 1);
    for (size_t i = 0; i < d->n; i++) {
        const struct rt_etcd_node *n = &w->view.nodes[d->order[i]];
        co_json_append(nodes, co_json_string(n->name));
        if (!n->ours) {
            co_json_append(paddles, co_json_string(n->name));
        }
    }
    co_json_set(doc, "restarts", json_integer(d->restarts));
    co_json_set(doc, "nodes", nodes);
    co_json_set(doc, "paddles", paddles);
    co_json_decref(&w->proposal);
    w->proposal = doc;
}

/* ---- looking ---- */

static void tell_met(struct etcd *w, const struct rt_etcd_decision *d) {
    CO_AUTOFREE struct rt_rdzv_peer *peers = co_xcalloc(d->n, sizeof(*peers));
    size_t self = 0;
    for (size_t i = 0; i < d->n; i++) {
        const struct rt_etcd_node *n = &w->view.nodes[d->order[i]];
        peers[i] = (struct rt_rdzv_peer){n->name, n->value};
        self = strcmp(n->name, w->m->options.name) == 0 ? i : self;
    }
    w->self.round = w->view.round;
    rt_rdzv_met(w->m, peers, d->n, self, w->view.round, true);
}

/* False: the face was told something, w may be gone. */
static bool act(struct etcd *w, const struct rt_etcd_decision *d) {
    switch (d->next) {
    case RT_ETCD_REGISTER:
        w->registered = false;
        return true;
    case RT_ETCD_PROPOSE:
        keep_proposal(w, d);
        return true;
    case RT_ETCD_WAIT:
        if (d->why[0]) {
            (void)co_err_set(&w->last, CO_TIMEOUT, "%s", d->why);
        }
        return true;
    case RT_ETCD_MET:
        w->look = true;
        co_timer_start(w->timer, 0);
        tell_met(w, d);
        return false;
    case RT_ETCD_CHANGED:
        co_timer_start(w->timer, 0);
        rt_rdzv_changed(w->m, d->why);
        return false;
    case RT_ETCD_ALL_DONE:
        co_timer_start(w->timer, 0);
        w->self.done = false;
        rt_rdzv_all_done(w->m);
        return false;
    case RT_ETCD_END:
        (void)co_err_set(&w->over, d->code, "%s", d->why);
        if (w->m->state == RT_RDZV_MET) { /* or the others would take this node for the cause */
            w->code = 0;
            free(w->why);
            w->why = co_xstrdup(d->why);
            w->say |= SAY_WHY;
        }
        return true;
    }
    return true;
}

static void on_look(struct etcd *w, const json_t *answer) {
    struct co_err err = {0};
    struct rt_etcd_decision d;
    if (rt_etcd_view_read(&w->view, answer, &err)) {
        trouble(w, &err);
        return;
    }
    int64_t now = co_now_ms();
    uint64_t hash = rt_etcd_view_hash(&w->view);
    if (!w->have_view || hash != w->hash) {
        w->hash = hash;
        w->self.calm_since = now;
    }
    w->have_view = true;
    const struct rt_etcd_node *me = rt_etcd_view_find(&w->view, w->m->options.name);
    w->self.now = now;
    w->self.state = w->m->state;
    w->self.beat_deleted = w->registered && me && me->ours && !me->beats;
    rt_etcd_decide(&w->view, &w->self, &d);
    if (w->self.beat_deleted || (me && me->ours && !me->value_mod)) {
        w->registered = w->registered && w->m->state == RT_RDZV_CHANGED; /* written again */
    }
    w->look_at = d.at;
    bool go_on = act(w, &d);
    free(d.order);
    if (go_on) {
        step(w);
    }
}

static void look(struct etcd *w) {
    const char *const prefixes[] = {w->view.prefix_beat, w->view.prefix_info, w->view.prefix_ours};
    json_t *ops = json_array();
    w->look = false;
    for (size_t i = 0; i < CO_ARRAY_LEN(prefixes); i++) {
        co_json_append(ops, rt_etcd_request("request_range", rt_etcd_range(prefixes[i])));
    }
    co_json_append(ops, rt_etcd_request("request_range", rt_etcd_one(w->view.key_status)));
    transact(w, ops, NULL, on_look);
}

/* ---- the watch ---- */

static void on_watch_data(void *arg, const char *data, size_t len) {
    struct etcd *w = arg;
    (void)data;
    (void)len;
    w->look = true;
    if (!co_httpc_busy(w->http)) {
        co_timer_start(w->timer, GATHER_MS);
    }
}

static void on_watch_end(void *arg, const struct co_httpc_result *r) {
    struct etcd *w = arg;
    (void)r;
    w->watching = false;
    w->look = true; /* what happened meanwhile */
    co_timer_start(w->watch_timer, w->retry_ms);
}

static void watch(struct etcd *w) {
    const char *const prefixes[] = {w->view.prefix_beat, w->view.prefix_info, w->view.prefix_ours};
    CO_AUTOBUF struct co_buf body = CO_BUF(64 * 1024);
    CO_AUTOFREE char *header = auth_header(w);
    for (size_t i = 0; i < CO_ARRAY_LEN(prefixes); i++) {
        CO_AUTOJSON json_t *create = rt_etcd_request("create_request", rt_etcd_range(prefixes[i]));
        CO_AUTOFREE char *text = co_json_dump(create);
        (void)!co_buf_addf(&body, NULL, "%s\n", text);
    }
    w->watching = true;
    co_httpc_send(w->watch, &(struct co_httpc_request){.method = "POST",
                                .path = "/v3/watch",
                                .headers = header,
                                .body = body.data,
                                .len = body.len,
                                .timeout_ms = WATCH_MS,
                                .data = on_watch_data,
                                .done = on_watch_end,
                                .arg = w});
}

static void on_watch_timer(void *arg) {
    struct etcd *w = arg;
    watch(w);
}

/* ---- the next duty ---- */

static void rest(struct etcd *w) {
    int64_t now = co_now_ms();
    int64_t at = w->refresh_at < w->look_at ? w->refresh_at : w->look_at;
    co_timer_start(w->timer, at - now);
}

static void step(struct etcd *w) {
    int64_t now = co_now_ms();
    bool leaving = w->m->state == RT_RDZV_LEAVING, over = w->over.code != 0;
    if (!w->watching && !co_timer_armed(w->watch_timer) && w->have_view &&
        w->m->state < RT_RDZV_LEAVING) {
        watch(w);
    }
    if (co_httpc_busy(w->http) || w->m->state == RT_RDZV_ENDED) {
        return;
    }
    if (w->m->options.user && !w->token) {
        authenticate(w);
    } else if (over && !w->lease) {
        finish(w);
    } else if (!w->lease && !leaving) {
        grant(w, ttl_seconds(w), on_lease);
    } else if (!over && w->lease && now >= w->refresh_at) {
        call(w, "/v3/lease/keepalive", lease_body(w->lease), on_refreshed);
    } else if (w->say && !w->memo) {
        grant(w, MEMO_SECONDS, on_memo);
    } else if (w->say) {
        say(w);
    } else if (leaving || over) {
        if (w->lease) {
            call(w, "/v3/lease/revoke", lease_body(w->lease), on_revoked);
        } else {
            finish(w);
        }
    } else if (w->have_view && !w->registered && w->m->state != RT_RDZV_CHANGED) {
        register_node(w);
    } else if (w->have_view && w->proposal) {
        propose(w);
    } else if (!w->have_view || w->look || now >= w->look_at) {
        look(w);
    } else {
        rest(w);
    }
}

static void on_timer(void *arg) {
    step(arg);
}

/* ---- the way ---- */

static void etcd_free(void *way) {
    struct etcd *w = way;
    co_httpc_free(w->http);
    co_httpc_free(w->watch);
    co_timer_free(w->timer);
    co_timer_free(w->watch_timer);
    rt_etcd_view_done(&w->view);
    co_json_decref(&w->proposal);
    free(w->token);
    free(w->lease);
    free(w->memo);
    free(w->why);
    free(w);
}

static int etcd_start(struct rt_rdzv *m, void **ret, struct co_err *err) {
    const struct rt_rdzv_options *o = &m->options;
    bool tls = strncmp(o->master, "etcds://", 8) == 0 || o->ca_file || o->cert_file;
    struct co_hostport hp;
    const char *address = strstr(o->master, "://") + 3; /* whole: a host may begin with "etcd" */
    int r = co_parse_hostport("--master etcd://", address, &hp, err);
    if (r) {
        return r;
    }
    struct co_conn_tls files = {o->ca_file, o->cert_file, o->key_file};
    struct etcd *w = co_xcalloc(1, sizeof(*w));
    uint64_t id = 0;
    (void)!getrandom(&id, sizeof(id), 0);
    (void)snprintf(w->id, sizeof(w->id), "%016llx", (unsigned long long)id);
    w->m = m;
    w->self = (struct rt_etcd_self){.o = o, .id = w->id, .since = co_now_ms()};
    w->look_at = INT64_MAX;
    w->retry_ms = RETRY_MS;
    w->noted_at = co_now_ms() - NOTE_MS + 2 * RETRY_MS;
    w->http = co_httpc_new(m->loop, hp.host, hp.port, tls ? &files : NULL, ANSWER_MAX);
    w->watch = co_httpc_new(m->loop, hp.host, hp.port, tls ? &files : NULL, ANSWER_MAX);
    w->timer = co_timer_new(m->loop, on_timer, w);
    w->watch_timer = co_timer_new(m->loop, on_watch_timer, w);
    rt_etcd_view_init(&w->view, o->job_id);
    co_timer_start(w->timer, 0);
    *ret = w;
    return 0;
}

static void etcd_again(void *way) {
    struct etcd *w = way;
    w->self.since = co_now_ms();
    w->self.done = false;
    w->registered = false;
    w->have_view = false; /* ready for the round after the newest */
    co_timer_start(w->timer, 0);
}

static void etcd_say(struct etcd *w, unsigned what, const char *why) {
    free(w->why);
    w->why = co_xstrdup(why);
    w->say |= what;
    co_timer_start(w->timer, 0);
}

static void etcd_restart(void *way, const char *why) {
    etcd_say(way, SAY_AGAIN, why);
}

static void etcd_done(void *way) {
    struct etcd *w = way;
    w->self.done = true;
    etcd_say(w, SAY_DONE, "");
}

static void etcd_leave(void *way, int code, const char *why) {
    struct etcd *w = way;
    w->code = code;
    co_httpc_cancel(w->http);
    co_httpc_cancel(w->watch);
    co_timer_stop(w->watch_timer);
    etcd_say(w, !w->self.round ? 0 : code ? SAY_WHY : SAY_DONE | SAY_STATUS, why);
}

const struct rt_rdzv_way rt_rdzv_etcd = {.start = etcd_start,
    .again = etcd_again,
    .restart = etcd_restart,
    .done = etcd_done,
    .leave = etcd_leave,
    .free = etcd_free,
    .story = story};
