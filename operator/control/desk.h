/* Where jobs are read that take much memory as a tree, or whose text is not at hand: so many bytes
 * of them at a time, at least one job.
 *
 * Those that wait are called by their namespaces in turn, and of one namespace in the order in
 * which they came.  No namespace has more than half, so that others find the other half free, or
 * soon free.  Owned by the loop's thread. */
#pragma once

#include "common/map.h"

#include <stdbool.h>

struct op_desk_line; /* of a namespace */

/* A reader's; zeroed: elsewhere.  All of it is desk.c's. */
struct op_seat {
    struct op_desk_line *line; /* NULL: elsewhere */
    struct op_seat *next;      /* in the line */
    size_t bytes;
    bool has; /* it reads; else it waits */
};

struct op_desk {
    size_t max; /* bytes */
    size_t used;
    struct co_map lines;               /* by namespace, owned */
    struct op_desk_line *first, **end; /* those in which somebody waits, in turn */
    /* One that waited may read. */
    void (*called)(void *arg, struct op_seat *seat);
    void *arg;
};

void op_desk_done(struct op_desk *d); /* all have left */

/* The most that one job may take. */
size_t op_desk_share(const struct op_desk *d);
/* True: it may read, until it leaves.  False: it waits to be called, or has to go on waiting. */
bool op_desk_sit(struct op_desk *d, struct op_seat *seat, const char *ns, size_t bytes);
/* Whether it reads or waits, or neither.  Calls others. */
void op_desk_leave(struct op_desk *d, struct op_seat *seat);
