/* A fast read-only JSON parser: the values are nodes in one array, and strings stay in the text.
 *
 *   {"a": [1, "x"], "b": null}
 *   nodes: OBJECT(7) STRING"a" LIST(3) NUMBER STRING"x" STRING"b" NULL      (n): size in nodes
 *
 * For objects that come often and of which little is kept: jansson's tree (common/json/json.h)
 * needs an allocation or two for each value, which costs ten times as much as reading the text.
 * Accepts what co_json_parse_odd accepts, and also integers of any size, any depth, and \u escapes
 * of half a surrogate pair (they become U+FFFD, as in Go).  Pure; many threads may read a document.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"

enum co_jtype {
    CO_J_NULL,
    CO_J_FALSE,
    CO_J_TRUE,
    CO_J_NUMBER,
    CO_J_STRING,
    CO_J_LIST,
    CO_J_OBJECT,
};

/* A value, followed in the array by its content: items, or keys, each before its value. */
struct co_jnode {
    const char *text; /* a string, unescaped; or the beginning of a number */
    uint32_t size;    /* number of nodes, itself and its content */
    uint8_t type;     /* enum co_jtype */
};

struct co_jdoc {
    char *text;            /* owned */
    struct co_jnode *node; /* owned; the first one is the root; NULL: empty */
    size_t n, cap;
};

/* CO_INVALID with the offset and the cause.  `unread` (or NULL): a key whose values are skipped
 * wherever it occurs; of those only brackets and quotes are checked.  To be freed by co_jdoc_done
 * after success only. */
CO_MUST_CHECK int co_jdoc_read(
    const char *text, size_t len, const char *unread, struct co_jdoc *ret, struct co_err *err);
void co_jdoc_done(struct co_jdoc *d);
#define CO_AUTOJDOC CO_CLEANUP(co_jdoc_done)

/* For parsers of other formats: adds a value, or a key before its value, and returns its index;
 * text must live as long as the document.  co_jdoc_end closes a list or object: what was added
 * since is its content. */
uint32_t co_jdoc_add(struct co_jdoc *d, enum co_jtype type, const char *text);
void co_jdoc_end(struct co_jdoc *d, uint32_t nest);

/* All accept NULL and nodes of any type, which count as absent.  Of duplicate keys the last wins.
 */
const struct co_jnode *co_jnode_get(const struct co_jnode *object, const char *key);
const struct co_jnode *co_jnode_atv(const struct co_jnode *object, const char *const *keys);
#define co_jnode_at(object, ...) co_jnode_atv((object), (const char *const[]){__VA_ARGS__, NULL})
/* The string there; NULL when it is absent or not a string. */
const char *co_jnode_text(const struct co_jnode *n);
#define co_jnode_str(object, ...) co_jnode_text(co_jnode_at((object), __VA_ARGS__))
bool co_jnode_is(const struct co_jnode *n, enum co_jtype type);
/* True and *ret when it is an integer of at most 64 bits. */
bool co_jnode_int(const struct co_jnode *n, int64_t *ret);
int64_t co_jnode_i64(const struct co_jnode *n); /* 0 when it is none */
/* The item after `item` (NULL: the first one); NULL after the last one. */
const struct co_jnode *co_jnode_next(const struct co_jnode *list, const struct co_jnode *item);
#define co_jnode_each(item, list)                                                                  \
    for (const struct co_jnode *item##_list = (list), *item = co_jnode_next(item##_list, NULL);    \
         item; item = co_jnode_next(item##_list, item))
