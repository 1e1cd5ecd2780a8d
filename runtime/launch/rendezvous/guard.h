/* The master's side of --require_token.  It admits requests that carry a right proof (seal.h),
 * answers those that ask for a challenge, and refuses the rest.  Memory: a few bytes for each
 * connection that has proved the token; nothing for the others. */
#pragma once

#include "common/http/httpd.h"

struct rdzv_guard;

/* CO_INTERNAL: no random numbers.  note gets a log line about refused peers, at most one in 10 s.
 */
CO_MUST_CHECK int rdzv_guard_new(const char *token,
    void (*note)(void *arg, bool warn, const char *line), void *arg, struct rdzv_guard **ret,
    struct co_err *err);
void rdzv_guard_free(struct rdzv_guard *g); /* NULL allowed */

/* Returns false when the request was answered with 401. */
bool rdzv_guard_admit(struct rdzv_guard *g, struct co_http_req *r);
/* For co_httpd_options.answering: adds a proof to the answer of an admitted request. */
void rdzv_guard_prove(
    const struct rdzv_guard *g, struct co_http_req *r, int status, const void *body, size_t len);
void rdzv_guard_disconnected(struct rdzv_guard *g, uint64_t conn);
