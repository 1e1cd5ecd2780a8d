/* Authentication and authorization of the requests to our own HTTP endpoints (/metrics).
 *
 * The API server decides: a TokenReview says who the client is, and a SubjectAccessReview of the
 * path (nonResourceURLs) says whether it may.  controller-runtime's
 * WithAuthenticationAndAuthorization does the same.
 *
 * Verdicts are cached for a short time.  The cache and the number of pending reviews are
 * bounded.  Tokens are never logged.  Owned by the loop's thread. */
#pragma once

#include "common/http/httpd.h"
#include "operator/kube/client.h"

struct ctl_access;

/* client is borrowed. */
struct ctl_access *ctl_access_new(struct kube_client *client);
/* Free it after the HTTP server whose requests it reviews. */
void ctl_access_free(struct ctl_access *a);
CO_DEFINE_CLEANUP(struct ctl_access *, ctl_access_free)

/* To be called from a handler.  A permitted request goes to allowed(arg, req), now or later, which
 * answers it.  Any other one is answered here: 401 (unknown client), 403 (not permitted), 500 (the
 * review failed) or 503 (too many pending reviews). */
void ctl_access_check(struct ctl_access *a, struct co_http_req *req,
    void (*allowed)(void *arg, struct co_http_req *req), void *arg);
