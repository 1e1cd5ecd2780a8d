/* Finds out about this machine: its address, its devices, its Python. */
#pragma once

#include "runtime/launch/job/job.h"

/* Python for scripts: PADDLERUN_PYTHON, the one beside this program, or the first in PATH.  The
 * caller frees. */
char *node_python(bool *ret_named);
/* others: host:port or URL of another node; NULL: there is none.  It helps to choose among this
 * machine's addresses when the host name resolves to a loopback address.  Nothing is sent there. */
void node_look(const char *others, bool wants_address, struct job_node *ret);
void node_done(struct job_node *n);
