/* The rejected requests of a job, each with its backoff.
 *
 * A failure is kept until its request succeeds or is obsolete, so that the planner can report it
 * and does not repeat it at once.  Owned by the loop's thread. */
#pragma once

#include "operator/plan/plan.h"

struct ctl_failed_request;

struct ctl_failures {
    struct ctl_failed_request *first; /* owned list */
    size_t n;
    struct plan_failure *visible; /* what the planner is shown; owned, texts borrowed */
};

/* A create that had no answer, or whose name exists already, counts as a failure only when it has
 * failed so often: the watch may be about to deliver the object, and it may be ours. */
enum { CTL_CREATE_GRACE = 3 };

void ctl_failures_clear(struct ctl_failures *f); /* zeroed = empty; frees all */
/* Returns how often this action has failed. */
int32_t ctl_failures_note(
    struct ctl_failures *f, const struct plan_action *a, int code, const char *message);
/* How often its name was taken, in a row. */
int32_t ctl_failures_taken(struct ctl_failures *f, const struct plan_action *a);
void ctl_failures_forget(struct ctl_failures *f, const struct plan_action *a);
/* What the planner is to see now.  Failures that are overtaken (the object to be created exists,
 * the one to be deleted is gone) are dropped.  *ret is valid until the next call. */
void ctl_failures_view(struct ctl_failures *f,
    bool (*overtaken)(void *arg, enum plan_verb verb, enum plan_kind kind, const char *name),
    void *arg, const struct plan_failure **ret, size_t *ret_n);
