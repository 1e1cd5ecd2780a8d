/* JSON that is read and dropped: its values in one array, its strings where the text has them.
 *
 * A tree by jansson (common/json.h) costs an allocation or two a value, ten times what reading the
 * text costs.  What comes often and of which little is kept is read with this.  Takes what
 * co_json_parse_odd takes, and also integers of any size, any depth, and \u escapes of half a
 * character (U+FFFD, as Go has it).  Pure; a document may be read by many threads. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum co_jtype {
    CO_J_NULL,
    CO_J_FALSE,
    CO_J_TRUE,
    CO_J_NUMBER,
    CO_J_STRING,
    CO_J_LIST,
    CO_J_OBJECT,
};

/* A value, followed in the array by what it contains: items, or keys each before its value. */
struct co_jnode {
    const char *text; /* of strings, unescaped; where a number begins */
    uint32_t size;    /* nodes that it takes, itself included */
    uint8_t type;     /* enum co_jtype */
};

struct co_jdoc {
    char *text;            /* owned */
    struct co_jnode *node; /* owned; the first is the whole, NULL: nothing was read */
    size_t n, cap;
};

/* CO_INVALID with the offset and the cause.  `unread` (or NULL): a key whose values are left out
 * wherever it stands, and are not checked beyond their brackets and quotes.  done with doc after
 * success only. */
CO_MUST_CHECK int co_jdoc_read(
    const char *text, size_t len, const char *unread, struct co_jdoc *ret, struct co_err *err);
void co_jdoc_done(struct co_jdoc *d);
#define CO_AUTOJDOC CO_CLEANUP(co_jdoc_done)

/* For readers of other forms: adds a value, or a key before its value, and returns its place; text
 * lives as long as the document.  A list or object has what was added since, once it has ended. */
uint32_t co_jdoc_add(struct co_jdoc *d, enum co_jtype type, const char *text);
void co_jdoc_end(struct co_jdoc *d, uint32_t nest);

/* All take NULL, and any type, for a value that is absent.  The last of doubled keys wins. */
const struct co_jnode *co_jnode_get(const struct co_jnode *object, const char *key);
const struct co_jnode *co_jnode_atv(const struct co_jnode *object, const char *const *keys);
#define co_jnode_at(object, ...) co_jnode_atv((object), (const char *const[]){__VA_ARGS__, NULL})
/* The string there; NULL when absent or no string. */
const char *co_jnode_text(const struct co_jnode *n);
#define co_jnode_str(object, ...) co_jnode_text(co_jnode_at((object), __VA_ARGS__))
bool co_jnode_is(const struct co_jnode *n, enum co_jtype type);
/* True, and the number, when it is an integer of 64 bits. */
bool co_jnode_int(const struct co_jnode *n, int64_t *ret);
/* The items of a list: NULL before the first, and NULL after the last. */
const struct co_jnode *co_jnode_next(const struct co_jnode *list, const struct co_jnode *item);
#define co_jnode_each(item, list)                                                                  \
    for (const struct co_jnode *item##_list = (list), *item = co_jnode_next(item##_list, NULL);    \
         item; item = co_jnode_next(item##_list, item))
