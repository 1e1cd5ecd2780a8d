/* Flags, help and errors of a subcommand.  See command.h. */
#include <stdio.h>

#include "runtime/launch/options/command.h"

bool rl_command_flags(const char *usage, const struct co_flag *flags, size_t n, int argc,
    char **argv, int *ret_rest, int *ret_code) {
    struct co_err err = {0};
    int r = co_flags_parse(flags, n, argc, argv, ret_rest, &err);
    if (r == 0) {
        return true;
    }
    if (r == CO_CANCELED) {
        co_flags_help(stdout, usage, flags, n);
        *ret_code = 0;
    } else {
        (void)fprintf(stderr, "paddlerun %s: %s\n", argv[0], co_err_text(&err));
        *ret_code = RL_USAGE;
    }
    return false;
}
