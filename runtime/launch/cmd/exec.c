/* `paddlerun exec`: the first process of a container (runtime/launch/process/first.h). */
#include <stdio.h>

#include "common/contract.h"
#include "common/mem.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/launch/process/first.h"
#include "runtime/launch/process/termination.h"

int cmd_exec(int argc, char **argv) {
    struct proc_first_options options = {0};
    const struct co_flag flags[] = {
        {"grace", CO_FLAG_DURATION, &options.grace_ms, "5s",
            .help = "once the program has ended, time for processes that it left behind to end "
                    "by themselves"},
        {"termination-log", CO_FLAG_STR, &options.termination_log, PROC_TERMINATION_LOG,
            .help = "file that gets the last lines of stderr when the program fails, if it is "
                    "there and empty"},
    };
    int first = 0, code = 0;
    if (!options_command_flags("paddlerun exec [flags] -- PROGRAM [ARG...]", flags,
            sizeof(flags) / sizeof(flags[0]), argc, argv, &first, &code)) {
        return code;
    }
    if (first >= argc) {
        (void)fprintf(stderr, "paddlerun exec: no program given, expected: paddlerun exec -- "
                              "PROGRAM [ARG...]\n");
        return OPTIONS_USAGE;
    }
    const char *set = co_contract_getenv(CO_VAR_TRAINING_END);
    CO_AUTOFREE char *address = set ? co_xstrdup(set) : NULL;
    /* Only this process asks, no paddlerun that the program starts. */
    (void)unsetenv(co_contract[CO_VAR_TRAINING_END].name);
    options.training_end = address;
    struct co_err err = {0};
    proc_first_run(argv + first, &options, &code, &err);
    if (err.code) {
        (void)fprintf(stderr, "paddlerun exec: %s\n", err.msg);
    }
    return code;
}
