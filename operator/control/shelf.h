/* Which jobs are at hand, that is, have their text in the store: as many as a number of bytes
 * allows, shared by namespaces.
 *
 * When it is exceeded the namespace that takes most loses what changed longest ago, so that the
 * jobs of one never cost those of another anything that these could have among as many namespaces.
 * Entries stay whatever they take, and count: for their namespace, and for up to half of the
 * bytes.  Owned by the loop's thread. */
#pragma once

#include "common/map.h"

#include <stdint.h>

struct op_space; /* a namespace */

/* An entry's; all of it is shelf.c's. */
struct op_shelved {
    struct op_space *space;
    struct op_shelved *older, *newer; /* among the texts of the namespace */
    size_t size;                      /* of its text; 0: none is kept */
};

struct op_shelf {
    size_t max;           /* bytes; 0: no bound */
    size_t texts, others; /* bytes of texts, and of all else */
    size_t n;             /* texts */
    struct co_map spaces; /* by name, owned */
};

void op_shelf_done(struct op_shelf *s); /* all have left */

/* An entry of so many bytes, without a text yet; they stay until it leaves. */
void op_shelf_join(struct op_shelf *s, struct op_shelved *ret, const char *ns, size_t bytes);
/* Its text, if any, has been taken. */
void op_shelf_leave(struct op_shelf *s, struct op_shelved *of, const char *ns, size_t bytes);

/* Its text, of so many bytes; it has none yet. */
void op_shelf_put(struct op_shelf *s, struct op_shelved *of, size_t size);
/* Nothing when it has none. */
void op_shelf_take(struct op_shelf *s, struct op_shelved *of);
/* Whose text is to be taken next; NULL: all fit. */
struct op_shelved *op_shelf_surplus(const struct op_shelf *s);
