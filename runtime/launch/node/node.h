/* What this machine tells a launcher: its address, its devices, its Python. */
#pragma once

#include "runtime/launch/job/job.h"

/* others: host:port of another node, or URL, for choosing among this machine's addresses where its
 * name does not tell; nothing is sent there.  NULL: there is none. */
void rl_node_look(const char *others, bool wants_address, struct rl_node *ret);
void rl_node_done(struct rl_node *n);
