/* Reads the list of nodes that Paddle's key-value service returns.  See poll.h. */
#include "runtime/launch/rendezvous/poll.h"

#include <string.h>

#include "common/json/json.h"
#include "common/parse.h"
#include "runtime/launch/rendezvous/wire.h"

struct owner {
    json_t *all;
    char **names;
    size_t n_names;
};

void rdzv_poll_done(struct rdzv_poll_round *round) {
    struct owner *o = round->owner;
    free(round->peers);
    if (o) {
        for (size_t i = 0; i < o->n_names; i++) {
            free(o->names[i]);
        }
        free(o->names);
        co_json_decref(&o->all);
        free(o);
    }
    round->peers = NULL;
    round->owner = NULL;
}

static int read_nodes(
    struct rdzv_poll_round *round, struct rdzv_assign_node *nodes, struct co_err *err) {
    struct owner *o = round->owner;
    CO_AUTOFREE char *prefix = co_xasprintf("/%s/info/", round->prefix_job);
    const char *key;
    json_t *value;
    json_object_foreach(o->all, key, value) {
        char name[CO_HOST_MAX];
        struct rdzv_assign_node *node = &nodes[o->n_names];
        if (strncmp(key, prefix, strlen(prefix)) != 0 || !json_is_string(value)) {
            return co_err_set(err, CO_INVALID, "the master has a key \"%.100s\" among nodes", key);
        }
        CO_TRY(rdzv_wire_key_parse(key + strlen(prefix), name, &node->rank, err));
        node->name = o->names[o->n_names++] = co_xstrdup(name);
        node->value = json_string_value(value);
    }
    round->n = o->n_names;
    return 0;
}

static int deal_ranks(
    struct rdzv_poll_round *round, const struct rdzv_assign_node *nodes, struct co_err *err) {
    const struct rdzv_assign_rule rule = {.sort_ip = round->sort_ip};
    CO_AUTOFREE size_t *order = co_xcalloc(round->n, sizeof(*order));
    CO_TRY(rdzv_assign(nodes, round->n, &rule, order, err));
    bool found = false;
    round->peers = co_xcalloc(round->n, sizeof(*round->peers));
    for (size_t i = 0; i < round->n; i++) {
        const struct rdzv_assign_node *node = &nodes[order[i]];
        round->peers[i] = (struct rdzv_peer){node->name, node->value};
        if (strcmp(node->name, round->name) == 0) {
            round->self = i;
            found = true;
        }
    }
    round->complete = found;
    return 0;
}

int rdzv_poll_parse(
    const char *body, size_t len, struct rdzv_poll_round *round, struct co_err *err) {
    struct owner *o = co_xcalloc(1, sizeof(*o));
    round->owner = o;
    int r = co_json_parse(body, len, &o->all, err);
    if (!r && !json_is_object(o->all)) {
        r = co_err_set(err, CO_INVALID, "not an object");
    }
    if (r) {
        (void)co_err_wrap(err, "the master's list of nodes");
        return r;
    }
    size_t size = json_object_size(o->all);
    CO_AUTOFREE struct rdzv_assign_node *nodes = co_xcalloc(size + 1, sizeof(*nodes));
    o->names = co_xcalloc(size + 1, sizeof(*o->names));
    r = read_nodes(round, nodes, err);
    if (r || round->n < (size_t)round->size) {
        return r;
    }
    if (round->n > (size_t)round->size) {
        return co_err_set(
            err, CO_NORESOURCE, "%zu nodes came to a job of %d", round->n, round->size);
    }
    return deal_ranks(round, nodes, err);
}
