/* paddlerun's subcommands: each its own file and its own flags; main.c has the table.
 * A subcommand gets its own name as argv[0] and returns paddlerun's exit code; 2: the command
 * line or the environment is wrong, which it has then said in one line on stderr. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/flag.h"

enum { RL_CMD_USAGE = 2 };

int rl_cmd_exec(int argc, char **argv);
int rl_cmd_local(int argc, char **argv);
int rl_cmd_launch(int argc, char **argv);
int rl_cmd_docs(int argc, char **argv);
int rl_cmd_info(int argc, char **argv);
int rl_cmd_cluster_train(int argc, char **argv);
int rl_cmd_pserver(int argc, char **argv);
int rl_cmd_train(int argc, char **argv);
int rl_cmd_mpi(int argc, char **argv);

/* True, with the index of the first word behind the flags; false, after --help or a message, with
 * the exit code to return. */
CO_MUST_CHECK bool rl_cmd_flags(const char *usage, const struct co_flag *flags, size_t n, int argc,
    char **argv, int *ret_rest, int *ret_code);

/* Path of a program that stands beside this one; its bare name when it does not. */
void rl_cmd_beside(const char *program, char *ret, size_t size);
