#include "runtime/launch/rendezvous/service.h"

#include "common/httpd.h"
#include "common/json.h"
#include "common/utf8.h"
#include "runtime/launch/rendezvous/rendezvous.h"
#include "runtime/launch/rendezvous/wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    KEYS_MAX = 4096, /* that belong to no node */
    SPARE_FDS = 256,
    BEATS = 4, /* answers in the time after which a node that gathers is lost */
    LISTEN_MS = 20,
};

struct rl_service {
    struct co_loop *loop;
    struct co_httpd *http;
    struct co_timer *timer;
    struct rl_group group;
    char *prefix;       /* "/{job}/info/" */
    struct co_map keys; /* path -> value, those of no node */
    void (*note)(void *arg, bool warn, const char *line);
    void *arg;
    uint64_t published; /* group.news that all who wait know of */
    int64_t due;        /* the timer's moment */
    int64_t listening;  /* since then; 0: not */
    int64_t heard;      /* all that was said until then is known */
    /* Answers that many get, and what they were made of. */
    struct co_buf packed;
    size_t raw;
    int packed_round;
    char *listing, *listing_path;
    uint64_t listing_version, keys_version;
    struct co_buf story;
    uint64_t story_version;
};

static void tell_note(struct rl_service *s, bool warn, const char *line) {
    if (s->note) {
        s->note(s->arg, warn, line);
    }
}

/* ---- what our launchers are told ---- */

static int pack_roster(struct rl_service *s, struct co_err *err) {
    struct rl_group *g = &s->group;
    if (s->packed_round == g->round) {
        return 0;
    }
    CO_AUTOFREE struct rl_wire_peer *peers = co_xcalloc(g->n_roster, sizeof(*peers));
    for (size_t i = 0; i < g->n_roster; i++) {
        if (!g->roster[i]) {
            return co_err_set(err, CO_GONE, "node of rank %zu has left already", i);
        }
        peers[i] = (struct rl_wire_peer){g->roster[i]->name, g->roster[i]->value};
    }
    co_buf_done(&s->packed);
    s->packed = CO_BUF(RL_WIRE_RAW_MAX);
    int r = rl_wire_pack(peers, g->n_roster, &s->packed, &s->raw, err);
    s->packed_round = r ? 0 : g->round;
    return r;
}

static void say_answer(
    struct co_http_req *r, enum rl_wire_kind kind, int number, const char *text) {
    CO_AUTOBUF struct co_buf b = CO_BUF(1024);
    rl_wire_say(&b, kind, number, text);
    co_http_reply(r, 200, NULL, b.data, b.len);
}

static void say_met(struct rl_service *s, struct rl_group_node *n, struct co_http_req *r) {
    CO_AUTOBUF struct co_buf b = CO_BUF(RL_WIRE_RAW_MAX);
    struct co_err err = {0};
    if (pack_roster(s, &err) ||
        rl_wire_met(s->group.round, n->place, s->group.n_roster, s->raw, &s->packed, &b, &err)) {
        say_answer(r, RL_WIRE_REFUSED, err.code, err.msg);
        return;
    }
    co_http_reply(r, 200, "application/octet-stream", b.data, b.len);
}

static void tell_news(
    struct rl_service *s, struct rl_group_node *n, enum rl_group_news news, struct co_http_req *r) {
    struct rl_group *g = &s->group;
    n->waiter = NULL;
    rl_group_told(g, n, co_now_ms());
    switch (news) {
    case RL_NEWS_MET:
        say_met(s, n, r);
        return;
    case RL_NEWS_MUTE: {
        CO_AUTOBUF struct co_buf b = CO_BUF(4096);
        size_t n_mute = rl_group_mute_story(g, &b);
        say_answer(r, RL_WIRE_MUTE, (int)n_mute, b.data ? b.data : "");
        return;
    }
    case RL_NEWS_CHANGED:
        say_answer(
            r, RL_WIRE_CHANGED, g->round, g->why[0] ? g->why : "the master is another one now");
        return;
    case RL_NEWS_ALL_DONE:
        say_answer(r, RL_WIRE_DONE, g->round, "");
        return;
    case RL_NEWS_OVER:
        n->told_over = true;
        say_answer(r, RL_WIRE_OVER, g->over.code, g->over.msg);
        return;
    case RL_NEWS_NONE:
        if (s->story_version != g->version || !s->story.data) {
            co_buf_clear(&s->story);
            rl_group_story(g, &s->story);
            s->story_version = g->version;
        }
        say_answer(r, RL_WIRE_WAIT, g->round, s->story.data ? s->story.data : "");
    }
}

static void look_at(struct rl_service *s, int64_t due, int64_t now) {
    s->due = due;
    if (s->listening) {
        return; /* the timer runs, and is followed by another look */
    }
    if (due == INT64_MAX) {
        co_timer_stop(s->timer);
    } else {
        co_timer_start(s->timer, due > now ? due - now : 0);
    }
}

static void look_at_group(struct rl_service *s, int64_t now) {
    struct rl_group *g = &s->group;
    int64_t next = rl_group_tick(g, s->heard, now);
    if (s->published != g->news) {
        s->published = g->news;
        for (size_t i = 0; i < g->n; i++) {
            struct rl_group_node *n = g->nodes[i];
            enum rl_group_news news = rl_group_news(g, n);
            if (n->waiter && news != RL_NEWS_NONE) {
                tell_news(s, n, news, n->waiter);
            }
        }
        next = rl_group_tick(g, s->heard, now);
    }
    look_at(s, next, now);
}

/* Nobody is due earlier by what he just did. */
static void look_in_time(struct rl_service *s, int64_t now) {
    if (s->due > now + RL_GROUP_RECONNECT_MS) {
        look_at(s, now + RL_GROUP_RECONNECT_MS, now);
    }
}

/* After whatever may have changed the group.  Mostly nothing has: a thousand nodes beat. */
static void publish_news(struct rl_service *s) {
    int64_t now = co_now_ms();
    if (s->group.phase == RL_GROUP_GATHERING || s->published != s->group.news) {
        look_at_group(s, now);
    } else {
        look_in_time(s, now);
    }
}

/* Somebody should have been heard of by now.  If it is this process that was late, what he said
 * lies in a socket: it is read before anybody is judged. */
static void on_timer(void *arg) {
    struct rl_service *s = arg;
    if (!s->listening) {
        s->listening = co_now_ms();
        co_timer_start(s->timer, LISTEN_MS);
        return;
    }
    s->heard = s->listening;
    s->listening = 0;
    look_at_group(s, co_now_ms());
}

static struct rl_group_node *node_of(struct rl_service *s, const struct co_http_req *r) {
    char name[CO_HOST_MAX];
    int rank;
    const char *key = co_http_path(r) + strlen(s->prefix);
    struct rl_group_node *n =
        rl_wire_key_parse(key, name, &rank, NULL) ? NULL : rl_group_find(&s->group, name);
    return n && n->waiter == r ? n : NULL;
}

static void on_beat(void *arg, struct co_http_req *r) {
    struct rl_service *s = arg;
    struct rl_group_node *n = node_of(s, r);
    if (n) {
        tell_news(s, n, RL_NEWS_NONE, r);
        publish_news(s);
    }
}

static void on_gone(void *arg, struct co_http_req *r) {
    struct rl_service *s = arg;
    struct rl_group_node *n = node_of(s, r);
    if (n) {
        n->waiter = NULL;
        rl_group_broke(n, co_now_ms());
        publish_news(s);
    }
}

/* A node that ends between an answer and its next question has no request that could tell. */
static void on_disconnected(void *arg, uint64_t conn) {
    struct rl_service *s = arg;
    for (size_t i = 0; i < s->group.n; i++) {
        struct rl_group_node *n = s->group.nodes[i];
        if (n->conn == conn && !n->waiter) {
            int64_t now = co_now_ms();
            rl_group_broke(n, now);
            look_in_time(s, now);
            return;
        }
    }
}

/* ---- requests ---- */

static bool is_node(const struct rl_service *s, const char *path) {
    return strncmp(path, s->prefix, strlen(s->prefix)) == 0;
}

static void refuse_node(struct rl_service *s, struct co_http_req *r, const struct co_err *err) {
    char line[CO_ERR_MAX + 16];
    (void)snprintf(line, sizeof(line), "refused: %s", err->msg);
    tell_note(s, true, line);
    if (co_http_header(r, RL_WIRE_HEADER)) {
        say_answer(r, RL_WIRE_REFUSED, err->code, err->msg);
    } else {
        co_http_replyf(r, 409, "%s\n", err->msg);
    }
}

/* Keeps the request until there is news for its node; the node waits no more by its former one. */
static void attend_node(struct rl_service *s, struct rl_group_node *n, struct co_http_req *r) {
    struct co_http_req *former = n->waiter;
    if (former) {
        say_answer(former, RL_WIRE_WAIT, s->group.round, "asked again");
    }
    n->waiter = r;
    n->conn = co_http_conn(r);
    const int64_t silent = s->group.rules.silent_ms;
    const int64_t beat = s->group.phase == RL_GROUP_RUNNING
                             ? rl_group_beat_ms(s->group.n_roster, silent)
                             : silent / BEATS;
    co_http_defer(r, beat, on_beat, on_gone, s);
    rl_group_waits(&s->group, n);
    enum rl_group_news news = rl_group_news(&s->group, n);
    if (news != RL_NEWS_NONE) {
        tell_news(s, n, news, r);
    }
}

static void put_node(struct rl_service *s, struct co_http_req *r, const char *value) {
    char name[CO_HOST_MAX];
    struct rl_wire_hello said = {0};
    struct rl_group_hello h = {.name = name, .value = value};
    const char *text = co_http_header(r, RL_WIRE_HEADER);
    struct co_err err = {0};
    int e = rl_wire_key_parse(co_http_path(r) + strlen(s->prefix), name, &h.rank, &err);
    if (!e && text) {
        e = rl_wire_hello_parse(text, false, &said, &err);
    }
    if (e) {
        co_http_replyf(r, 400, "%s\n", err.msg);
        return;
    }
    if (text) {
        h.id = said.id;
        h.host = said.host;
        h.word = said.word;
        h.round = said.round;
        h.min = said.min;
        h.max = said.max;
    }
    struct rl_group_node *n = NULL;
    e = rl_group_hear(&s->group, &h, co_now_ms(), &n, &err);
    /* A job that ended well is over with code 0: no error, and no node either. */
    if (!n && s->group.phase == RL_GROUP_OVER && text) {
        n = rl_group_find(&s->group, name);
        if (n) {
            n->told_over = true;
        }
        say_answer(r, RL_WIRE_OVER, err.code, err.msg);
    } else if (e || !n) {
        refuse_node(s, r, &err);
    } else if (!text) {
        co_http_reply(r, 200, NULL, NULL, 0);
    } else {
        attend_node(s, n, r);
    }
    publish_news(s);
}

static void put_key(struct rl_service *s, struct co_http_req *r, const char *value) {
    const char *path = co_http_path(r);
    if (s->keys.nodes.len >= KEYS_MAX && !co_map_get(&s->keys, path)) {
        co_http_replyf(r, 507, "no more than %d keys\n", KEYS_MAX);
        return;
    }
    free(co_map_set(&s->keys, path, co_xstrdup(value)));
    s->keys_version++;
    co_http_reply(r, 200, NULL, NULL, 0);
}

static void on_put(void *arg, struct co_http_req *r) {
    struct rl_service *s = arg;
    size_t len;
    const char *value = co_http_body(r, &len);
    if (strlen(value) != len) {
        co_http_replyf(r, 400, "a value without NUL is expected\n");
    } else if (!co_utf8_valid(co_http_path(r))) { /* a listing is JSON */
        co_http_replyf(r, 400, "a key in UTF-8 is expected\n");
    } else if (is_node(s, co_http_path(r))) {
        put_node(s, r, value);
    } else {
        put_key(s, r, value);
    }
}

struct listing {
    const char *prefix;
    json_t *all;
};

static void list_key(void *arg, const char *key, void *value) {
    struct listing *l = arg;
    if (strncmp(key, l->prefix, strlen(l->prefix)) == 0) {
        co_json_set(l->all, key, co_json_string(value));
    }
}

/* All keys that begin with the path; the text belongs to the service. */
static const char *list_keys(struct rl_service *s, const char *path) {
    struct rl_group *g = &s->group;
    uint64_t version = g->version + s->keys_version;
    if (s->listing_path && strcmp(s->listing_path, path) == 0 && s->listing_version == version) {
        return s->listing;
    }
    CO_AUTOJSON json_t *all = json_object();
    struct listing l = {path, all};
    co_map_each(&s->keys, list_key, &l);
    for (size_t i = 0; i < g->n; i++) {
        const struct rl_group_node *n = g->nodes[i];
        CO_AUTOFREE char *key = co_xasprintf("%s%s/%d", s->prefix, n->name, n->rank);
        list_key(&l, key, n->value);
    }
    free(s->listing);
    free(s->listing_path);
    s->listing = json_object_size(all) ? co_json_dump(all) : NULL;
    s->listing_path = co_xstrdup(path);
    s->listing_version = version;
    return s->listing;
}

static const char JSON_TYPE[] = "application/json; charset=utf8";

static void on_get(void *arg, struct co_http_req *r) {
    const char *text = list_keys(arg, co_http_path(r));
    co_http_reply(r, text ? 200 : 404, JSON_TYPE, text, text ? strlen(text) : 0);
}

static void leave_node(struct rl_service *s, struct co_http_req *r) {
    char name[CO_HOST_MAX];
    int rank;
    struct rl_wire_hello said = {0};
    const char *text = co_http_header(r, RL_WIRE_HEADER);
    struct rl_group_node *n = NULL;
    if (rl_wire_key_parse(co_http_path(r) + strlen(s->prefix), name, &rank, NULL) == 0) {
        n = rl_group_find(&s->group, name);
    }
    if (text && rl_wire_hello_parse(text, true, &said, NULL)) {
        n = NULL;
    }
    if (!n || n->rank != rank || (n->id ? !text || strcmp(n->id, said.id) != 0 : text != NULL)) {
        co_http_reply(r, 404, NULL, NULL, 0);
        return;
    }
    size_t len;
    const char *why = co_http_body(r, &len);
    if (said.restart) {
        rl_group_restart(&s->group, n, said.round, why, co_now_ms());
        attend_node(
            s, n, r); /* what comes of it is the answer: who asks must not find the master gone */
    } else {
        struct co_http_req *former = n->waiter;
        rl_group_leave(&s->group, n, said.code, why, co_now_ms());
        if (former) {
            say_answer(former, RL_WIRE_WAIT, s->group.round, "left");
        }
        co_http_reply(r, 200, NULL, NULL, 0);
    }
    publish_news(s);
}

static void on_delete(void *arg, struct co_http_req *r) {
    struct rl_service *s = arg;
    if (is_node(s, co_http_path(r))) {
        leave_node(s, r);
        return;
    }
    char *value = co_map_remove(&s->keys, co_http_path(r));
    s->keys_version += value != NULL;
    co_http_reply(r, value ? 200 : 404, NULL, NULL, 0);
    free(value);
}

static const struct co_http_route routes[] = {
    {"GET", "/*", on_get},
    {"POST", "/*", on_put},
    {"PUT", "/*", on_put},
    {"DELETE", "/*", on_delete},
};

/* ---- the service ---- */

int rl_service_open(struct co_loop *l, uint16_t port, const struct rl_service_options *options,
    struct rl_service **ret, struct co_err *err) {
    size_t connections = 2 * (size_t)options->rules.max + SPARE_FDS;
    struct co_httpd_options http = {.max_connections = connections,
        .max_body = RL_RDZV_VALUE_MAX,
        .disconnected = on_disconnected,
        .idle_seconds = (int)(options->rules.silent_ms / 1000) + 5};
    char address[16];
    (void)snprintf(address, sizeof(address), ":%u", port);
    struct rl_service *s = co_xcalloc(1, sizeof(*s));
    int r = co_httpd_open(l, address, routes, CO_ARRAY_LEN(routes), s, &http, &s->http, err);
    if (r) {
        free(s);
        return r;
    }
    s->loop = l;
    s->note = options->note;
    s->arg = options->arg;
    s->prefix = co_xasprintf("/%s/info/", options->job_id);
    s->story = CO_BUF(4096);
    s->timer = co_timer_new(l, on_timer, s);
    rl_group_init(&s->group, &options->rules);
    (void)co_map_set(&s->keys, "/healthy", co_xstrdup("ok"));
    *ret = s;
    return 0;
}

uint16_t rl_service_port(const struct rl_service *s) {
    return co_httpd_port(s->http);
}

void rl_service_part(struct rl_service *s, const char *why) {
    rl_group_part(&s->group, why);
    publish_news(s);
}

bool rl_service_settled(const struct rl_service *s) {
    for (size_t i = 0; i < s->group.n; i++) {
        const struct rl_group_node *n = s->group.nodes[i];
        if (n->id && !n->broken && !n->told_over) {
            return false;
        }
    }
    return true;
}

static void free_value(void *arg, const char *key, void *value) {
    (void)arg;
    (void)key;
    free(value);
}

void rl_service_close(struct rl_service *s) {
    if (!s) {
        return;
    }
    co_httpd_close(s->http);
    co_timer_free(s->timer);
    rl_group_done(&s->group);
    co_map_each(&s->keys, free_value, NULL);
    co_map_done(&s->keys);
    co_buf_done(&s->packed);
    co_buf_done(&s->story);
    free(s->listing);
    free(s->listing_path);
    free(s->prefix);
    free(s);
}
