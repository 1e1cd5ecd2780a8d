/* Keys and listings of a rendezvous.  See keys.h. */
#include "runtime/launch/rendezvous/keys.h"

#include <string.h>

#include "common/json/json.h"

enum {
    KEYS_MAX = 4096,       /* that belong to no node */
    KEYS_BYTES = 1 << 20,  /* of all those, with their values */
    LISTING_MAX = 8 << 20, /* bytes of one answer */
    /* Making a large listing keeps the loop busy for milliseconds.  So one is made at most every
     * LISTING_PAUSE_MS, and none while RDZV_KEYS_LISTINGS older ones are still being sent. */
    LISTING_LARGE = 64 << 10,
    LISTING_PAUSE_MS = 200,
};

/* The answer to a GET.  All connections that are being sent it share it by refs. */
struct rdzv_listing {
    int refs;
    char *path; /* owned: the path of the request */
    char *text; /* owned, JSON; NULL: there is no such key */
    size_t len;
    uint64_t version;
};

/* ---- keys ---- */

void rdzv_keys_put(struct rdzv_keys *k, struct co_http_req *r, const char *value) {
    const char *path = co_http_path(r);
    const char *former = co_map_get(&k->map, path);
    size_t more = strlen(value) + (former ? 0 : strlen(path));
    size_t less = former ? strlen(former) : 0;
    if (!former && k->map.nodes.len >= KEYS_MAX) {
        co_http_replyf(r, 507, "no more than %d keys\n", KEYS_MAX);
        return;
    }
    if (k->bytes - less + more > KEYS_BYTES) {
        co_http_replyf(r, 507, "no more than %d bytes of keys and values\n", KEYS_BYTES);
        return;
    }
    k->bytes = k->bytes - less + more;
    free(co_map_set(&k->map, path, co_xstrdup(value)));
    k->version++;
    co_http_reply(r, 200, NULL, NULL, 0);
}

void rdzv_keys_delete(struct rdzv_keys *k, struct co_http_req *r) {
    CO_AUTOFREE char *value = co_map_remove(&k->map, co_http_path(r));
    if (value) {
        k->version++;
        k->bytes -= strlen(co_http_path(r)) + strlen(value);
    }
    co_http_reply(r, value ? 200 : 404, NULL, NULL, 0);
}

/* ---- listings ---- */

static const char JSON_TYPE[] = "application/json; charset=utf8";

static void release_listing(void *arg) {
    struct rdzv_listing *l = arg;
    if (l && --l->refs == 0) {
        free(l->path);
        free(l->text);
        free(l);
    }
}

struct prefix_gather {
    const char *prefix;
    json_t *all; /* NULL: only count bytes */
    size_t bytes;
};

static size_t count_json(const char *text) {
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        n += (unsigned char)*p < ' ' ? 6 : *p == '"' || *p == '\\' ? 2 : 1;
    }
    return n;
}

static void gather_key(void *arg, const char *key, void *value) {
    struct prefix_gather *g = arg;
    if (strncmp(key, g->prefix, strlen(g->prefix)) != 0) {
        return;
    }
    if (g->all) {
        co_json_set(g->all, key, co_json_string(value));
    } else {
        g->bytes += count_json(key) + count_json(value) + strlen("\"\":\"\",");
    }
}

/* Visits all keys that begin with the prefix. */
static void gather_keys(const struct rdzv_keys *k, struct prefix_gather *g) {
    co_map_each(&k->map, gather_key, g);
    for (size_t i = 0; i < k->group->n; i++) {
        const struct rdzv_group_node *n = k->group->nodes[i];
        CO_AUTOFREE char *key = co_xasprintf("%s%s/%d", k->prefix, n->name, n->rank);
        gather_key(g, key, n->value);
    }
}

static struct rdzv_listing *make_listing(
    const struct rdzv_keys *k, const char *path, uint64_t version) {
    CO_AUTOJSON json_t *all = json_object();
    struct prefix_gather g = {.prefix = path, .all = all};
    gather_keys(k, &g);
    struct rdzv_listing *l = co_xcalloc(1, sizeof(*l));
    l->refs = 1;
    l->path = co_xstrdup(path);
    l->version = version;
    l->text = json_object_size(all) ? co_json_dump(all) : NULL;
    l->len = l->text ? strlen(l->text) : 0;
    return l;
}

static void reply_listing(struct co_http_req *r, struct rdzv_listing *l) {
    l->refs++;
    co_http_reply_lent(
        r, l->text ? 200 : 404, JSON_TYPE, l->text ? l->text : "", l->len, release_listing, l);
}

/* Makes a listing, sends it, and keeps it at place for later requests; NULL: it is not kept. */
static void reply_new_listing(
    struct rdzv_keys *k, struct co_http_req *r, struct rdzv_listing **place) {
    struct rdzv_listing *l = make_listing(k, co_http_path(r), k->group->version + k->version);
    reply_listing(r, l);
    if (place) {
        release_listing(*place);
        *place = l;
    } else {
        release_listing(l);
    }
}

/* Sends the current listing of the path when there is one.  Else it makes one, unless that would be
 * too much work: then an older one is sent, or 503. */
void rdzv_keys_get(struct rdzv_keys *k, struct co_http_req *r) {
    const char *path = co_http_path(r);
    const uint64_t version = k->group->version + k->version;
    struct rdzv_listing **place = NULL;
    struct rdzv_listing *former = NULL;
    for (int i = 0; i < RDZV_KEYS_LISTINGS; i++) {
        struct rdzv_listing *l = k->listings[i];
        if (l && strcmp(l->path, path) == 0 && (!former || l->version > former->version)) {
            former = l;
        }
        if (!l || (l->refs == 1 && (!place || (*place && l->version < (*place)->version)))) {
            place = &k->listings[i];
        }
    }
    struct prefix_gather g = {.prefix = path};
    if (former && former->version == version) {
        reply_listing(r, former);
        return;
    }
    gather_keys(k, &g);
    const int64_t now = co_now_ms();
    const bool large = g.bytes > LISTING_LARGE;
    if (g.bytes > LISTING_MAX) {
        co_http_replyf(r, 507, "a listing has at most %d bytes\n", LISTING_MAX);
    } else if (!large || (place && now - k->large_listing_at >= LISTING_PAUSE_MS)) {
        k->large_listing_at = large ? now : k->large_listing_at;
        reply_new_listing(k, r, place);
    } else if (former) {
        reply_listing(r, former);
    } else {
        co_http_replyf(r, 503, "large listings are being sent, try again\n");
    }
}

/* ---- the whole ---- */

void rdzv_keys_init(struct rdzv_keys *k, const struct rdzv_group *group, const char *prefix) {
    *k = (struct rdzv_keys){.group = group, .prefix = prefix};
    (void)co_map_set(&k->map, "/healthy", co_xstrdup("ok"));
}

static void free_value(void *arg, const char *key, void *value) {
    (void)arg;
    (void)key;
    free(value);
}

void rdzv_keys_done(struct rdzv_keys *k) {
    co_map_each(&k->map, free_value, NULL);
    co_map_done(&k->map);
    for (int i = 0; i < RDZV_KEYS_LISTINGS; i++) {
        release_listing(k->listings[i]);
    }
}
