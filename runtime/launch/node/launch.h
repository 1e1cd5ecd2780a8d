/* `paddlerun launch`: runs this node's part of a job, from the options to the exit code.
 *
 * runtime/launch/job plans the job, runtime/launch/rendezvous meets the other nodes, and
 * runtime/launch/process starts and ends processes.  It blocks until the job is over.  Call it from
 * the main thread of a process without other children. */
#pragma once

#include "runtime/launch/options/options.h"

/* argv[0] is the command.  Returns the exit code, after a message on stderr when it is not 0:
 *   the code of the first child that failed, or 128 + signal when a signal ended it;
 *   128 + the signal that stopped the launcher, as shells and Kubernetes say it (Paddle's launchers
 *   return the signal's number, which looks like a program's own exit code);
 *   2: the command line or the environment is wrong; 1: any other error. */
int node_launch_run(const struct options *o, int argc, char *const argv[]);
