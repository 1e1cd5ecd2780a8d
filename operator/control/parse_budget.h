/* The memory budget for parsed jobs: a semaphore counted in bytes, fair between namespaces.
 *
 * Jobs that are large once parsed, or that must be fetched from the API server, make a claim here
 * before they are read, and release it when their reconcile ends.  Claims may take `max` bytes in
 * all; a single job always gets one.
 *
 *   budget.first -> line (ns a) -> line (ns b)      lines that wait, served round-robin
 *                   |               |
 *                 claim           claim           within a namespace: first come, first served
 *                   |
 *                 claim
 *
 * A namespace has at most half of the bytes, so that others find the other half free, or soon free.
 * Owned by the loop's thread. */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#include "common/map.h"

struct ctl_parse_line; /* the waiting line and the use of one namespace */

/* A reader's claim on the budget; zeroed = none.  Private to parse_budget.c. */
struct ctl_parse_claim {
    struct ctl_parse_line *line;        /* NULL: it neither has a claim nor waits for one */
    TAILQ_ENTRY(ctl_parse_claim) waits; /* in the line */
    size_t bytes;
    bool has; /* it has its bytes; else it waits */
};

struct ctl_parse_budget {
    size_t max; /* bytes */
    size_t used;
    struct co_map lines;                /* by namespace, owned */
    TAILQ_HEAD(, ctl_parse_line) turns; /* lines that are not empty, next one first */
    /* A claim that waited has its bytes now. */
    void (*granted)(void *arg, struct ctl_parse_claim *claim);
    void *arg;
};

void ctl_parse_budget_init(struct ctl_parse_budget *d, size_t max,
    void (*granted)(void *arg, struct ctl_parse_claim *claim), void *arg);
void ctl_parse_budget_done(struct ctl_parse_budget *d); /* after all claims have left */

/* The most that one namespace, and so one job, may take; bytes. */
size_t ctl_parse_budget_share(const struct ctl_parse_budget *d);
/* True: the claim has its bytes until it leaves.  False: it waits, `granted` will run for it.  A
 * second call for the same claim only asks for its state. */
bool ctl_parse_budget_claim(
    struct ctl_parse_budget *d, struct ctl_parse_claim *claim, const char *ns, size_t bytes);
/* Gives the bytes back, or stops waiting; nothing if it does neither.  May run `granted` for other
 * claims. */
void ctl_parse_budget_release(struct ctl_parse_budget *d, struct ctl_parse_claim *claim);
