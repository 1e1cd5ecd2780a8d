/* Subcommands of paddlerun for jobs of Paddle 0.8 to 0.12, with the interface of
 * runtime/launch/cmd/cmd.h. */
#pragma once

#include <stddef.h>

#include "runtime/launch/options/command.h"

int cluster_cmd_cluster_train(int argc, char **argv);
int cluster_cmd_pserver(int argc, char **argv);
int cluster_cmd_train(int argc, char **argv);
int cluster_cmd_mpi(int argc, char **argv);

/* The path of paddle-pserver in this program's directory; its bare name if it is not there. */
void cluster_pserver_path(char *ret, size_t size);
