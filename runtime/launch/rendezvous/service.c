/* The HTTP server of a rendezvous: keeps each node's request until there is news for it, and runs
 * the timer of the group.  See service.h; keys.h has what Paddle's launchers read. */
#include "runtime/launch/rendezvous/service.h"

#include <stdio.h>
#include <string.h>

#include "common/http/httpd.h"
#include "common/utf8.h"
#include "runtime/launch/rendezvous/guard.h"
#include "runtime/launch/rendezvous/keys.h"
#include "runtime/launch/rendezvous/rendezvous.h"
#include "runtime/launch/rendezvous/wire.h"

enum {
    SPARE_CONNECTIONS = 256,
    BEATS = 4,      /* answers in the time after which a gathering node is lost */
    LISTEN_MS = 20, /* for reading waiting requests before nodes are judged, see on_timer */
    TICK_MS = 1000, /* the timer runs so often while nodes are to ask, whatever is due */
    STOOD_MS = 500, /* if it is later than that, this process stood still */
};

struct rdzv_service {
    struct co_httpd *http;
    struct rdzv_guard *guard; /* NULL: no proof is needed */
    struct co_timer *timer;
    struct rdzv_group group;
    char *prefix; /* "/{job}/info/" */
    struct rdzv_keys keys;
    void (*note)(void *arg, bool warn, const char *line);
    void *arg;
    uint64_t published; /* the group.news that all waiting nodes know of */
    int64_t due;        /* when the group's next deadline comes */
    int64_t listening;  /* since when the grace time of on_timer runs; 0: it does not */
    int64_t read_to;    /* all requests that arrived by then are handled */
    int64_t wakes;      /* when the timer runs; 0: it is not set */
    int64_t woke;       /* when this process last continued after it had stood still; 0: never */
    /* Answers that many nodes get are made once; with the versions that they were made of. */
    struct co_buf packed;
    size_t raw;
    int packed_round;
    struct co_buf description;
    uint64_t description_version;
};

static void log_note(struct rdzv_service *s, bool warn, const char *line) {
    if (s->note) {
        s->note(s->arg, warn, line);
    }
}

/* ---- answers to our launchers ---- */

static int pack_roster(struct rdzv_service *s, struct co_err *err) {
    struct rdzv_group *g = &s->group;
    if (s->packed_round == g->round) {
        return 0;
    }
    CO_AUTOFREE struct rdzv_wire_peer *peers = co_xcalloc(g->n_roster, sizeof(*peers));
    for (size_t i = 0; i < g->n_roster; i++) {
        if (!g->roster[i]) {
            return co_err_set(err, CO_GONE, "node of rank %zu has left already", i);
        }
        peers[i] = (struct rdzv_wire_peer){g->roster[i]->name, g->roster[i]->value};
    }
    co_buf_done(&s->packed);
    s->packed = CO_BUF(RDZV_WIRE_RAW_MAX);
    int r = rdzv_wire_pack(peers, g->n_roster, &s->packed, &s->raw, err);
    s->packed_round = r ? 0 : g->round;
    return r;
}

static void reply(struct co_http_req *r, enum rdzv_wire_kind kind, int number, const char *text) {
    CO_AUTOBUF struct co_buf b = CO_BUF(1024);
    rdzv_wire_format(&b, kind, number, text);
    co_http_reply(r, 200, NULL, b.data, b.len);
}

static void reply_met(struct rdzv_service *s, struct rdzv_group_node *n, struct co_http_req *r) {
    CO_AUTOBUF struct co_buf b = CO_BUF(RDZV_WIRE_RAW_MAX);
    struct co_err err = {0};
    if (pack_roster(s, &err) ||
        rdzv_wire_met(s->group.round, n->place, s->group.n_roster, s->raw, &s->packed, &b, &err)) {
        reply(r, RDZV_WIRE_REFUSED, err.code, err.msg);
        return;
    }
    co_http_reply(r, 200, "application/octet-stream", b.data, b.len);
}

static void notify(struct rdzv_service *s, struct rdzv_group_node *n, enum rdzv_group_notice notice,
    struct co_http_req *r) {
    struct rdzv_group *g = &s->group;
    n->waiter = NULL;
    rdzv_group_notified(g, n, co_now_ms());
    switch (notice) {
    case RDZV_NOTICE_MET:
        reply_met(s, n, r);
        return;
    case RDZV_NOTICE_LATE: {
        CO_AUTOBUF struct co_buf b = CO_BUF(4096);
        size_t n_late = rdzv_group_describe_late(g, &b);
        reply(r, RDZV_WIRE_LATE, (int)n_late, b.data ? b.data : "");
        return;
    }
    case RDZV_NOTICE_CHANGED:
        reply(
            r, RDZV_WIRE_CHANGED, g->round, g->why[0] ? g->why : "another node is the master now");
        return;
    case RDZV_NOTICE_ALL_DONE:
        reply(r, RDZV_WIRE_DONE, g->round, "");
        return;
    case RDZV_NOTICE_OVER:
        n->notified_over = true;
        reply(r, RDZV_WIRE_OVER, g->over.code, g->over.msg);
        return;
    case RDZV_NOTICE_NONE:
        if (s->description_version != g->version || !s->description.data) {
            co_buf_clear(&s->description);
            rdzv_group_describe(g, &s->description);
            s->description_version = g->version;
        }
        reply(r, RDZV_WIRE_WAIT, g->round, s->description.data ? s->description.data : "");
    }
}

/* Before anything is done with the group: what the other processes of a machine that stood still
 * have not sent yet is no silence.  A process that gets its turns late still counts a tick of each.
 */
static int64_t look_at_clock(struct rdzv_service *s) {
    int64_t now = co_now_ms(), stood = s->wakes ? now - s->wakes : 0;
    if (stood > STOOD_MS) {
        rdzv_group_excuse(&s->group, stood);
        s->due += s->due < INT64_MAX ? stood : 0;
        s->wakes = s->woke = now;
    }
    return now;
}

/* A stop outlasts what keeps idle connections open, so that they end with it. */
static void break_node(struct rdzv_service *s, struct rdzv_group_node *n, int64_t now) {
    rdzv_group_broke(&s->group, n, now);
    if (s->woke && now - s->woke < RDZV_GROUP_RECONNECT_MS) {
        n->deadline = now + s->group.rules.silent_ms;
    }
}

static void start_timer(struct rdzv_service *s, int64_t delay, int64_t now) {
    s->wakes = now + delay;
    co_timer_start(s->timer, delay);
}

/* Sets the timer for the group's next deadline. */
static void set_timer(struct rdzv_service *s, int64_t due, int64_t now) {
    s->due = due;
    if (s->listening) {
        return; /* the timer of the grace time runs; on_timer calls this again afterwards */
    }
    if (due == INT64_MAX) {
        s->wakes = 0;
        co_timer_stop(s->timer);
    } else {
        int64_t left = due > now ? due - now : 0;
        start_timer(s, left < TICK_MS ? left : TICK_MS, now);
    }
}

/* Runs the group's rules and answers all waiting requests that have news. */
static void run_group(struct rdzv_service *s, int64_t now) {
    struct rdzv_group *g = &s->group;
    int64_t next = rdzv_group_tick(g, s->read_to, now);
    if (s->published != g->notices) {
        s->published = g->notices;
        for (size_t i = 0; i < g->n; i++) {
            struct rdzv_group_node *n = g->nodes[i];
            enum rdzv_group_notice notice = rdzv_group_notice(g, n);
            if (n->waiter && notice != RDZV_NOTICE_NONE) {
                notify(s, n, notice, n->waiter);
            }
        }
        next = rdzv_group_tick(g, s->read_to, now);
    }
    set_timer(s, next, now);
}

/* Cheaper than run_group: a request that changed nothing can only make a deadline that is at
 * least RDZV_GROUP_RECONNECT_MS away. */
static void set_timer_in_time(struct rdzv_service *s, int64_t now) {
    if (s->due > now + RDZV_GROUP_RECONNECT_MS) {
        set_timer(s, now + RDZV_GROUP_RECONNECT_MS, now);
    }
}

/* Called after everything that may have changed the group.  Most requests change nothing, as a
 * thousand nodes only report that they live. */
static void publish_notices(struct rdzv_service *s) {
    int64_t now = co_now_ms();
    if (s->group.phase == RDZV_GROUP_GATHERING || s->published != s->group.notices) {
        run_group(s, now);
    } else {
        set_timer_in_time(s, now);
    }
}

/* A deadline has passed.  If this process was stopped meanwhile, the requests lie in its sockets:
 * so it reads for LISTEN_MS first, and only then calls a node late or lost. */
static void on_timer(void *arg) {
    struct rdzv_service *s = arg;
    int64_t now = look_at_clock(s);
    if (!s->listening && s->due > now) {
        set_timer(s, s->due, now);
    } else if (!s->listening) {
        s->listening = now;
        start_timer(s, LISTEN_MS, now);
    } else {
        s->read_to = s->listening;
        s->listening = 0;
        run_group(s, now);
    }
}

/* The node that waits with that request; NULL: none does. */
static struct rdzv_group_node *node_of(struct rdzv_service *s, const struct co_http_req *r) {
    char name[CO_HOST_MAX];
    int rank;
    const char *key = co_http_path(r) + strlen(s->prefix);
    struct rdzv_group_node *n =
        rdzv_wire_key_parse(key, name, &rank, NULL) ? NULL : rdzv_group_find(&s->group, name);
    return n && n->waiter == r ? n : NULL;
}

static void on_beat(void *arg, struct co_http_req *r) {
    struct rdzv_service *s = arg;
    struct rdzv_group_node *n = node_of(s, r);
    (void)look_at_clock(s);
    if (n) {
        notify(s, n, RDZV_NOTICE_NONE, r);
        publish_notices(s);
    }
}

static void on_gone(void *arg, struct co_http_req *r) {
    struct rdzv_service *s = arg;
    struct rdzv_group_node *n = node_of(s, r);
    int64_t now = look_at_clock(s);
    if (n) {
        n->waiter = NULL;
        break_node(s, n, now);
        publish_notices(s);
    }
}

/* A node that ends between an answer and its next request has no request that could be found
 * broken, so the end of its connection is used. */
static void on_disconnected(void *arg, uint64_t conn) {
    struct rdzv_service *s = arg;
    int64_t now = look_at_clock(s);
    if (s->guard) {
        rdzv_guard_disconnected(s->guard, conn);
    }
    for (size_t i = 0; i < s->group.n; i++) {
        struct rdzv_group_node *n = s->group.nodes[i];
        if (n->conn == conn && !n->waiter) {
            break_node(s, n, now);
            set_timer_in_time(s, now);
            return;
        }
    }
}

/* ---- requests ---- */

static bool is_node(const struct rdzv_service *s, const char *path) {
    return strncmp(path, s->prefix, strlen(s->prefix)) == 0;
}

static void refuse_node(struct rdzv_service *s, struct co_http_req *r, const struct co_err *err) {
    char line[CO_ERR_MAX + 16];
    (void)snprintf(line, sizeof(line), "refused: %s", err->msg);
    log_note(s, true, line);
    if (co_http_header(r, RDZV_WIRE_HEADER)) {
        reply(r, RDZV_WIRE_REFUSED, err->code, err->msg);
    } else {
        co_http_replyf(r, 409, "%s\n", err->msg);
    }
}

/* Holds the request until there is news for its node.  An older request of the node is answered. */
static void attend_node(struct rdzv_service *s, struct rdzv_group_node *n, struct co_http_req *r) {
    struct co_http_req *former = n->waiter;
    if (former) {
        reply(former, RDZV_WIRE_WAIT, s->group.round, "asked again");
    }
    n->waiter = r;
    n->conn = co_http_conn(r);
    const int64_t silent = s->group.rules.silent_ms;
    const int64_t beat = s->group.phase == RDZV_GROUP_RUNNING
                             ? rdzv_group_beat_ms(s->group.n_roster, silent)
                             : silent / BEATS;
    co_http_defer(r, beat, on_beat, on_gone, s);
    rdzv_group_waits(&s->group, n);
    enum rdzv_group_notice notice = rdzv_group_notice(&s->group, n);
    if (notice != RDZV_NOTICE_NONE) {
        notify(s, n, notice, r);
    }
}

static void put_node(struct rdzv_service *s, struct co_http_req *r, const char *value) {
    char name[CO_HOST_MAX];
    struct rdzv_wire_hello said = {0};
    struct rdzv_group_hello h = {.name = name, .value = value};
    const char *text = co_http_header(r, RDZV_WIRE_HEADER);
    struct co_err err = {0};
    int e = rdzv_wire_key_parse(co_http_path(r) + strlen(s->prefix), name, &h.rank, &err);
    if (!e && text) {
        e = rdzv_wire_hello_parse(text, false, &said, &err);
    }
    if (e) {
        co_http_replyf(r, 400, "%s\n", err.msg);
        return;
    }
    if (text) {
        h.id = said.id;
        h.host = said.host;
        h.state = said.state;
        h.round = said.round;
        h.min = said.min;
        h.max = said.max;
    }
    struct rdzv_group_node *n = NULL;
    e = rdzv_group_receive(&s->group, &h, co_now_ms(), &n, &err);
    /* A job that ended well has code 0: rdzv_group_receive returns no error then, but no node
     * either.
     */
    if (!n && s->group.phase == RDZV_GROUP_OVER && text) {
        n = rdzv_group_find(&s->group, name);
        if (n) {
            n->notified_over = true;
        }
        reply(r, RDZV_WIRE_OVER, err.code, err.msg);
    } else if (e || !n) {
        refuse_node(s, r, &err);
    } else if (!text) {
        co_http_reply(r, 200, NULL, NULL, 0);
    } else {
        attend_node(s, n, r);
    }
    publish_notices(s);
}

static void on_put(void *arg, struct co_http_req *r) {
    struct rdzv_service *s = arg;
    size_t len;
    const char *value = co_http_body(r, &len);
    if (strlen(value) != len) {
        co_http_replyf(r, 400, "a value without NUL is expected\n");
    } else if (!co_utf8_valid(co_http_path(r))) { /* listings are JSON, which needs UTF-8 */
        co_http_replyf(r, 400, "a key in UTF-8 is expected\n");
    } else if (is_node(s, co_http_path(r))) {
        put_node(s, r, value);
    } else {
        rdzv_keys_put(&s->keys, r, value);
    }
}

/* ---- nodes that leave ---- */

static void leave_node(struct rdzv_service *s, struct co_http_req *r) {
    char name[CO_HOST_MAX];
    int rank;
    struct rdzv_wire_hello said = {0};
    const char *text = co_http_header(r, RDZV_WIRE_HEADER);
    struct rdzv_group_node *n = NULL;
    if (rdzv_wire_key_parse(co_http_path(r) + strlen(s->prefix), name, &rank, NULL) == 0) {
        n = rdzv_group_find(&s->group, name);
    }
    if (text && rdzv_wire_hello_parse(text, true, &said, NULL)) {
        n = NULL;
    }
    if (!n || n->rank != rank || (n->id ? !text || strcmp(n->id, said.id) != 0 : text != NULL)) {
        co_http_reply(r, 404, NULL, NULL, 0);
        return;
    }
    size_t len;
    const char *why = co_http_body(r, &len);
    if (said.restart) {
        rdzv_group_restart(&s->group, n, said.round, why, co_now_ms());
        /* The answer is what the restart leads to.  An empty answer would let the master leave
         * before the node has asked again. */
        attend_node(s, n, r);
    } else {
        struct co_http_req *former = n->waiter;
        rdzv_group_leave(&s->group, n, said.code, why, co_now_ms());
        if (former) {
            reply(former, RDZV_WIRE_WAIT, s->group.round, "left");
        }
        co_http_reply(r, 200, NULL, NULL, 0);
    }
    publish_notices(s);
}

static void on_get(void *arg, struct co_http_req *r) {
    struct rdzv_service *s = arg;
    rdzv_keys_get(&s->keys, r);
}

static void on_delete(void *arg, struct co_http_req *r) {
    struct rdzv_service *s = arg;
    if (is_node(s, co_http_path(r))) {
        leave_node(s, r);
        return;
    }
    rdzv_keys_delete(&s->keys, r);
}

/* ---- admission ---- */

static void admit(
    void *arg, struct co_http_req *r, void (*handle)(void *arg, struct co_http_req *r)) {
    struct rdzv_service *s = arg;
    (void)look_at_clock(s);
    if (!s->guard || rdzv_guard_admit(s->guard, r)) {
        handle(arg, r);
    }
}

static void admit_get(void *arg, struct co_http_req *r) {
    admit(arg, r, on_get);
}

static void admit_put(void *arg, struct co_http_req *r) {
    admit(arg, r, on_put);
}

static void admit_delete(void *arg, struct co_http_req *r) {
    admit(arg, r, on_delete);
}

static void on_answering(
    void *arg, struct co_http_req *r, int status, const void *body, size_t len) {
    const struct rdzv_service *s = arg;
    if (s->guard) {
        rdzv_guard_prove(s->guard, r, status, body, len);
    }
}

static const struct co_http_route routes[] = {
    {"GET", "/*", admit_get},
    {"POST", "/*", admit_put},
    {"PUT", "/*", admit_put},
    {"DELETE", "/*", admit_delete},
};

/* ---- the service ---- */

static void guard_note(void *arg, bool warn, const char *line) {
    log_note(arg, warn, line);
}

int rdzv_service_open(struct co_loop *l, uint16_t port, const struct rdzv_service_options *options,
    struct rdzv_service **ret, struct co_err *err) {
    /* All nodes may have the same address.  The limit per address is below that in all, so that
     * one address cannot take all connections. */
    size_t nodes = 2 * (size_t)options->rules.max;
    struct co_httpd_options http = {.max_connections = nodes + SPARE_CONNECTIONS,
        .max_per_peer = nodes + SPARE_CONNECTIONS / 2,
        .max_body = RDZV_VALUE_MAX,
        .disconnected = on_disconnected,
        .answering = on_answering,
        .idle_seconds = (int)(options->rules.silent_ms / 1000) + 5};
    char address[16];
    (void)snprintf(address, sizeof(address), ":%u", port);
    struct rdzv_service *s = co_xcalloc(1, sizeof(*s));
    s->note = options->note;
    s->arg = options->arg;
    int r = options->token ? rdzv_guard_new(options->token, guard_note, s, &s->guard, err) : 0;
    if (!r) {
        r = co_httpd_open(l, address, routes, CO_ARRAY_LEN(routes), s, &http, &s->http, err);
    }
    if (r) {
        rdzv_guard_free(s->guard);
        free(s);
        return r;
    }
    s->prefix = co_xasprintf("/%s/info/", options->job_id);
    s->description = CO_BUF(4096);
    s->timer = co_timer_new(l, on_timer, s);
    rdzv_group_init(&s->group, &options->rules);
    rdzv_keys_init(&s->keys, &s->group, s->prefix);
    *ret = s;
    return 0;
}

uint16_t rdzv_service_port(const struct rdzv_service *s) {
    return co_httpd_port(s->http);
}

void rdzv_service_part(struct rdzv_service *s, const char *why) {
    rdzv_group_part(&s->group, why);
    publish_notices(s);
}

bool rdzv_service_settled(const struct rdzv_service *s) {
    for (size_t i = 0; i < s->group.n; i++) {
        const struct rdzv_group_node *n = s->group.nodes[i];
        if (n->id && !n->broken && !n->notified_over) {
            return false;
        }
    }
    return true;
}

void rdzv_service_close(struct rdzv_service *s) {
    if (!s) {
        return;
    }
    co_httpd_close(s->http);
    rdzv_guard_free(s->guard);
    co_timer_free(s->timer);
    rdzv_group_done(&s->group);
    rdzv_keys_done(&s->keys);
    co_buf_done(&s->packed);
    co_buf_done(&s->description);
    free(s->prefix);
    free(s);
}
