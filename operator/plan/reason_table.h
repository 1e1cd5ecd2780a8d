/* The words of status.reason that are the operator's own; paddle-operator docs reasons prints them.
 * Pure. */
#pragma once

#include "operator/plan/outlook.h"

/* Sets reason and message.  The reason is one of the table. */
void CO_PRINTF(3, 4) op_reason_say(struct op_outlook *o, const char *reason, const char *fmt, ...);
/* ... or a word of Kubernetes, or of the stored status. */
void CO_PRINTF(3, 4)
    op_reason_quote(struct op_outlook *o, const char *reason, const char *fmt, ...);
