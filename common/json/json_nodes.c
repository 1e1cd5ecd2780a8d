/* Trees of jansson from the nodes of jdoc.h, and an estimate of their size. */
#include <string.h>

#include "common/json/jdoc.h"
#include "common/json/json.h"

enum { DEPTH_MAX = 1000 };

static json_t *number_of(const struct co_jnode *n) {
    json_t *number = NULL;
    size_t len = strspn(n->text, "+-.0123456789eE");
    return co_json_parse_odd(n->text, len, &number, NULL) ? json_null() : number;
}

static json_t *tree_of(const struct co_jnode *n, int depth) { /* NOLINT(misc-no-recursion) */
    json_t *nest;
    switch (depth < DEPTH_MAX ? (enum co_jtype)n->type : CO_J_NULL) {
    case CO_J_STRING:
        return co_json_string(n->text);
    case CO_J_NUMBER:
        return number_of(n);
    case CO_J_TRUE:
    case CO_J_FALSE:
        return json_boolean(n->type == CO_J_TRUE);
    case CO_J_LIST:
        nest = json_array();
        co_jnode_each(item, n) {
            co_json_append(nest, tree_of(item, depth + 1));
        }
        return nest;
    case CO_J_OBJECT:
        nest = json_object();
        for (const struct co_jnode *key = n + 1; key < n + n->size; key += 1 + key[1].size) {
            co_json_set(nest, key->text, tree_of(key + 1, depth + 1));
        }
        return nest;
    case CO_J_NULL:
    default:
        return json_null();
    }
}

json_t *co_json_of_nodes(const struct co_jnode *n) {
    return tree_of(n, 0);
}

/* Sizes in units of 16 bytes, for jansson 2.14 and malloc, with the slot in its list or object. */
size_t co_json_nodes_bytes(const struct co_jnode *n) {
    static const unsigned char units[] = {[CO_J_NULL] = 1,
        [CO_J_FALSE] = 1,
        [CO_J_TRUE] = 1,
        [CO_J_NUMBER] = 3,
        [CO_J_STRING] = 7,
        [CO_J_LIST] = 9,
        [CO_J_OBJECT] = 15};
    enum { UNIT = 16 };
    size_t bytes = 0;
    for (uint32_t i = 0; n && i < n->size; i++) {
        bytes += (size_t)units[n[i].type] * UNIT;
        bytes += n[i].type == CO_J_STRING ? strlen(n[i].text) : 0;
    }
    return bytes;
}
