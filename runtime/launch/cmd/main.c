/* paddlerun: one binary with many subcommands.  main only finds the one to run: by the name of the
 * program, or by the first word.  As PID 1 of a container, a word that is no command is run as a
 * program (`paddlerun exec`). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/stdio.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/launch/cmd/commands.h"

static int run(int argc, char **argv) {
    int as = argc > 0 ? cmd_command_find(argv[0]) : -1; /* run under a command's name: fleetrun */
    if (as >= 0) {
        return cmd_commands[as].run(argc, argv);
    }
    int i = argc > 1 && !strchr(argv[1], '/') ? cmd_command_find(argv[1]) : -1;
    if (i >= 0) {
        return cmd_commands[i].run(argc - 1, argv + 1);
    }
    if (argc > 1 && getpid() == 1) {
        argv[0] = (char *)"exec";
        return cmd_exec(argc, argv);
    }
    if (argc > 1) {
        const char *meant = cmd_command_near(argv[1]);
        (void)fprintf(stderr, "paddlerun: no command \"%.100s\"%s%s%s; paddlerun help lists them\n",
            argv[1], meant ? ": did you mean " : "", meant ? meant : "", meant ? "?" : "");
    } else {
        (void)fprintf(stderr, "paddlerun: no command; paddlerun help lists them\n");
    }
    return OPTIONS_USAGE;
}

int main(int argc, char **argv) {
    co_stdio_begin();
    return co_stdio_close("paddlerun", run(argc, argv));
}
