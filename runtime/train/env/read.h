/* Reading contract variables from an environment, with the tolerance that Paddle has: blanks
 * around values and list elements, a comma at a list's end.  Pure. */
#pragma once

#include "common/contract.h"
#include "common/err.h"
#include "common/mem.h"

/* Returns the variable's value, valid until the reader is done; NULL: it is not set. */
typedef const char *(*env_getenv_fn)(void *arg, const char *name);

/* Endpoints "host:port" or "[v6]:port", by index. */
struct env_endpoints {
    char **item; /* owned strings */
    uint32_t n;
};

struct env_read {
    env_getenv_fn get;
    void *arg;
};

/* The value without blanks around it; NULL: not set.  The caller frees. */
char *env_read_text(const struct env_read *e, enum co_var var);
/* A list without blanks around its elements and without a comma at its end; NULL: not set. */
char *env_read_list(const struct env_read *e, enum co_var var);
/* CO_NOTFOUND, without a message: the variable is not set. */
int env_read_number(const struct env_read *e, enum co_var var, uint32_t *ret, struct co_err *err);
/* A variable that is not set gives an empty list. check false: the list is only split. */
int env_read_endpoints(const struct env_read *e, enum co_var var, bool check,
    struct env_endpoints *ret, struct co_err *err);
/* CO_INVALID: "X is not set<because>, expected: ..." */
int env_read_not_set(enum co_var var, const char *because, struct co_err *err);

void env_endpoints_add(struct env_endpoints *l, const char *endpoint);
void env_endpoints_done(struct env_endpoints *l);
