/* From the env contract (common/contract.h) to this process's place in its job: role, index,
 * who the others are.  Checked once, immutable afterwards.
 *
 * Takes what Paddle takes and what works there, by hand (a trainer needs neither POD_IP nor
 * PADDLE_PORT), from paddle-operator up to 0.3.5, from this project's operator and from launchers.
 * Knows no sockets and resolves no names; the environment comes through a function, so that
 * tests need no real one.  Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "runtime/train/env/read.h"

/* What kind of training the environment describes. */
enum rt_training {
    RT_TRAINING_ALONE,      /* nothing of it set: worker 0 of 1 */
    RT_TRAINING_PS,         /* there are parameter servers */
    RT_TRAINING_COLLECTIVE, /* workers only */
    RT_TRAINING_COUNT,
};

enum rt_role {
    RT_ROLE_WORKER,
    RT_ROLE_SERVER,
    RT_ROLE_HETER,
    RT_ROLE_COORDINATOR,
    RT_ROLE_COUNT,
};

struct rt_gloo {
    bool workers, servers; /* who meets through gloo */
    int rendezvous;        /* 1 HDFS, 2 file, 3 HTTP; 0: not said */
    char *http_endpoint;   /* owned; NULL: not said */
};

struct rt_topology {
    enum rt_training training;
    enum rt_role role;
    uint32_t index;               /* within the role */
    uint32_t n_workers;           /* at least 1, but for servers that were told 0 */
    struct rt_endpoints servers;  /* of RT_TRAINING_PS; else empty */
    struct rt_endpoints trainers; /* as told.  Parameter server jobs need none, so that there it
                                   * may be empty, of another length than n_workers, or no
                                   * endpoints at all, as in Paddle */
    struct rt_endpoints heters;
    char *endpoint; /* owned; own, from its list where it stands there; NULL: not known */
    char *job;      /* owned; the name given to the job, "" without one */
    struct rt_gloo gloo;
};

/* get NULL: the process's environment.  CO_INVALID: one line that names the variable, its value
 * and what was expected; the custom is to print it and end with code 2. */
CO_MUST_CHECK int rt_topology_load(
    rt_getenv_fn get, void *arg, struct rt_topology **ret, struct co_err *err);
void rt_topology_free(struct rt_topology *t); /* NULL allowed */
CO_DEFINE_CLEANUP(struct rt_topology *, rt_topology_free)

/* How many of that role there are; 0: not known. */
uint32_t rt_topology_count(const struct rt_topology *t, enum rt_role role);

const char *rt_role_name(enum rt_role role);             /* "worker", "server", ... */
const char *rt_training_name(enum rt_training training); /* "alone", "parameter server", ... */
