/* What every subcommand of paddlerun does with its flags, and the exit code of wrong use. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/flag.h"

enum { RL_USAGE = 2 }; /* exit code: the command line or the environment is wrong */

/* True, with the index of the first word behind the flags; false, after --help or a message, with
 * the exit code to return. */
CO_MUST_CHECK bool rl_command_flags(const char *usage, const struct co_flag *flags, size_t n,
    int argc, char **argv, int *ret_rest, int *ret_code);
