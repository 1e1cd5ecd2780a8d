/* Turns the env contract (common/contract.h) into this process's place in its job: its role, its
 * index, and the addresses of the others. Checked once, immutable afterwards.
 *
 * It accepts every environment that works with Paddle: set by hand (a trainer needs neither POD_IP
 * nor PADDLE_PORT), by paddle-operator up to 0.3.5, by this project's operator and by launchers. It
 * opens no sockets and resolves no names. The environment is read through a function, so that tests
 * can pass their own. Pure functions, any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "runtime/train/role/environment.h"

/* What kind of training the environment describes. */
enum role_training {
    ROLE_TRAINING_ALONE,      /* no variable of the contract is set: worker 0 of 1 */
    ROLE_TRAINING_PS,         /* there are parameter servers */
    ROLE_TRAINING_COLLECTIVE, /* workers only */
    ROLE_TRAINING_COUNT,
};

enum role {
    ROLE_WORKER,
    ROLE_SERVER,
    ROLE_HETER,
    ROLE_COORDINATOR,
    ROLE_COUNT,
};

struct role_gloo {
    bool workers, servers; /* which roles meet through gloo */
    int rendezvous;        /* 1 HDFS, 2 file, 3 HTTP; 0: not set */
    char *http_endpoint;   /* owned; NULL: not set */
};

struct role_topology {
    enum role_training training;
    enum role role;
    uint32_t index;     /* within the role */
    uint32_t n_workers; /* at least 1, except for a server whose environment says 0 */
    uint32_t n_named;   /* ROLE_TRAINING_ALONE: PADDLE_TRAINERS_NUM, which does not count */
    struct role_endpoints servers;  /* of ROLE_TRAINING_PS; else empty */
    struct role_endpoints trainers; /* as given. Parameter server jobs need none, so that there it
                                     * may be empty, of another length than n_workers, or no
                                     * endpoints at all, as in Paddle */
    struct role_endpoints heters;
    char *endpoint; /* owned; own, from its list where it stands there; NULL: not known */
    char *job;      /* owned; the name given to the job, "" without one */
    struct role_gloo gloo;
};

/* get NULL: the process's environment. CO_INVALID: one line that names the variable, its value and
 * what was expected; programs print it and exit with code 2. */
CO_MUST_CHECK int role_topology_load(
    role_getenv_fn get, void *arg, struct role_topology **ret, struct co_err *err);
void role_topology_free(struct role_topology *t); /* NULL allowed */
CO_DEFINE_CLEANUP(struct role_topology *, role_topology_free)

/* The number of processes of that role; 0: not known. */
uint32_t role_topology_count(const struct role_topology *t, enum role role);

const char *role_name(enum role role);                       /* "worker", "server", ... */
const char *role_training_name(enum role_training training); /* "alone", "parameter server", ... */
