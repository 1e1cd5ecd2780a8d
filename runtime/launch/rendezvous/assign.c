/* Sorts the nodes of a job into ranks and reports ranks that clash.  assign.h has the rules. */
#include "runtime/launch/rendezvous/assign.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

#include "common/json/json.h"
#include "common/parse.h"

struct rank_key {
    uint64_t first;   /* first criterion: asked rank + 1, or the address; 0: neither is given */
    const char *name; /* second criterion: the key */
    size_t index;
};

/* Compares names by bytes, as Python's sort in Paddle's launcher does. */
static int by_place(const void *a, const void *b) {
    const struct rank_key *x = a, *y = b;
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    /* Keys are "name/rank": a name that begins like another one ends at the slash. */
    size_t i = 0;
    while (x->name[i] && x->name[i] == y->name[i]) {
        i++;
    }
    unsigned char p = x->name[i] ? (unsigned char)x->name[i] : '/';
    unsigned char q = y->name[i] ? (unsigned char)y->name[i] : '/';
    if (p != q) {
        return p < q ? -1 : 1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

static int address_of(const struct rdzv_assign_node *node, uint64_t *ret, struct co_err *err) {
    CO_AUTOJSON json_t *value = NULL;
    struct co_hostport hp;
    struct in_addr v4;
    if (co_json_parse(node->value, strlen(node->value), &value, NULL)) {
        return co_err_set(
            err, CO_INVALID, "--sort_ip: the value of node %s is not JSON", node->name);
    }
    const char *candidate = co_json_str(value, "candidate");
    if (!candidate || co_parse_hostport("candidate", candidate, &hp, NULL) ||
        inet_pton(AF_INET, hp.host, &v4) != 1) {
        return co_err_set(err, CO_INVALID, "--sort_ip: node %s has no IPv4 address but \"%.100s\"",
            node->name, candidate ? candidate : "");
    }
    *ret = ntohl(v4.s_addr);
    return 0;
}

int rdzv_assign_fits(const struct rdzv_assign_node *nodes, size_t n,
    const struct rdzv_assign_node *one, size_t max, const struct rdzv_assign_rule *rule,
    struct co_err *err) {
    uint64_t address;
    if (rule->sort_ip) {
        return address_of(one, &address, err);
    }
    if (one->rank >= 0 && (size_t)one->rank >= max && !rule->holes) {
        return co_err_set(err, CO_INVALID, "node %s asks for rank %d in a job of %zu nodes",
            one->name, one->rank, max);
    }
    for (size_t i = 0; i < n; i++) {
        const struct rdzv_assign_node *other = &nodes[i];
        if ((one->rank < 0) != (other->rank < 0)) {
            bool has = one->rank >= 0;
            return co_err_set(err, CO_INVALID,
                "node %s asks for rank %d and node %s for none: give every node a rank, or none",
                has ? one->name : other->name, has ? one->rank : other->rank,
                has ? other->name : one->name);
        }
        if (one->rank >= 0 && one->rank == other->rank) {
            return co_err_set(err, CO_EXISTS, "rank %d is asked for by node %s and by node %s",
                one->rank, other->name, one->name);
        }
    }
    return 0;
}

int rdzv_assign(const struct rdzv_assign_node *nodes, size_t n, const struct rdzv_assign_rule *rule,
    size_t *ret_order, struct co_err *err) {
    CO_AUTOFREE struct rank_key *places = co_xcalloc(n ? n : 1, sizeof(*places));
    for (size_t i = 0; i < n; i++) {
        places[i] = (struct rank_key){.name = nodes[i].name, .index = i};
        if (rule->sort_ip) {
            CO_TRY(address_of(&nodes[i], &places[i].first, err));
        } else if (nodes[i].rank >= 0) {
            places[i].first = (uint64_t)nodes[i].rank + 1;
        }
    }
    qsort(places, n, sizeof(*places), by_place);
    /* After the sort, nodes without an asked rank come first, and nodes that ask for the same rank
     * are neighbours.  Comparing neighbours therefore finds every clash. */
    for (size_t i = 0; i + 1 < n && !rule->sort_ip; i++) {
        CO_TRY(rdzv_assign_fits(
            &nodes[places[i].index], 1, &nodes[places[i + 1].index], n, rule, err));
    }
    if (n && !rule->sort_ip) {
        CO_TRY(rdzv_assign_fits(NULL, 0, &nodes[places[n - 1].index], n, rule, err));
    }
    for (size_t i = 0; i < n; i++) {
        ret_order[i] = places[i].index;
    }
    return 0;
}
