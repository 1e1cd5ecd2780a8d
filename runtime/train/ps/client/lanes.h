/* The trainer's ends of its data lanes (one to each shard of each server), and how they are read.
 *
 * A thread that waits for an answer reads the lanes itself, for all threads (psc_client_wait).  The
 * other threads wait for it; when it is done, one of them reads on.  Answers to detached calls have
 * no such thread: when no thread has read for a while, the client's own thread does.  It stops as
 * soon as another thread waits. */
#pragma once

#include "runtime/train/ps/client/call.h"

struct rt_client;
struct psc_link;

/* The lanes of a link; guarded by the lock of links. */
struct psc_lanes {
    char address[64]; /* numeric; the server's front door */
    uint32_t n;
    struct psc_lane {
        struct rpc_lane *lane; /* counted */
        bool full;             /* the socket took no more; epoll reports when it does */
    } * all;                   /* [n], by shard; NULL: all frames use the stream */
    struct psc_lane *retired;  /* [n]: as all, until the stream has ended; NULL: none */
    struct co_err broken;      /* why a lane was lost; nothing is sent until the stream has
                                  ended too */
    uint32_t patience;         /* ticks that the stream still has to say why it ends */
};

struct psc_reader;

CO_MUST_CHECK int psc_reader_new(struct rt_client *c, struct psc_reader **ret, struct co_err *err);
/* All lanes have been dropped.  NULL allowed. */
void psc_reader_free(struct psc_reader *r);

/* Opens the lanes to the servers in which[n], all at once, and waits until each server has
 * answered.  errs[i].code is set if the lanes to server which[i] cannot be opened. */
void psc_client_open_lanes(
    struct rt_client *c, const uint32_t *which, uint32_t n, struct co_err *errs);
/* Whether all servers have lanes.  Then a shard gets its frames in the order in which they went. */
bool psc_client_has_lanes(struct rt_client *c);
/* Writes what is queued in the link's lanes. */
void psc_client_flush_lanes(struct psc_link *l);
/* Pings the servers' ends while calls are in flight: a byte that was changed on its way can make a
 * TLS record longer than it is, and its reader waits for bytes that only follow when more is sent.
 */
void psc_client_ping_lanes(struct psc_link *l);
