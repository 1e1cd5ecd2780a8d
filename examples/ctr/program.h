/* The program that all networks for click data share.  It trains alone, or runs as a parameter
 * server or worker if the environment describes a job.  It also generates data, and predicts with a
 * saved model. */
#pragma once

#include "examples/ctr/net.h"

/* The body of main.  Returns the exit code: 0 success, 2 wrong usage or environment, 1 any other
 * error. */
int ctr_program(const struct ctr_net *net, int argc, char *argv[]);
