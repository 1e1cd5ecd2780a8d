/* Parses the flags of paddlerun's subcommands, all of which handle --help and errors alike. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/flag.h"

enum { OPTIONS_USAGE = 2 }; /* exit code: the command line or the environment is wrong */

/* For commands whose words are a program's command line: flags end at the first word.
 * Returns true, with the index of the first word behind the flags.  Returns false after it has
 * printed the help or an error message, with the exit code that the subcommand must return. */
CO_MUST_CHECK bool options_command_flags(const char *usage, const struct co_flag *flags, size_t n,
    int argc, char **argv, int *ret_rest, int *ret_code);
/* The same for all others: flags may stand among the words, which are moved to the end of argv. */
CO_MUST_CHECK bool options_command_words(const char *usage, const struct co_flag *flags, size_t n,
    int argc, char **argv, int *ret_rest, int *ret_code);
