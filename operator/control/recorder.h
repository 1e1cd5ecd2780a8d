/* Events about jobs, in the client's lane of their own, few at a time and never in anybody's way.
 *
 * Those that wait for their turn are folded: what a job does while nobody could be told becomes
 * one event ("created 3 Pods: ...; all 3 pods are running"), and a warning that repeats itself is
 * counted up where it stands.  Owned by the loop's thread. */
#pragma once

#include "operator/kube/client.h"
#include "operator/plan/plan.h"

struct op_waiting_event;

/* What is told and to be told of one job; zeroed = nothing. */
struct op_story {
    struct op_recorder *recorder;   /* while something waits */
    struct op_story *next;          /* in the recorder's queue */
    struct op_waiting_event *first; /* owned list, oldest first */
    size_t n_waiting;
    /* of the last warning, which the next one may repeat */
    char *warning; /* owned: name of the Event; NULL: none */
    uint64_t hash;
    int64_t count, at; /* monotonic ms */
};
void op_story_done(struct op_story *s); /* what waits is not told any more; zeroed */

struct op_recorder {
    struct op_kube_client *client;
    const char *instance; /* borrowed */
    uint64_t last_number;
    struct op_story *head, **tail; /* with something to tell, in turn */
    size_t flying;
};

void op_recorder_init(struct op_recorder *r, struct op_kube_client *client, const char *instance);
/* Nothing of job and event is kept. */
void op_recorder_emit(struct op_recorder *r, const struct op_job *job, struct op_story *story,
    const struct op_event *event);
