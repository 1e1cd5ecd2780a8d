/* The HTTP server of a rendezvous at host:port.  It has Paddle's paths and verbs, so that Paddle's
 * launchers can use it; our own launchers get answers when there is news (wire.h).  The rules are
 * in group.h; this file has the sockets and timers.
 *
 * As any program can connect, everything is bounded: nodes, other keys and their bytes, bytes of a
 * value and of a listing, how often a large listing is made, connections per address and in all. */
#pragma once

#include "common/loop.h"
#include "runtime/launch/rendezvous/group.h"

struct rdzv_service;

struct rdzv_service_options {
    const char *job_id;
    const char *token; /* that every client must prove; NULL: none need to */
    struct rdzv_group_rules rules;
    void (*note)(void *arg, bool warn, const char *line); /* log lines about refused clients */
    void *arg;
};

/* Listens on all addresses, as Paddle's server does; port 0: any.  CO_UNAVAILABLE, CO_EXISTS: the
 * port is taken.  It needs an open file for each node. */
CO_MUST_CHECK int rdzv_service_open(struct co_loop *l, uint16_t port,
    const struct rdzv_service_options *options, struct rdzv_service **ret, struct co_err *err);
uint16_t rdzv_service_port(const struct rdzv_service *s);
/* The serving node has done its work and will leave: all nodes are notified. */
void rdzv_service_part(struct rdzv_service *s, const char *why);
/* True when every node that is still connected knows that the job is over. */
bool rdzv_service_settled(const struct rdzv_service *s);
void rdzv_service_close(struct rdzv_service *s); /* NULL allowed */
