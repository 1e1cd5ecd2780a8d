/* The rejected requests of a job, each with its backoff.
 *
 * A failure is kept until its request succeeds or is obsolete, so that the planner can report it
 * and does not repeat it at once.  Owned by the loop's thread. */
#pragma once

#include "operator/plan/plan.h"

struct op_failed_request;

struct op_failures {
    struct op_failed_request *first; /* owned list */
    size_t n;
    struct op_failure *visible; /* what the planner is shown; owned, texts borrowed */
};

/* A create that had no answer, or whose name exists already, counts as a failure only when it has
 * failed so often: the watch may be about to deliver the object, and it may be ours. */
enum { OP_CREATE_GRACE = 3 };

void op_failures_clear(struct op_failures *f); /* zeroed = empty; frees all */
/* Returns how often this action has failed. */
int32_t op_failures_note(
    struct op_failures *f, const struct op_action *a, int code, const char *message);
void op_failures_forget(struct op_failures *f, const struct op_action *a);
/* What the planner is to see now.  Failures that are overtaken (the object to be created exists,
 * the one to be deleted is gone) are dropped.  *ret is valid until the next call. */
void op_failures_view(struct op_failures *f,
    bool (*overtaken)(void *arg, enum op_verb verb, enum op_kind kind, const char *name), void *arg,
    const struct op_failure **ret, size_t *ret_n);
