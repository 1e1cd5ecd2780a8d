/* Flags, help and errors of a subcommand.  See command.h. */
#include "runtime/launch/options/command.h"

#include <stdio.h>

static bool judge(const char *usage, const struct co_flag *flags, size_t n, const char *name, int r,
    const struct co_err *err, int *ret_code) {
    if (r == 0) {
        return true;
    }
    if (r == CO_CANCELED) {
        co_flags_help(stdout, usage, flags, n);
        *ret_code = 0;
    } else {
        (void)fprintf(stderr, "paddlerun %s: %s\n", name, co_err_text(err));
        *ret_code = OPTIONS_USAGE;
    }
    return false;
}

bool options_command_flags(const char *usage, const struct co_flag *flags, size_t n, int argc,
    char **argv, int *ret_rest, int *ret_code) {
    struct co_err err = {0};
    int r = co_flags_parse(flags, n, argc, argv, ret_rest, &err);
    return judge(usage, flags, n, argv[0], r, &err, ret_code);
}

bool options_command_words(const char *usage, const struct co_flag *flags, size_t n, int argc,
    char **argv, int *ret_rest, int *ret_code) {
    struct co_err err = {0};
    int r = co_flags_parse_among(flags, n, argc, argv, ret_rest, &err);
    return judge(usage, flags, n, argv[0], r, &err, ret_code);
}
