/* An execution executes one plan of a job: its requests, then the status write, then its events.
 * Between executions it keeps the job's failures, backoffs, and status writes without an answer.
 *
 * After a rejected create the next ones wait for a backoff, and are then sent one, two, four, ...
 * at a time.  A request without an answer is no failure: the job is reconciled again.  Owned by
 * the loop's thread; the controller decides when executions begin. */
#pragma once

#include "operator/control/crd.h"
#include "operator/control/recorder.h"
#include "operator/control/requests.h"

/* What executions of all jobs share. */
struct ctl_executions {
    struct ctl_apiserver api;
    struct ctl_recorder *recorder;
    /* The execution is over; requeue at wake_ms (monotonic; 0: only when something changes). */
    void (*over)(void *arg, struct ctl_entry *e, int64_t wake_ms);
    void *arg;
    struct ctl_crd crd;
    int64_t led_from; /* seconds: since when this process is the lease holder; 0: it is not */
};

struct ctl_execution;

/* The executions of one entry; e is borrowed. */
struct ctl_execution *ctl_execution_new(struct ctl_executions *all, struct ctl_entry *e);
/* It is not busy and remembers nothing, so it may be freed and created again. */
bool ctl_execution_is_blank(const struct ctl_execution *r);
void ctl_execution_free(struct ctl_execution *r); /* does not cancel requests in flight */

bool ctl_execution_busy(const struct ctl_execution *r);
int64_t ctl_execution_began(
    const struct ctl_execution *r); /* monotonic ms; valid while it is busy */
/* Fills in what the planner has to remember: failures, the status draft, the token.  A uid other
 * than last time's means a new job of the same name, for which nothing is remembered. */
void ctl_execution_recall(struct ctl_execution *r, const char *uid, struct plan_seen *seen);
/* How many creates the next plan may have.  At least 1, even during a backoff, so that the plan
 * says what is missing. */
size_t ctl_execution_creates_max(const struct ctl_execution *r);
/* Executes a plan; takes job and plan (the plan is zeroed).  Must not be busy. */
void ctl_execution_begin(struct ctl_execution *r, struct api_job *job_own, struct plan *plan_own);
/* Cancels the creates that are queued or in flight, because the job is being deleted. */
void ctl_execution_create_nothing(struct ctl_execution *r);
/* Cancels all requests and ends the execution; nothing if it is not busy. */
void ctl_execution_abort(struct ctl_execution *r);
