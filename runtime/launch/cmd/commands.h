/* The table of paddlerun's subcommands. */
#pragma once

#include <stdbool.h>

struct cmd_command {
    const char *name, *alias, *summary;
    int (*run)(int argc, char **argv);
    /* `NAME --help` lists the command's flags, so the manual can be made from it.  False: it has no
     * flags, or flags of another kind. */
    bool says;
};

enum { CMD_COMMAND_COUNT = 15 };
extern const struct cmd_command cmd_commands[CMD_COMMAND_COUNT];

/* Finds a command by its name, its alias, or a path that ends with one of them; -1: none. */
int cmd_command_find(const char *name);
/* The command's name that the word is nearest to; NULL: none is near. */
const char *cmd_command_near(const char *word);
