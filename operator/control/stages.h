/* How long a job's stages take, from its creation to its end, for metrics.  Times are our own
 * monotonic clock's: what the API server writes has seconds and another machine's clock. */
#pragma once

#include "operator/api/job.h"

struct op_metrics;

/* An entry's; zeroed at first.  Milliseconds, 0: not known.  All of it is stages.c's. */
struct op_stages {
    int64_t born;      /* creation of a job that was new when it was first seen */
    int64_t made;      /* its last pod appeared */
    int64_t scheduled; /* its last pod got a node */
    int64_t left;      /* it left Running without an end */
    bool restarting;   /* for a restart of the group */
};

/* A job is seen for the first time: the phase in its status, its creationTimestamp (0: none). */
void op_stages_begin(struct op_stages *s, enum op_phase phase, int64_t created);
void op_stages_pod_made(struct op_stages *s);
void op_stages_pod_scheduled(struct op_stages *s);
/* A phase was written to the status of the job: counts what has ended by it. */
void op_stages_phase(struct op_stages *s, struct op_metrics *m, enum op_phase from,
    enum op_phase to, const json_t *status);
