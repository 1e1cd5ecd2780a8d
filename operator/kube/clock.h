/* An estimate of the API server's wall clock, from its Date headers and our monotonic clock.
 *
 * Deadlines count from timestamps of the server (creationTimestamp, a container's end), so they
 * must be compared with the server's clock: that of the operator's node may be wrong, or be set.
 * The estimate is late by less than a second plus the time of the fastest reply.  There is one for
 * the process, like the wall clock that it replaces; any thread may use it. */
#pragma once

#include <stdint.h>

/* A reply has arrived whose Date header is `stamp`: whole seconds since the epoch. */
void kube_clock_observe(int64_t stamp);
/* Time since the epoch; this machine's wall clock before the first reply. */
int64_t kube_clock_ms(void);
int64_t kube_clock_seconds(void);
/* Back to the state before the first reply; for tests. */
void kube_clock_forget(void);
