/* kubectl as a child, for who has a kubeconfig: it knows how one logs in. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct top_kubectl {
    pid_t pid; /* of `kubectl proxy`; 0: none */
    int said;  /* its output; kept open so that it can still write */
    uint16_t port;
};

/* The namespace of the current context, "default" without one; the caller frees.  Blocks. */
CO_MUST_CHECK int top_kubectl_space(char **ret, struct co_err *err);
/* The API server at 127.0.0.1 and a free port, with the user's rights.  Blocks until it listens.
 * Call from the main thread.  CO_NOTFOUND: no kubectl in PATH; else what kubectl says. */
CO_MUST_CHECK int top_kubectl_proxy(struct top_kubectl *ret, struct co_err *err);
void top_kubectl_done(struct top_kubectl *k); /* zeroed: nothing */
