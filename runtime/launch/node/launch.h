/* `paddlerun launch`: this node's processes of a job, from the command line to the exit code.
 *
 * Decides with runtime/launch/job, meets other nodes with runtime/launch/rendezvous, starts and
 * ends processes with runtime/launch/process.  Blocks until all is over; call from the main thread
 * of a process without other children. */
#pragma once

#include "runtime/launch/options/options.h"

/* argv[0] is the command.  Returns the exit code: 0; of the first child that failed (128 + signal
 * when a signal ended it); the number of the signal that stopped the launcher, as Paddle's
 * launchers have it; 2: the command line or the environment is wrong; 1: anything else.  Has said
 * on stderr why. */
int rl_launch_run(const struct rl_options *o, int argc, char *const argv[]);
