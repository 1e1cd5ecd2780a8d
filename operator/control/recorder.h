/* The event recorder: writes Events about jobs, few at a time and in a class of their own, so that
 * they never delay other requests.
 *
 * A Normal event is sent at once if none of its kind was sent in the last half minute.  Otherwise
 * it gathers for a few seconds, and is merged with the next ones: deeds ("created ...") with more
 * of their kind, or with the state of the job that follows ("created ConfigMap x; all 3 pods are
 * running").  Events are never merged across a state, so that their order stays true.
 *
 * While the API server is busy, Normal events are delayed: states for three seconds at most, others
 * for half a minute.  A Warning is never delayed.  When it repeats, the count of the Event that
 * exists is increased: also when a refusal has other numbers, and when Warnings of several kinds
 * take turns.  Owned by the loop's thread. */
#pragma once

#include <sys/queue.h>

#include "operator/control/load.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"

struct ctl_waiting_event;
struct ctl_sent_warning;

/* The events of one job that wait, and what is remembered of those that were sent; zeroed = none.
 */
struct ctl_event_log {
    struct ctl_event_logs *queue;    /* the queue it is in while an event waits; else NULL */
    TAILQ_ENTRY(ctl_event_log) link; /* in the queue */
    int64_t due;                     /* monotonic ms: when it has gathered for long enough */
    struct ctl_waiting_event *first; /* owned list, oldest first */
    size_t n_waiting;
    uint64_t kinds;  /* a bit a kind: a Normal event of it was emitted recently */
    int64_t news_at; /* monotonic ms: the last Normal event */
    LIST_HEAD(, ctl_sent_warning) warnings; /* owned: the last ones, which the next may repeat */
};
void ctl_event_log_done(struct ctl_event_log *s); /* drops the events that wait; zeroed after */

struct ctl_event_logs {
    TAILQ_HEAD(, ctl_event_log) logs;
    int64_t hold_ms; /* they wait so much longer while the API server is busy */
};
/* The queues of jobs with events, in the order of urgency.  A job is in the most urgent one that
 * any of its events needs. */
enum ctl_event_queue {
    CTL_EVENT_LOG_GATHERS, /* ordered by `due`: deeds, and kinds that were sent recently */
    CTL_EVENT_LOG_URGENT,  /* ordered by `due`: a new state of a job, which only load delays */
    CTL_EVENT_LOG_READY,   /* first in, first out: to be sent as soon as a slot is free */
    CTL_EVENT_LOG_QUEUES
};

enum { CTL_EVENT_WRITES_MAX = 4 }; /* events on the wire at a time */

/* An event in flight; the arg of its callback. */
struct ctl_event_write {
    struct ctl_recorder *recorder;    /* NULL: the slot is free */
    struct ctl_sent_warning *warning; /* set for the last write of a remembered Warning */
    bool known;                       /* if the name exists, it is this event (plan_event.id) */
};

struct ctl_recorder {
    struct kube_client *client;
    const char *instance;        /* borrowed */
    const struct ctl_load *load; /* borrowed */
    uint64_t last_number;        /* the last suffix of an Event's name */
    struct ctl_event_logs queue[CTL_EVENT_LOG_QUEUES];
    struct co_timer *timer; /* due: the first job of a delayed queue */
    struct ctl_event_write event_writes[CTL_EVENT_WRITES_MAX];
    size_t flying; /* writes in use */
};

void ctl_recorder_init(struct ctl_recorder *r, struct co_loop *loop, struct kube_client *client,
    const char *instance, const struct ctl_load *load);
void ctl_recorder_done(struct ctl_recorder *r); /* after ctl_event_log_done for all logs */
/* Sends all delayed events now. */
void ctl_recorder_flush(struct ctl_recorder *r);
/* Events that are not written yet: delayed, queued or in flight. */
size_t ctl_recorder_waiting(const struct ctl_recorder *r);
/* Records an event; copies what it needs of job and event. */
void ctl_recorder_emit(struct ctl_recorder *r, const struct api_job *job,
    struct ctl_event_log *event_log, const struct plan_event *event);
