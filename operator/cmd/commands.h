/* The subcommands of paddle-operator: rows of a table in commands.c.  Each takes its own argv
 * (argv[0] is the subcommand's name) and returns the exit code: 0 done, 1 failed, 2 wrong use. */
#pragma once

#include <stddef.h>

struct opc_command {
    const char *name;
    int (*run)(int argc, char *argv[]);
    const char *summary; /* NULL: not listed */
};
/* The i-th; NULL behind the last. */
const struct opc_command *opc_command_at(size_t i);

/* The program: finds the command in argv and runs it. */
int opc_cmd(int argc, char *argv[]);

int opc_cmd_run(int argc, char *argv[]);
int opc_cmd_render(int argc, char *argv[]);
int opc_cmd_validate(int argc, char *argv[]);
int opc_cmd_convert(int argc, char *argv[]);
int opc_cmd_version(int argc, char *argv[]);
int opc_cmd_docs(int argc, char *argv[]);
