/* Reports the pods that a failed job leaves running.  Pure. */
#pragma once

#include "operator/plan/outlook.h"

/* o's message; if pods of the failed job still run, it adds which ones, and the command that
 * deletes them.  The caller frees it. */
char *op_left_add(const struct op_world *w, const struct op_outlook *o);
