/* paddlerun's subcommands.  Each has a file and flags of its own; commands.c has the table of them.
 * A subcommand gets its name as argv[0] and returns paddlerun's exit code.  OPTIONS_USAGE: the
 * command line or the environment is wrong, and a one-line message is on stderr. */
#pragma once

#include "runtime/launch/options/command.h"

int cmd_exec(int argc, char **argv);
int cmd_local(int argc, char **argv);
int cmd_launch(int argc, char **argv);
int cmd_torchrun(int argc, char **argv);
int cmd_docs(int argc, char **argv);
