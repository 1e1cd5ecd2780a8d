/* One round of a job: a plan's requests, its status write, its events; and what is remembered of
 * failed requests until the next round.
 *
 * Rejected creates are retried with backoff, first one, then two, then four, ... at a time.  A
 * request whose fate is unknown is no failure: the job is looked at again.  Owned by the loop's
 * thread; the controller decides when rounds begin. */
#pragma once

#include "operator/control/recorder.h"
#include "operator/control/requests.h"

/* What rounds of all jobs share. */
struct op_rounds {
    struct op_apiserver api;
    struct op_recorder *recorder;
    /* The round is over; look again at wake_ms (monotonic; 0: only when something changes). */
    void (*over)(void *arg, struct op_entry *e, int64_t wake_ms);
    void *arg;
};

struct op_round;

/* Of one entry, for as long as it exists. */
struct op_round *op_round_new(struct op_rounds *all, struct op_entry *e);
/* Nothing is done or remembered: a new one would do as well. */
bool op_round_is_blank(const struct op_round *r);
void op_round_free(struct op_round *r); /* requests in flight are forgotten */

bool op_round_busy(const struct op_round *r);
int64_t op_round_began(const struct op_round *r); /* monotonic ms; of a busy one */
/* The planner's memory, as of now: of rejections, of pods that have succeeded, of the token.  A job
 * of another uid than last time is another job: what its predecessor of that name met is forgotten.
 */
void op_round_recall(struct op_round *r, const char *uid, struct op_seen *seen);
/* How many creates the next round may send; at least 1, so that a plan says what is missing. */
size_t op_round_room(const struct op_round *r);
/* Carries out a plan; takes job and plan (the plan is zeroed).  Not while busy. */
void op_round_begin(struct op_round *r, struct op_job *job_own, struct op_plan *plan_own);
/* Gives up the creates that are queued or on the wire: nobody wants their objects any more. */
void op_round_create_nothing(struct op_round *r);
/* Gives up what is queued or on the wire and ends the round; nothing when not busy. */
void op_round_abort(struct op_round *r);
