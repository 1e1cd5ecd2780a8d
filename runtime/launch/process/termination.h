/* The container's termination log: what is in it when a container has failed, Kubernetes shows in
 * the pod's status, and its last line is what a PaddleJob's status gives as the cause. */
#pragma once

#include <stdbool.h>

#define RL_TERMINATION_LOG "/dev/termination-log"

/* It is there, a file, and empty: a program that wrote its own message knows best. */
bool rl_termination_wanted(const char *path);
/* Nothing where it is not wanted.  lines: what led to it; cause: one line; each may be "". */
void rl_termination_write(const char *path, const char *lines, const char *cause);
