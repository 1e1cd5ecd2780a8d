/* The key-value service of a rendezvous: Paddle's paths and verbs for anybody, and for our own
 * launchers answers that come when there is news.  Bounds: nodes, other keys and the bytes of all
 * of them, bytes of a value and of a listing, how often a large one is made, connections of an
 * address and in all. */
#pragma once

#include "common/loop.h"
#include "runtime/launch/rendezvous/group.h"

struct rl_service;

struct rl_service_options {
    const char *job_id;
    const char *token; /* asked of everybody; NULL: of nobody */
    struct rl_group_rules rules;
    void (*note)(void *arg, bool warn, const char *line); /* who was refused */
    void *arg;
};

/* Listens on all addresses, as Paddle's does; port 0: any.  CO_UNAVAILABLE, CO_EXISTS: taken.
 * A connection a node is an open file. */
CO_MUST_CHECK int rl_service_open(struct co_loop *l, uint16_t port,
    const struct rl_service_options *options, struct rl_service **ret, struct co_err *err);
uint16_t rl_service_port(const struct rl_service *s);
/* The serving node has done its work: from here on nobody watches. */
void rl_service_part(struct rl_service *s, const char *why);
/* Nobody is left who is connected and was not told that the job is over or has left. */
bool rl_service_settled(const struct rl_service *s);
void rl_service_close(struct rl_service *s); /* NULL allowed */
