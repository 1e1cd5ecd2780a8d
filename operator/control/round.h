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
struct op_rounds {
    struct op_apiserver api;
    struct op_recorder *recorder;
    /* The round is over; requeue at wake_ms (monotonic; 0: only when something changes). */
    void (*over)(void *arg, struct op_entry *e, int64_t wake_ms);
    void *arg;
};

struct op_round;

/* The rounds of one entry; e is borrowed. */
struct op_round *op_round_new(struct op_rounds *all, struct op_entry *e);
/* It is not busy and remembers nothing, so it may be freed and created again. */
bool op_round_is_blank(const struct op_round *r);
void op_round_free(struct op_round *r); /* does not cancel requests in flight */

bool op_round_busy(const struct op_round *r);
int64_t op_round_began(const struct op_round *r); /* monotonic ms; valid while it is busy */
/* Fills in what the planner has to remember: failures, the status draft, the token.  A uid other
 * than last time's means a new job of the same name, for which nothing is remembered. */
void op_round_recall(struct op_round *r, const char *uid, struct op_seen *seen);
/* How many creates the next plan may have.  At least 1, even during a backoff, so that the plan
 * says what is missing. */
size_t op_round_room(const struct op_round *r);
/* Executes a plan; takes job and plan (the plan is zeroed).  Must not be busy. */
void op_round_begin(struct op_round *r, struct op_job *job_own, struct op_plan *plan_own);
/* Cancels the creates that are queued or in flight, because the job is being deleted. */
void op_round_create_nothing(struct op_round *r);
/* Cancels all requests and ends the round; nothing if it is not busy. */
void op_round_abort(struct op_round *r);
