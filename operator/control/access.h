/* Who may read an endpoint of ours: whom the API server says, by TokenReview and then
 * SubjectAccessReview of the path (nonResourceURLs), as controller-runtime's
 * WithAuthenticationAndAuthorization has it.
 *
 * Verdicts are kept for a short time, at most a few of them; so many reviews at most are under way.
 * Tokens are never logged.  Owned by the loop's thread. */
#pragma once

#include "common/httpd.h"
#include "operator/kube/client.h"

struct op_access;

/* client is borrowed. */
struct op_access *op_access_new(struct op_kube_client *client);
/* After the server whose requests it reviews. */
void op_access_free(struct op_access *a);
CO_DEFINE_CLEANUP(struct op_access *, op_access_free)

/* From a handler: allowed(arg, req) answers, now or later, when the request may; else it is
 * answered 401 (who is that?), 403 (may not), 500 (the review failed) or 503 (too many). */
void op_access_check(struct op_access *a, struct co_http_req *req,
    void (*allowed)(void *arg, struct co_http_req *req), void *arg);
