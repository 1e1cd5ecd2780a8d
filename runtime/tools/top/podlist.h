/* A job's pods, as the API server lists them, and where each has its metrics.  Pure. */
#pragma once

#include <stddef.h>

#include "common/err.h"

enum { TOP_PODLIST_MAX = 10000 };

struct top_listed_pod {
    char *name;  /* owned */
    char *path;  /* owned; of the API server's proxy to its /metrics; NULL: it cannot be asked, */
    char *state; /* owned;   and why: "Pending"; else NULL */
};

struct top_podlist {
    struct top_listed_pod *all; /* owned, in the list's order */
    size_t n;
};

/* Where a job's pods are listed; the caller frees. */
char *top_podlist_path(const char *space, const char *job);
/* A PodList in JSON.  A pod's port is that of PADDLERT_METRICS, or its port "metrics". */
CO_MUST_CHECK int top_podlist_read(
    const char *text, size_t len, struct top_podlist *ret, struct co_err *err);
void top_podlist_done(struct top_podlist *p); /* zeroed: nothing */
