/* What the planner sees of a store's entry: arrays of its children, and its decoded job. */
#pragma once

#include "operator/control/store.h"

/* Valid until the entry changes.  The arrays are owned by the view, the children borrowed. */
struct op_view {
    struct op_seen seen;
    const struct op_pod **pods;
    const struct op_service **services;
    const struct op_pod **ended;
};
void op_view_init(struct op_view *v, const struct op_entry *e);
void op_view_done(struct op_view *v);

/* An older job of the entry's namespace does not run yet.  Looks at all entries. */
bool op_view_elder_waits(const struct op_store *s, const struct op_entry *e);

/* Decodes the job of an entry whose text is in the cache.  CO_INVALID: it cannot be decoded. */
CO_MUST_CHECK int op_view_job(const struct op_entry *e, struct op_job **ret, struct co_err *err);

/* A cache of one decoded job, the last one.  A job of a thousand pods is reconciled again and again
 * while they start, and parsing its status alone takes longer than planning. */
struct op_view_memo {
    uint64_t edition;
    struct op_job *job; /* owned; NULL: none */
};
/* As op_view_job, but from the memo if it has this edition of the job. */
CO_MUST_CHECK int op_view_job_again(
    struct op_view_memo *m, const struct op_entry *e, struct op_job **ret, struct co_err *err);
void op_view_memo_done(struct op_view_memo *m);
