/* Reads /metrics of several processes, or of all pods of jobs, again and again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct top_options {
    const char *const *targets; /* [n] "host:port", "http://host:port/path", or a job's name */
    size_t n;
    const char *space; /* namespace of the jobs; "": kubectl's; NULL: targets are no jobs */
    int64_t interval_ms;
    int64_t count;      /* reads; 0: until the user ends it */
    int64_t timeout_ms; /* of an answer */
    bool life;          /* rates over the whole life, and not since the read before */
};

enum { TOP_TARGETS = 256 };

/* Prints to stdout: a terminal is redrawn each time, anything else gets lines.  Ends after count
 * reads, with q or SIGINT.  Jobs are asked for through `kubectl proxy`, a child; their pods are
 * listed again with each read.  CO_UNAVAILABLE: no target answered at the last read; CO_INVALID: a
 * target that cannot be; CO_NOTFOUND: there is no kubectl.  Main thread. */
CO_MUST_CHECK int top_run(const struct top_options *o, struct co_err *err);
