/* The line numbers of a document's values: a tree of the document's shape, built top-down while it
 * is read.  Knows nothing of libyaml.  A spot (node) is an index; 0 is the root. */
#pragma once

#include "common/buf.h"

struct co_yaml_spot;

struct co_yaml_lines {
    struct co_yaml_spot *spots;
    unsigned n;
    struct co_buf names; /* keys, each with its NUL; max is set by the owner */
};

void co_yaml_lines_clear(struct co_yaml_lines *t);
void co_yaml_lines_done(struct co_yaml_lines *t);

unsigned co_yaml_lines_root(struct co_yaml_lines *t, int line);
/* Adds a child of parent after its child *last (0: as the first one) and sets *last to it. */
void co_yaml_lines_item(
    struct co_yaml_lines *t, unsigned parent, unsigned *last, int index, int line);
CO_MUST_CHECK int co_yaml_lines_member(struct co_yaml_lines *t, unsigned parent, unsigned *last,
    const char *key, int line, struct co_err *err);

/* Line of the first member with that key; 0: none. */
int co_yaml_lines_child(const struct co_yaml_lines *t, unsigned parent, const char *key);
/* Line of the value at a path, or of its nearest known parent; 0 in an empty tree. */
int co_yaml_lines_find(const struct co_yaml_lines *t, const char *path);
