/* Reads a job's keys out of etcd's answer into a view, and answers simple questions about it.  See
 * etcd_view.h. */
#include "runtime/launch/rendezvous/etcd_view.h"

#include <string.h>

#include "common/base64.h"
#include "common/parse.h"
#include "common/utf8.h"
#include "runtime/launch/rendezvous/group.h"
#include "runtime/launch/rendezvous/wire.h"

enum { NODES_MAX = 16 * 1024, ROUNDS_MAX = 1000 * 1000 * 1000 };

void rdzv_etcd_view_init(struct rdzv_etcd_view *v, const char *job_id) {
    *v = (struct rdzv_etcd_view){
        .prefix_beat = co_xasprintf("/paddle/%s/heartbeat/", job_id),
        .prefix_info = co_xasprintf("/%s/info/", job_id),
        .prefix_ours = co_xasprintf("/paddlerun/%s/", job_id),
        .key_status = co_xasprintf("/paddle/%s", job_id),
    };
}

static void clear_view(struct rdzv_etcd_view *v) {
    for (size_t i = 0; i < v->n; i++) {
        struct rdzv_etcd_node *n = &v->nodes[i];
        free(n->name);
        free(n->host);
        free(n->id);
        free(n->value);
    }
    free(v->nodes);
    co_map_done(&v->by_name);
    co_json_decref(&v->roster);
    co_json_decref(&v->paddles);
    v->completed = false;
    co_json_decref(&v->again);
    co_json_decref(&v->done);
    co_json_decref(&v->why);
    co_json_decref(&v->late);
    v->nodes = NULL;
    v->n = 0;
    v->round = v->restarts = 0;
    v->round_mod = v->revision = 0;
}

void rdzv_etcd_view_done(struct rdzv_etcd_view *v) {
    clear_view(v);
    free(v->prefix_beat);
    free(v->prefix_info);
    free(v->prefix_ours);
    free(v->key_status);
}

struct rdzv_etcd_node *rdzv_etcd_view_find(const struct rdzv_etcd_view *v, const char *name) {
    size_t at = (size_t)(uintptr_t)co_map_get(&v->by_name, name);
    return at ? &v->nodes[at - 1] : NULL;
}

/* ---- reading ---- */

struct pair {
    char *key, *value; /* owned; terminated */
    int64_t created, modified;
};

static void pair_done(struct pair *p) {
    free(p->key);
    free(p->value);
}

/* etcd's JSON has numbers of 64 bits as strings. */
static int64_t number_at(const json_t *obj, const char *key) {
    int64_t n = 0;
    const char *text = co_json_str(obj, key);
    return text && co_parse_i64(key, text, 0, INT64_MAX, &n, NULL) == 0 ? n : 0;
}

static int read_pair(const json_t *kv, struct pair *ret, struct co_err *err) {
    const char *key = co_json_str(kv, "key"), *value = co_json_str(kv, "value");
    size_t len;
    ret->created = number_at(kv, "create_revision");
    ret->modified = number_at(kv, "mod_revision");
    CO_TRY(key ? co_base64_decode(key, &ret->key, &len, err)
               : co_err_set(err, CO_INVALID, "a pair without a key"));
    return co_base64_decode(value ? value : "", &ret->value, &len, err);
}

static struct rdzv_etcd_node *find_or_add_node(
    struct rdzv_etcd_view *v, const char *name, int64_t created) {
    struct rdzv_etcd_node *n = rdzv_etcd_view_find(v, name);
    if (n || v->n == NODES_MAX) {
        return n;
    }
    v->nodes = co_xgrow(v->nodes, v->n, sizeof(*v->nodes));
    n = &v->nodes[v->n++];
    *n = (struct rdzv_etcd_node){.name = co_xstrdup(name), .rank = -1, .created = created};
    (void)co_map_set(&v->by_name, name, (void *)(uintptr_t)v->n);
    return n;
}

static void read_round(struct rdzv_etcd_view *v, const json_t *doc, int64_t modified) {
    int64_t round, restarts;
    json_t *nodes;
    if (co_json_get_i64(doc, "round", 1, ROUNDS_MAX, &round, NULL) ||
        co_json_get_i64(doc, "restarts", 0, ROUNDS_MAX, &restarts, NULL) ||
        co_json_get(doc, "nodes", JSON_ARRAY, &nodes, NULL)) {
        return;
    }
    v->round = (int)round;
    v->restarts = (int)restarts;
    v->round_mod = modified;
    co_json_decref(&v->roster);
    co_json_decref(&v->paddles);
    v->roster = json_incref(nodes);
    v->paddles = json_incref(co_json_at(doc, "paddles"));
}

static void read_ours(struct rdzv_etcd_view *v, const struct pair *p) {
    CO_AUTOJSON json_t *doc = NULL;
    const char *key = p->key + strlen(v->prefix_ours);
    if (co_json_parse(p->value, strlen(p->value), &doc, NULL) || !json_is_object(doc)) {
        return;
    }
    if (strcmp(key, "round") == 0) {
        read_round(v, doc, p->modified);
    } else if (strcmp(key, "again") == 0) {
        co_json_decref(&v->again);
        v->again = json_incref(doc);
    } else if (strncmp(key, "done/", 5) == 0) {
        co_json_set(v->done, key + 5, json_incref(doc));
    } else if (strncmp(key, "mute/", 5) == 0) {
        co_json_set(v->late, key + 5, json_incref(doc));
    } else if (strncmp(key, "why/", 4) == 0) {
        co_json_set(doc, "revision", json_integer(p->modified));
        co_json_set(v->why, key + 4, json_incref(doc));
    } else if (strncmp(key, "node/", 5) == 0 && key[5]) {
        struct rdzv_etcd_node *n = find_or_add_node(v, key + 5, p->created);
        const char *host = co_json_str(doc, "host"), *id = co_json_str(doc, "id");
        int64_t ready = 0, port = 0;
        if (n && !n->ours) {
            (void)!co_json_get_i64(doc, "ready", 0, ROUNDS_MAX, &ready, NULL);
            (void)!co_json_get_i64(doc, "port", 0, UINT16_MAX, &port, NULL);
            n->ours = true;
            n->port = (uint16_t)port;
            n->key_mod = p->modified;
            n->created = p->created;
            n->ready = (int)ready;
            n->host = host ? co_xstrdup(host) : NULL;
            n->id = id ? co_xstrdup(id) : NULL;
        }
    }
}

static void read_info(struct rdzv_etcd_view *v, const struct pair *p) {
    char name[CO_HOST_MAX];
    int rank;
    /* The info keys of Paddle's nodes outlive the nodes, so they add none: only nodes with a
     * heartbeat or a node key count. */
    if (rdzv_wire_key_parse(p->key + strlen(v->prefix_info), name, &rank, NULL)) {
        return;
    }
    struct rdzv_etcd_node *n = rdzv_etcd_view_find(v, name);
    if (n && p->modified > n->value_mod) {
        free(n->value);
        n->value = co_xstrdup(p->value);
        n->rank = rank;
        n->value_mod = p->modified;
    }
}

static void read_beat(struct rdzv_etcd_view *v, const struct pair *p) {
    const char *name = p->key + strlen(v->prefix_beat);
    struct rdzv_etcd_node *n = *name ? find_or_add_node(v, name, p->created) : NULL;
    if (n) {
        n->beats = true;
    }
}

static void read_status(struct rdzv_etcd_view *v, const struct pair *p) {
    v->completed = strcmp(p->value, "completed") == 0;
}

static int read_all(
    struct rdzv_etcd_view *v, const json_t *answer, size_t index, struct co_err *err) {
    static void (*const readers[])(struct rdzv_etcd_view * v, const struct pair *p) = {
        read_beat, read_info, read_ours, read_status};
    const char *const prefixes[] = {v->prefix_beat, v->prefix_info, v->prefix_ours, v->key_status};
    const json_t *range = json_array_get(co_json_at(answer, "responses"), index);
    const json_t *kvs = co_json_at(range, "response_range", "kvs");
    size_t i, len = strlen(prefixes[index]);
    json_t *kv;
    json_array_foreach(kvs, i, kv) {
        CO_CLEANUP(pair_done) struct pair p = {0};
        int r = read_pair(kv, &p, err);
        if (r) {
            (void)co_err_wrap(err, "etcd's answer");
            return r;
        }
        if (strncmp(p.key, prefixes[index], len) == 0 && co_utf8_valid(p.key)) {
            readers[index](v, &p);
        }
    }
    return 0;
}

static bool of_round(const json_t *doc, int round) {
    return json_integer_value(co_json_at(doc, "round")) == round;
}

static void drop_other_rounds(json_t *docs, int round) {
    const char *key;
    json_t *doc;
    void *next;
    json_object_foreach_safe(docs, next, key, doc) {
        if (!of_round(doc, round)) {
            (void)json_object_del(docs, key);
        }
    }
}

int rdzv_etcd_view_read(struct rdzv_etcd_view *v, const json_t *answer, struct co_err *err) {
    static const size_t order[] = {0, 2, 1, 3}; /* first the live nodes, then their values */
    clear_view(v);
    v->done = json_object();
    v->why = json_object();
    v->late = json_object();
    const json_t *header = co_json_at(answer, "header");
    v->revision = number_at(header, "revision");
    if (!v->revision || json_array_size(co_json_at(answer, "responses")) != CO_ARRAY_LEN(order)) {
        return co_err_set(err, CO_INVALID, "etcd's answer lacks what was requested");
    }
    int r = 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(order) && !r; i++) {
        r = read_all(v, answer, order[i], err);
    }
    drop_other_rounds(v->done, v->round);
    drop_other_rounds(v->why, v->round);
    drop_other_rounds(v->late, v->round);
    if (v->again && !of_round(v->again, v->round)) {
        co_json_decref(&v->again);
    }
    return r;
}

static const char *name_at(const struct rdzv_etcd_view *v, size_t rank) {
    const char *name = json_string_value(json_array_get(v->roster, rank));
    return name ? name : "";
}

const struct rdzv_etcd_node *rdzv_etcd_view_neighbour(
    const struct rdzv_etcd_view *v, const char *name) {
    const size_t n = json_array_size(v->roster);
    size_t own = 0;
    while (own < n && strcmp(name_at(v, own), name) != 0) {
        own++;
    }
    for (size_t i = 1; own < n && i < n; i++) {
        const char *other = name_at(v, (own + i) % n);
        const struct rdzv_etcd_node *node = rdzv_etcd_view_find(v, other);
        if (node && node->ours && node->port && node->host && *node->host && node->id &&
            !json_object_get(v->done, other)) {
            return node;
        }
    }
    return NULL;
}

void rdzv_etcd_view_remember_done(struct rdzv_etcd_view *v, json_t *ended) {
    for (size_t rank = 0; rank < json_array_size(v->roster); rank++) {
        const char *name = name_at(v, rank);
        json_t *here = json_object_get(v->done, name), *before = json_object_get(ended, name);
        if (here && !before) {
            co_json_set(ended, name, json_incref(here));
        } else if (before && !here) {
            co_json_set(v->done, name, json_incref(before));
        }
    }
}

size_t rdzv_etcd_view_describe_late(
    const struct rdzv_etcd_view *v, const char *self, int64_t silent_ms, struct co_buf *ret) {
    size_t n = 0;
    for (size_t rank = 0; rank < json_array_size(v->roster); rank++) {
        const char *name = name_at(v, rank);
        const struct rdzv_etcd_node *node = rdzv_etcd_view_find(v, name);
        if (node && strcmp(name, self) != 0 && json_object_get(v->late, name)) {
            CO_AUTOFREE char *who = co_xasprintf(
                "node %.200s (rank %zu, %.200s)", name, rank, node->host ? node->host : "");
            rdzv_group_late_add(ret, n++, who);
        }
    }
    rdzv_group_late_end(ret, n, silent_ms);
    return n;
}

uint64_t rdzv_etcd_view_hash(const struct rdzv_etcd_view *v) {
    uint64_t sum = (uint64_t)v->round;
    for (size_t i = 0; i < v->n; i++) { /* a sum: the order of the nodes must not matter */
        const struct rdzv_etcd_node *n = &v->nodes[i];
        sum += co_hash_str(n->name) * (uint64_t)(2 * n->ready + (n->value_mod > v->round_mod) + 3);
    }
    return sum;
}
