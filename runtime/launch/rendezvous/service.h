/* The key-value service of a rendezvous: Paddle's paths and verbs for anybody, and for our own
 * launchers answers that come when there is news.  Bounds: nodes, other keys, bytes of a value,
 * connections. */
#pragma once

#include "common/loop.h"
#include "runtime/launch/rendezvous/group.h"

struct rt_service;

struct rt_service_options {
    const char *job_id;
    struct rt_group_rules rules;
    void (*note)(void *arg, bool warn, const char *line); /* who was refused */
    void *arg;
};

/* Listens on all addresses, as Paddle's does; port 0: any.  CO_UNAVAILABLE, CO_EXISTS: taken.
 * A connection a node is an open file. */
CO_MUST_CHECK int rt_service_open(struct co_loop *l, uint16_t port,
    const struct rt_service_options *options, struct rt_service **ret, struct co_err *err);
uint16_t rt_service_port(const struct rt_service *s);
/* The serving node has done its work: from here on nobody watches. */
void rt_service_part(struct rt_service *s, const char *why);
/* Nobody is left who is connected and was not told that the job is over or has left. */
bool rt_service_settled(const struct rt_service *s);
void rt_service_close(struct rt_service *s); /* NULL allowed */
