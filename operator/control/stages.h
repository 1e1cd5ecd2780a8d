/* Measures how long the stages of a job take, from its creation to its end, for metrics.  Times are
 * of our own monotonic clock: timestamps of the API server are whole seconds of another clock. */
#pragma once

#include "operator/api/job.h"

struct ctl_metrics;

/* One for each entry; zeroed at first.  Monotonic milliseconds, 0: unknown.  Private to stages.c.
 */
struct ctl_stages {
    int64_t born;      /* creation; known only of jobs that had no phase when first seen */
    int64_t made;      /* the last pod appeared in the watch */
    int64_t scheduled; /* the last pod got a node */
    int64_t left;      /* the job left Running, but has not ended */
    bool restarting;   /* and does so because the whole group restarts */
};

/* A job is seen for the first time: the phase in its status, its creationTimestamp (0: none). */
void ctl_stages_begin(struct ctl_stages *s, enum api_phase phase, int64_t created);
void ctl_stages_pod_made(struct ctl_stages *s);
void ctl_stages_pod_scheduled(struct ctl_stages *s);
/* A phase was written to the job's status: observes the stages that have ended with it. */
void ctl_stages_phase(struct ctl_stages *s, struct ctl_metrics *m, enum api_phase from,
    enum api_phase to, const json_t *status);
