/* Events about jobs, in the client's lane of their own, few at a time and never in anybody's way.
 *
 * Good news is gathered for a few seconds: what was done meanwhile and where the job stands then
 * become one event ("created 3 Pods: ...; created ConfigMap x; all 3 pods are running").  It waits
 * on while the API server has much to do, for half a minute at most in all.  A warning goes at
 * once, after the good news before it; one that repeats itself is counted up where it stands. Owned
 * by the loop's thread. */
#pragma once

#include "operator/control/load.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"

struct op_waiting_event;
struct op_telling;

/* What is told and to be told of one job; zeroed = nothing. */
struct op_story {
    struct op_stories *queue;       /* while something waits: the one it is in */
    struct op_story *next;          /* in the queue */
    int64_t due;                    /* monotonic ms: the end of gathering */
    struct op_waiting_event *first; /* owned list, oldest first */
    size_t n_waiting;
    /* of the last warning, which the next one may repeat */
    char *warning; /* owned: name of the Event; NULL: none */
    uint64_t hash;
    int64_t count, at;          /* monotonic ms */
    struct op_telling *telling; /* the last write of that Event, until it is answered; else NULL */
};
void op_story_done(struct op_story *s); /* what waits is not told any more; zeroed */

struct op_stories {
    struct op_story *head, **tail;
};

enum { OP_TELLINGS_MAX = 4 }; /* events on the wire at a time */

/* An event on its way; the arg of its callback. */
struct op_telling {
    struct op_recorder *recorder; /* NULL: a free one */
    struct op_story *story;       /* of a warning, while it is the last; else NULL */
};

struct op_recorder {
    struct op_kube_client *client;
    const char *instance;       /* borrowed */
    const struct op_load *load; /* borrowed */
    uint64_t last_number;
    struct op_stories gathering; /* by when they are due */
    struct op_stories telling;   /* in turn */
    struct co_timer *timer;      /* the first of those that gather is due */
    struct op_telling tellings[OP_TELLINGS_MAX];
    size_t flying;
};

void op_recorder_init(struct op_recorder *r, struct co_loop *loop, struct op_kube_client *client,
    const char *instance, const struct op_load *load);
void op_recorder_done(struct op_recorder *r); /* after all stories */
/* What gathers is told now. */
void op_recorder_flush(struct op_recorder *r);
/* Events that gather, wait for their turn or are on the way. */
size_t op_recorder_waiting(const struct op_recorder *r);
/* Nothing of job and event is kept. */
void op_recorder_emit(struct op_recorder *r, const struct op_job *job, struct op_story *story,
    const struct op_event *event);
