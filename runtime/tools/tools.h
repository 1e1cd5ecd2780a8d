/* Subcommands of paddlerun that look at training data and at processes that train: checkpoints, the
 * environment, metrics.  Called and answered as those of runtime/launch/cmd/cmd.h are. */
#pragma once

#include "runtime/launch/options/command.h"

int tool_ckpt(int argc, char **argv);
/* The i-th command of ckpt, and its help text; NULL: there are no more. */
const char *tool_ckpt_command(size_t i, const char **ret_help);
int tool_check(int argc, char **argv);
int tool_version(int argc, char **argv);
int tool_info(int argc, char **argv);
int tool_top(int argc, char **argv);
/* Prints the table of `paddlerun top` once for n servers and trainers; returns an exit code. */
int tool_look(char **targets, int n, int64_t timeout_ms);
