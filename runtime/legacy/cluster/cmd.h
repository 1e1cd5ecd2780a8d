/* The subcommands that exist for Paddle 0.8 to 0.12; like those of runtime/launch/cmd/cmd.h. */
#pragma once

#include <stddef.h>

#include "runtime/launch/options/command.h"

int rl_cmd_cluster_train(int argc, char **argv);
int rl_cmd_pserver(int argc, char **argv);
int rl_cmd_train(int argc, char **argv);
int rl_cmd_mpi(int argc, char **argv);

/* Path of a program that stands beside this one; its bare name when it does not. */
void rl_legacy_program(const char *name, char *ret, size_t size);
