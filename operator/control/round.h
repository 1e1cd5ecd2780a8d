/* A round executes one plan of a job: its requests, then the status write, then its events.
 * Between rounds it keeps the job's failures and backoffs.
 *
 * After a rejected create the next ones wait for a backoff, and are then sent one, two, four, ...
 * at a time.  A request without an answer is no failure: the job is reconciled again.  Owned by
 * the loop's thread; the controller decides when rounds begin. */
#pragma once

#include "operator/control/recorder.h"
#include "operator/control/requests.h"

/* What rounds of all jobs share. */
struct ctl_rounds {
    struct ctl_apiserver api;
    struct ctl_recorder *recorder;
    /* The round is over; requeue at wake_ms (monotonic; 0: only when something changes). */
    void (*over)(void *arg, struct ctl_entry *e, int64_t wake_ms);
    void *arg;
};

struct ctl_round;

/* The rounds of one entry; e is borrowed. */
struct ctl_round *ctl_round_new(struct ctl_rounds *all, struct ctl_entry *e);
/* It is not busy and remembers nothing, so it may be freed and created again. */
bool ctl_round_is_blank(const struct ctl_round *r);
void ctl_round_free(struct ctl_round *r); /* does not cancel requests in flight */

bool ctl_round_busy(const struct ctl_round *r);
int64_t ctl_round_began(const struct ctl_round *r); /* monotonic ms; valid while it is busy */
/* Fills in what the planner has to remember: failures, the status draft, the token.  A uid other
 * than last time's means a new job of the same name, for which nothing is remembered. */
void ctl_round_recall(struct ctl_round *r, const char *uid, struct plan_seen *seen);
/* How many creates the next plan may have.  At least 1, even during a backoff, so that the plan
 * says what is missing. */
size_t ctl_round_room(const struct ctl_round *r);
/* Executes a plan; takes job and plan (the plan is zeroed).  Must not be busy. */
void ctl_round_begin(struct ctl_round *r, struct api_job *job_own, struct plan *plan_own);
/* Cancels the creates that are queued or in flight, because the job is being deleted. */
void ctl_round_create_nothing(struct ctl_round *r);
/* Cancels all requests and ends the round; nothing if it is not busy. */
void ctl_round_abort(struct ctl_round *r);
