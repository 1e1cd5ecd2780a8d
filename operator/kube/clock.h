/* What time it is at the API server: its Date headers and this machine's monotonic clock.
 *
 * Timestamps that deadlines count from (creationTimestamp, a container's end) are the server's, so
 * deadlines must be, too: the clock of the operator's own node may be wrong, or be set.  Behind the
 * server's by less than a second, and by what its fastest reply took.  One for the process, like
 * the wall clock that it stands in for; any thread. */
#pragma once

#include <stdint.h>

/* A reply that arrives now says so: whole seconds since the epoch. */
void op_kube_clock_heard(int64_t stamp);
/* Since the epoch; this machine's wall clock before anything was heard. */
int64_t op_kube_clock_ms(void);
int64_t op_kube_clock_seconds(void);
/* As before anything was heard; for tests. */
void op_kube_clock_forget(void);
