/* What is remembered of a job's rejected requests until they succeed or are overtaken, so that
 * the planner neither forgets them nor tries them at once again.  Owned by the loop's thread. */
#pragma once

#include "operator/plan/plan.h"

struct op_failed_request;

struct op_failures {
    struct op_failed_request *first; /* owned list */
    size_t n;
    struct op_failure *visible; /* what the planner is shown; owned, texts borrowed */
};

/* A create of which nobody knows whether it was done, and one that met its name taken, is looked at
 * again this many times before it counts: the watch may be about to tell that the object is ours.
 */
enum { OP_CREATE_GRACE = 3 };

void op_failures_clear(struct op_failures *f); /* zeroed = empty; frees all */
/* Returns how often this action has failed. */
int32_t op_failures_note(
    struct op_failures *f, const struct op_action *a, int code, const char *message);
void op_failures_forget(struct op_failures *f, const struct op_action *a);
/* As of now, less what is overtaken: what was to be made is there, what was to go is gone. */
void op_failures_view(struct op_failures *f,
    bool (*overtaken)(void *arg, enum op_verb verb, enum op_kind kind, const char *name), void *arg,
    const struct op_failure **ret, size_t *ret_n);
