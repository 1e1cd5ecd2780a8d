/* Reports the pods that a failed job leaves running.  Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* o's message; if pods of the failed job still run, it adds which ones, and the command that
 * deletes them.  The caller frees it. */
char *plan_left_add(const struct plan_children *w, const struct plan_assessment *o);
