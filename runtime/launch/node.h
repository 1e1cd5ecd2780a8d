/* What this machine tells a launcher: its address, its devices, its Python. */
#pragma once

#include "runtime/plan/job.h"

/* master: where other nodes are, for choosing among this machine's addresses; NULL: none. */
void rt_node_look(const char *master, bool wants_address, struct rt_node *ret);
void rt_node_done(struct rt_node *n);
