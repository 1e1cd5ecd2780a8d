/* Builds the conditions in a job's status.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* What a user should know although the job runs: a condition, and an event of that name when the
 * text is another one. */
struct plan_notice {
    const char *type, *is, *is_not; /* reasons */
    bool (*say)(const struct plan_children *w, char *ret, size_t size);
    bool attempt; /* only while the attempt continues */
};
enum { PLAN_NOTICES = 5, PLAN_NOTICE_MAX = 480 };
extern const struct plan_notice plan_notices[PLAN_NOTICES];
/* False: there is nothing to say now. */
bool plan_notice_say(const struct plan_notice *n, const struct plan_children *w,
    const struct plan_assessment *o, char ret[PLAN_NOTICE_MAX]);

json_t *plan_conditions_make(const struct plan_children *w, const struct plan_assessment *o);
