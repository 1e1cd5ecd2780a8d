/* The other side of the front door: proves the token on connections that were just made. */
#pragma once

#include <stddef.h>

#include "common/err.h"

struct rt_knock {
    int fd; /* connected, non-blocking; -1: not to be asked, or failed */
    /* How it ended; code 0: let in.  CO_PERMISSION: the tokens differ.  CO_INVALID: what answers is
     * no parameter server, or of another version.  CO_TIMEOUT, CO_PEERLOST: worth another try. */
    struct co_err err;
};

/* At all of them at the same time; returns within timeout_ms.  Those that failed are closed. */
void rt_knock_all(struct rt_knock *knocks, size_t n, const char *token, int timeout_ms);
