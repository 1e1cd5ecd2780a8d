/* What the planner sees of a store's entry: arrays of its children, and its decoded job. */
#pragma once

#include "operator/control/store.h"

/* Valid until the entry changes.  The arrays are owned by the view, the children borrowed. */
struct ctl_view {
    struct plan_seen seen;
    const struct api_pod **pods;
    const struct api_service **services;
    const struct api_pod **ended;
};
void ctl_view_init(struct ctl_view *v, const struct ctl_entry *e);
void ctl_view_done(struct ctl_view *v);

/* An older job of the entry's namespace does not run yet.  Looks at all entries. */
bool ctl_view_elder_waits(const struct ctl_store *s, const struct ctl_entry *e);

/* Decodes the job of an entry whose text is in the cache.  CO_INVALID: it cannot be decoded. */
CO_MUST_CHECK int ctl_view_job(const struct ctl_entry *e, struct api_job **ret, struct co_err *err);

/* A cache of one decoded job, the last one.  A job of a thousand pods is reconciled again and again
 * while they start, and parsing its status alone takes longer than planning. */
struct ctl_view_memo {
    uint64_t edition;
    struct api_job *job; /* owned; NULL: none */
};
/* As ctl_view_job, but from the memo if it has this edition of the job. */
CO_MUST_CHECK int ctl_view_job_again(
    struct ctl_view_memo *m, const struct ctl_entry *e, struct api_job **ret, struct co_err *err);
void ctl_view_memo_done(struct ctl_view_memo *m);
