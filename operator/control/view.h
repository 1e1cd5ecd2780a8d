/* A planner's view of what the store has under one name. */
#pragma once

#include "operator/control/store.h"

/* Shows what the entry shows, until that changes.  The arrays are owned by the view. */
struct op_view {
    struct op_seen seen;
    const struct op_pod **pods;
    const struct op_service **services;
};
void op_view_init(struct op_view *v, const struct op_entry *e);
void op_view_done(struct op_view *v);

/* The job of an entry that has one; CO_INVALID when it is none that a plan can be made for. */
CO_MUST_CHECK int op_view_job(const struct op_entry *e, struct op_job **ret, struct co_err *err);
