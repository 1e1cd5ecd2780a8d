/* A planner's view of what the store has under one name. */
#pragma once

#include "operator/control/store.h"

/* Shows what the entry shows, until that changes.  The arrays are owned by the view. */
struct op_view {
    struct op_seen seen;
    const struct op_pod **pods;
    const struct op_service **services;
    const struct op_pod **ended;
};
void op_view_init(struct op_view *v, const struct op_entry *e);
void op_view_done(struct op_view *v);

/* The job of an entry that has it at hand; CO_INVALID when it is none that a plan can be made for.
 */
CO_MUST_CHECK int op_view_job(const struct op_entry *e, struct op_job **ret, struct co_err *err);

/* The job that was looked at last.  One of a thousand pods is looked at again and again while they
 * start, and its status alone takes longer to parse than the planner takes for all of it. */
struct op_view_memo {
    uint64_t edition;
    struct op_job *job; /* owned; NULL: none */
};
/* As op_view_job, but not parsed again. */
CO_MUST_CHECK int op_view_job_again(
    struct op_view_memo *m, const struct op_entry *e, struct op_job **ret, struct co_err *err);
void op_view_memo_done(struct op_view_memo *m);
