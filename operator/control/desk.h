/* The memory budget for parsed jobs: a semaphore counted in bytes, fair between namespaces.
 *
 * Jobs that are large once parsed, or that must be fetched from the API server, take a seat here
 * before they are read, and leave it when their reconcile ends.  Seats may take `max` bytes in all;
 * a single job always gets one.
 *
 *   desk.first -> line (ns a) -> line (ns b)      lines that wait, served round-robin
 *                   |               |
 *                 seat            seat            within a namespace: first come, first served
 *                   |
 *                 seat
 *
 * A namespace has at most half of the bytes, so that others find the other half free, or soon free.
 * Owned by the loop's thread. */
#pragma once

#include "common/map.h"

#include <stdbool.h>

struct ctl_desk_line; /* the waiting line and the use of one namespace */

/* A reader's claim on the budget; zeroed = none.  Private to desk.c. */
struct ctl_seat {
    struct ctl_desk_line *line; /* NULL: it neither has a seat nor waits for one */
    struct ctl_seat *next;      /* in the line */
    size_t bytes;
    bool has; /* it has its bytes; else it waits */
};

struct ctl_desk {
    size_t max; /* bytes */
    size_t used;
    struct co_map lines;                /* by namespace, owned */
    struct ctl_desk_line *first, **end; /* lines that are not empty, next one first */
    /* A seat that waited has its bytes now. */
    void (*called)(void *arg, struct ctl_seat *seat);
    void *arg;
};

void ctl_desk_done(struct ctl_desk *d); /* after all seats have left */

/* The most that one namespace, and so one job, may take; bytes. */
size_t ctl_desk_share(const struct ctl_desk *d);
/* True: the seat has its bytes until it leaves.  False: it waits, `called` will run for it.  A
 * second call for the same seat only asks for its state. */
bool ctl_desk_sit(struct ctl_desk *d, struct ctl_seat *seat, const char *ns, size_t bytes);
/* Gives the bytes back, or stops waiting; nothing if it does neither.  May run `called` for other
 * seats. */
void ctl_desk_leave(struct ctl_desk *d, struct ctl_seat *seat);
