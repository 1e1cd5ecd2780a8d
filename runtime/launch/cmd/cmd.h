/* paddlerun's subcommands.  Each has a file and flags of its own; commands.c has the table of them.
 * A subcommand gets its name as argv[0] and returns paddlerun's exit code.  OPTIONS_USAGE: the
 * command line or the environment is wrong, and a one-line message is on stderr. */
#pragma once

#include "runtime/launch/options/command.h"

int cmd_exec(int argc, char **argv);
int cmd_local(int argc, char **argv);
int cmd_launch(int argc, char **argv);
int cmd_docs(int argc, char **argv);
int cmd_ckpt(int argc, char **argv);
/* The i-th command of ckpt, and its help text; NULL: there are no more. */
const char *cmd_ckpt_command(size_t i, const char **ret_help);
int cmd_info(int argc, char **argv);
int cmd_top(int argc, char **argv);
/* Prints the table of `paddlerun top` once for n servers and trainers; returns an exit code. */
int cmd_look(char **targets, int n, int64_t timeout_ms);
