/* The signals that ask a launcher to end, the same for each: SIGTERM, SIGINT, SIGQUIT and, but for
 * nohup, SIGHUP; and SIGTSTP (Ctrl-Z), which stops it with all that it has started until SIGCONT.
 * Owned by its launcher, which sets stop, pause and arg, and lives as long as the loop. */
#pragma once

#include "common/loop.h"
#include "common/stops.h"

struct proc_signals {
    /* n: how often a stop has been requested, from 1. */
    void (*stop)(void *arg, int signo, int n);
    /* Stops what the launcher has started (on), or continues it.  The terminal does not reach that:
     * it has groups of its own. */
    void (*pause)(void *arg, bool on);
    void *arg;
    struct co_stops stops; /* zeroed */
};

/* From now on: on the loop's thread, until the loop is freed. */
CO_MUST_CHECK int proc_signals_take(
    struct proc_signals *s, struct co_loop *loop, struct co_err *err);
