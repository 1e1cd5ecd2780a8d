/* The eviction policy of the store's cache of job texts: which jobs keep their text in memory.
 *
 *   text_lru.spaces: namespace -> oldest text <-> ... <-> newest text
 *
 * The cache has a size in bytes.  When it is exceeded, the namespace that uses the most loses the
 * text that changed the longest time ago.  So a namespace never evicts texts of another one that
 * uses less than its fair share.  Entries themselves are never evicted, but they count: for their
 * namespace, and for at most half of the size.  Owned by the loop's thread. */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#include "common/map.h"

struct ctl_text_space; /* the use of one namespace */

/* An entry's node in the lists; private to text_lru.c. */
struct ctl_text_node {
    struct ctl_text_space *space;
    TAILQ_ENTRY(ctl_text_node) link; /* among the texts of the namespace */
    size_t size;                     /* bytes of its text; 0: it is not in the cache */
};

struct ctl_text_lru {
    size_t max;           /* bytes; 0: no limit */
    size_t texts, others; /* bytes of texts, and of entries */
    size_t n;             /* number of texts */
    struct co_map spaces; /* by name of the namespace, owned */
};

void ctl_text_lru_done(struct ctl_text_lru *s); /* after all entries have left */

/* Adds an entry, which takes so many bytes until it leaves, without a text. */
void ctl_text_lru_add(
    struct ctl_text_lru *s, struct ctl_text_node *ret, const char *ns, size_t bytes);
/* The entry must have no text any more; bytes as in ctl_text_lru_add. */
void ctl_text_lru_remove(
    struct ctl_text_lru *s, struct ctl_text_node *of, const char *ns, size_t bytes);

/* The entry has a text of so many bytes now; it must have had none. */
void ctl_text_lru_put(struct ctl_text_lru *s, struct ctl_text_node *of, size_t size);
/* The entry's text is dropped; nothing if it has none. */
void ctl_text_lru_drop(struct ctl_text_lru *s, struct ctl_text_node *of);
/* The text to evict next; NULL: all fit. */
struct ctl_text_node *ctl_text_lru_victim(const struct ctl_text_lru *s);
