/* The operations that write a node's keys.  See etcd_write.h. */
#include "runtime/launch/rendezvous/etcd_write.h"

#include "runtime/launch/rendezvous/etcd_json.h"

static char *make_own_key(const struct rdzv_etcd_view *v, const char *what, const char *name) {
    return co_xasprintf("%s%s%s", v->prefix_ours, what, name);
}

json_t *rdzv_etcd_write_node(const struct rdzv_etcd_view *v, const struct rdzv_options *o,
    const char *id, uint16_t port, bool joins, const char *lease) {
    json_t *doc =
        json_pack("{s:s,s:o,s:i,s:i}", "id", id, "host", co_json_string(o->host ? o->host : ""),
            "port", (int)port, "ready", joins ? v->round + 1 : v->round);
    return json_pack("[o,o,o]",
        rdzv_etcd_put(co_xasprintf("%s%s", v->prefix_beat, o->name), o->name, lease),
        rdzv_etcd_put(co_xasprintf("%s%s/%d", v->prefix_info, o->name, o->rank), o->value, lease),
        rdzv_etcd_put_json(make_own_key(v, "node/", o->name), doc, lease));
}

static json_t *begin_document(int round) {
    return json_pack("{s:i}", "round", round);
}

json_t *rdzv_etcd_write_late(
    const struct rdzv_etcd_view *v, const char *name, bool late, const char *lease) {
    char *key = make_own_key(v, "mute/", name);
    return json_pack("[o]",
        late ? rdzv_etcd_put_json(key, begin_document(v->round), lease) : rdzv_etcd_delete(key));
}

json_t *rdzv_etcd_write_gone(
    const struct rdzv_etcd_view *v, const struct rdzv_etcd_node *n, const char *memo) {
    json_t *doc = json_pack("{s:i,s:i,s:s,s:b}", "round", v->round, "code", 1, "why",
        "its launcher ended without a word", "gone", 1);
    return json_pack("[o,o,o,o]", rdzv_etcd_put_json(make_own_key(v, "why/", n->name), doc, memo),
        rdzv_etcd_delete(co_xasprintf("%s%s", v->prefix_beat, n->name)),
        rdzv_etcd_delete(co_xasprintf("%s%s/%d", v->prefix_info, n->name, n->rank)),
        rdzv_etcd_delete(make_own_key(v, "node/", n->name)));
}

json_t *rdzv_etcd_write_ended(
    const struct rdzv_etcd_view *v, const json_t *docs, const char *memo) {
    json_t *ops = json_array(), *doc;
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)docs, name, doc) {
        co_json_append(
            ops, rdzv_etcd_put_json(make_own_key(v, "done/", name), json_incref(doc), memo));
    }
    return ops;
}

json_t *rdzv_etcd_node_unchanged(const struct rdzv_etcd_view *v, const struct rdzv_etcd_node *n) {
    CO_AUTOFREE char *key = make_own_key(v, "node/", n->name);
    return rdzv_etcd_unchanged(key, n->key_mod);
}

json_t *rdzv_etcd_write_messages(const struct rdzv_etcd_view *v, const struct rdzv_options *o,
    const struct rdzv_etcd_messages *messages, const char *lease) {
    const char *why = messages->why ? messages->why : "";
    json_t *ops = json_array();
    if (messages->what & RDZV_ETCD_SEND_DONE) {
        co_json_append(ops, rdzv_etcd_put_json(make_own_key(v, "done/", o->name),
                                begin_document(messages->round), lease));
    }
    if (messages->what & RDZV_ETCD_SEND_AGAIN) {
        json_t *doc = begin_document(messages->round);
        CO_AUTOFREE char *text = co_xasprintf("node %s starts again: %s", o->name, why);
        co_json_set(doc, "why", co_json_string(text));
        co_json_append(ops, rdzv_etcd_put_json(make_own_key(v, "again", ""), doc, lease));
    }
    if (messages->what & RDZV_ETCD_SEND_WHY) {
        json_t *doc = begin_document(messages->round);
        co_json_set(doc, "code", json_integer(messages->code));
        co_json_set(doc, "why", co_json_string(why));
        co_json_append(ops, rdzv_etcd_put_json(make_own_key(v, "why/", o->name), doc, lease));
    }
    if (messages->what & RDZV_ETCD_SEND_STATUS) {
        co_json_append(ops, rdzv_etcd_put(co_xstrdup(v->key_status), "completed", lease));
    }
    return ops;
}

json_t *rdzv_etcd_next_round(const struct rdzv_etcd_view *v, const struct rdzv_etcd_decision *d) {
    json_t *nodes = json_array(), *paddles = json_array(), *doc = begin_document(v->round + 1);
    for (size_t i = 0; i < d->n; i++) {
        const struct rdzv_etcd_node *n = &v->nodes[d->order[i]];
        co_json_append(nodes, co_json_string(n->name));
        if (!n->ours) {
            co_json_append(paddles, co_json_string(n->name));
        }
    }
    co_json_set(doc, "restarts", json_integer(d->restarts));
    co_json_set(doc, "nodes", nodes);
    co_json_set(doc, "paddles", paddles);
    return doc;
}

json_t *rdzv_etcd_write_round(const struct rdzv_etcd_view *v, json_t *round_own) {
    return json_pack("[o]", rdzv_etcd_put_json(make_own_key(v, "round", ""), round_own, NULL));
}

json_t *rdzv_etcd_round_unchanged(const struct rdzv_etcd_view *v) {
    CO_AUTOFREE char *key = make_own_key(v, "round", "");
    return rdzv_etcd_unchanged(key, v->round_mod);
}

json_t *rdzv_etcd_read_all(const struct rdzv_etcd_view *v) {
    const char *const prefixes[] = {v->prefix_beat, v->prefix_info, v->prefix_ours};
    json_t *ops = json_array();
    for (size_t i = 0; i < CO_ARRAY_LEN(prefixes); i++) {
        co_json_append(ops, rdzv_etcd_request("request_range", rdzv_etcd_range(prefixes[i])));
    }
    co_json_append(ops, rdzv_etcd_request("request_range", rdzv_etcd_one(v->key_status)));
    return ops;
}
