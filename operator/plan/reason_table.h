/* The table of the operator's own values of status.reason; `paddle-operator docs reasons` prints
 * it. Pure. */
#pragma once

#include "operator/plan/assessment.h"

/* Sets reason and message.  The reason must be in the table. */
void CO_PRINTF(3, 4)
    plan_reason_say(struct plan_assessment *o, const char *reason, const char *fmt, ...);
/* The same with a reason of Kubernetes, or from the stored status. */
void CO_PRINTF(3, 4)
    plan_reason_quote(struct plan_assessment *o, const char *reason, const char *fmt, ...);
