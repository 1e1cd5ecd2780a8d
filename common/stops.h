/* Counts requests to stop, which come as signals.  What signals a whole process group, as timeout
 * does, or systemd, which sends SIGHUP behind SIGTERM, or a terminal that is closed, signals its
 * first process more than once: that is one request, and what runs keeps its time to save.  Pure.
 */
#pragma once

#include <stdint.h>

enum { CO_STOPS_APART_MS = 200 }; /* faster than people repeat a key */

struct co_stops {
    int n;
    int64_t last_ms; /* of the newest signal; monotonic */
};

/* How often a stop has been requested, with the signal that has come now; 0: it belongs to the
 * request before it. */
int co_stops_note(struct co_stops *s, int64_t now_ms);
