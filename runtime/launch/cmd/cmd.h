/* paddlerun's subcommands: each its own file and its own flags; main.c has the table.
 * A subcommand gets its own name as argv[0] and returns paddlerun's exit code; RL_USAGE: the
 * command line or the environment is wrong, which it has then said in one line on stderr. */
#pragma once

#include "runtime/launch/options/command.h"

int rl_cmd_exec(int argc, char **argv);
int rl_cmd_local(int argc, char **argv);
int rl_cmd_launch(int argc, char **argv);
int rl_cmd_docs(int argc, char **argv);
int rl_cmd_info(int argc, char **argv);
