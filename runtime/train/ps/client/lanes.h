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

/* The lanes of a link; guarded by c->m. */
struct psc_lanes {
    char address[64]; /* numeric; the server's front door */
    uint64_t key;     /* from its welcome; 0: it has no lanes */
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
/* Closes a link's lanes; c->m is held. */
void psc_client_drop_lanes(struct rt_client *c, struct psc_link *l);

/* For each tick.  True: a lane was lost, and the stream did not end in time.  c->m is held. */
bool psc_client_lost_lanes(struct psc_link *l);

/* The lane or stream that carries this part; borrowed.  c->m is held. */
struct rpc_stream *psc_client_carrier(const struct psc_link *l, const struct psc_part *p);
/* Whether it takes more frames, or has too many unsent bytes already.  c->m is held. */
bool psc_client_carrier_free(const struct psc_link *l, const struct psc_part *p);
/* Writes what is queued in the link's lanes; c->m is held, and released meanwhile. */
void psc_client_flush_lanes(struct rt_client *c, struct psc_link *l);

/* Pings the servers' ends while calls are in flight: a byte that was changed on its way can make a
 * TLS record longer than it is, and its reader waits for bytes that only follow when somebody sends
 * more.  c->m is held, and released meanwhile. */
void psc_client_ping_lanes(struct rt_client *c, struct psc_link *l);

/* Wakes all threads that wait for a change; c->m is held. */
void psc_client_changed(struct rt_client *c);
/* A request is sent, so the client's own thread may be needed to read; c->m is held. */
void psc_client_expects(struct rt_client *c);
/* Whether that thread sleeps until it is needed; c->m is held. */
bool psc_client_is_idle(const struct rt_client *c);
/* Waits until something may have changed.  False: the deadline (absolute) has passed.  c->m is
 * held, and released meanwhile. */
bool psc_client_wait(struct rt_client *c, int64_t deadline_ms);
