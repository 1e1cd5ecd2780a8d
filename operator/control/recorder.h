/* Events of a job, as `kubectl describe` shows them.
 *
 * They have a lane of their own and never delay a create; one that cannot be written is logged
 * and dropped.  The same warning again raises its count instead of adding an event.  Owned by
 * the loop's thread. */
#pragma once

#include "operator/api/job.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"

/* The last warning of a job, to be folded with the next one; zeroed at first. */
struct op_last_warning {
    uint64_t hash;
    char *name; /* owned: of the Event object */
    int64_t count;
    int64_t at; /* monotonic ms: when it was told last */
};
void op_last_warning_done(struct op_last_warning *w);

struct op_recorder {
    struct op_kube_client *client;
    const char *instance; /* who reports: the pod's name */
    uint64_t last_number; /* of the last event's name */
};

void op_recorder_init(struct op_recorder *r, struct op_kube_client *client, const char *instance);
void op_recorder_emit(struct op_recorder *r, const struct op_job *job, struct op_last_warning *last,
    const struct op_event *event);
