/* Reading contract variables from an environment, with the tolerance that Paddle has: blanks
 * around values and list elements, a comma at a list's end.  Pure. */
#pragma once

#include "common/contract.h"
#include "common/err.h"
#include "common/mem.h"

/* Returns the variable's value, valid until the reader is done; NULL: it is not set. */
typedef const char *(*role_getenv_fn)(void *arg, const char *name);

/* Endpoints "host:port" or "[v6]:port", by index. */
struct role_endpoints {
    char **item; /* owned strings */
    uint32_t n;
};

struct role_environment {
    role_getenv_fn get;
    void *arg;
};

/* The value without blanks around it; NULL: not set.  The caller frees. */
char *role_read_text(const struct role_environment *e, enum co_var var);
/* A list without blanks around its elements and without a comma at its end; NULL: not set. */
char *role_read_list(const struct role_environment *e, enum co_var var);
/* CO_NOTFOUND, without a message: the variable is not set. */
int role_read_number(
    const struct role_environment *e, enum co_var var, uint32_t *ret, struct co_err *err);
/* A variable that is not set gives an empty list. check false: the list is only split. */
int role_read_endpoints(const struct role_environment *e, enum co_var var, bool check,
    struct role_endpoints *ret, struct co_err *err);
/* CO_INVALID: "X is not set<because>, expected: ..." */
int role_read_not_set(enum co_var var, const char *because, struct co_err *err);

void role_endpoints_add(struct role_endpoints *l, const char *endpoint);
void role_endpoints_done(struct role_endpoints *l);

/* ---- PADDLE_INIT_*: trainers of Paddle 0.8 to 0.12; servers there have flags only ---- */

/* A trainer's place in such a job. */
struct role_v2 {
    uint32_t index, n_workers;
    struct role_endpoints servers;
};

/* PADDLE_INIT_PSERVERS is not empty: the trainer is one of a cluster. */
bool role_v2_is_set(const struct role_environment *e);
/* Servers are hosts x ports, host by host: the ports for dense parameters, then those for sparse
 * ones.  Which table lives where is this runtime's business, so that both kinds are used alike. */
CO_MUST_CHECK int role_v2_load(
    const struct role_environment *e, struct role_v2 *ret, struct co_err *err);
