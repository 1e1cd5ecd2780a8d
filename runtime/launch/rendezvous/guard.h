/* The master's side of --require_token: lets requests in that are proven (seal.h), challenges those
 * that ask for it, and refuses the rest.  Bounds: a few bytes for each connection that has proved
 * its right; nothing is kept for others. */
#pragma once

#include "common/httpd.h"

struct rl_guard;

/* CO_INTERNAL: no random numbers.  note gets a line about who was refused, at most one in 10 s. */
CO_MUST_CHECK int rl_guard_new(const char *token,
    void (*note)(void *arg, bool warn, const char *line), void *arg, struct rl_guard **ret,
    struct co_err *err);
void rl_guard_free(struct rl_guard *g); /* NULL allowed */

/* False: it was answered with 401. */
bool rl_guard_admit(struct rl_guard *g, struct co_http_req *r);
/* co_httpd_options.answering: proves the answers to what was let in. */
void rl_guard_prove(
    const struct rl_guard *g, struct co_http_req *r, int status, const void *body, size_t len);
void rl_guard_disconnected(struct rl_guard *g, uint64_t conn);
