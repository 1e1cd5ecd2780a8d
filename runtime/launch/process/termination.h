/* The container's termination log.  Kubernetes shows its content in the pod's status when a
 * container has failed, and the operator shows its last line as the cause in a PaddleJob's status.
 */
#pragma once

#include <stdbool.h>

#define PROC_TERMINATION_LOG "/dev/termination-log"

/* Whether it exists, is a file, and is empty.  A message that the program has written itself is
 * never replaced. */
bool proc_termination_wanted(const char *path);
/* Writes the log if it is wanted.  lines: the last output; cause: one line; each may be "". */
void proc_termination_write(const char *path, const char *lines, const char *cause);
/* Writes "stopped by SIGTERM", if the log is wanted.  Async-signal-safe. */
void proc_termination_stopped(const char *path, int signo);
