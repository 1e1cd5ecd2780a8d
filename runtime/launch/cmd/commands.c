/* The table of paddlerun's subcommands, and `paddlerun help`.  See commands.h. */
#include "runtime/launch/cmd/commands.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/near.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/legacy/cluster/legacy_commands.h"
#include "runtime/tools/tools.h"

static int cmd_help(int argc, char **argv);

const struct cmd_command cmd_commands[CMD_COMMAND_COUNT] = {
    {"launch", "fleetrun", "start this node's training processes, as Paddle's launchers do",
        cmd_launch},
    {"torchrun", NULL, "the same by torchrun's options, with its defaults", cmd_torchrun,
        .says = true},
    {"exec", NULL, "run a program as a container's first process: signals, orphans, exit code",
        cmd_exec, .says = true},
    {"local", NULL, "run a rendered job as processes on this machine", cmd_local, .says = true},
    {"info", NULL,
        "what this process's environment says: role, peers, which of them are reachable; "
        "with an address: the state of that server or trainer",
        tool_info, .says = true},
    {"check", NULL, "try in seconds whether this machine, or this container, can train", tool_check,
        .says = true},
    {"ckpt", NULL, "inspect checkpoints: ls, show, verify, diff, export, merge", tool_ckpt},
    {"top", NULL, "a live table of servers and trainers, from their metrics", tool_top,
        .says = true},
    {"cluster_train", NULL, "a server and a trainer on every host of a conf.py, by ssh",
        cluster_cmd_cluster_train, .says = true},
    {"pserver", NULL, "parameter server of Paddle 0.8 to 0.12, by its flags", cluster_cmd_pserver},
    {"train", NULL, "a training program that gets its role by the flags of `paddle train`",
        cluster_cmd_train},
    {"mpi", "k8s", "a node of a job that mpirun, srun or plain Kubernetes started", cluster_cmd_mpi,
        .says = true},
    {"docs", NULL, "print a reference page", cmd_docs},
    {"version", NULL, "print the version; -v: and how it was built", tool_version, .says = true},
    {"help", NULL, "print this; COMMAND --help lists a command's flags", cmd_help},
};

static int cmd_help(int argc, char **argv) {
    (void)argc;
    (void)argv;
    (void)puts("Usage: paddlerun COMMAND [flags] [words]\n\nCommands:");
    for (size_t i = 0; i < CMD_COMMAND_COUNT; i++) {
        (void)printf("  %-14s %s\n", cmd_commands[i].name, cmd_commands[i].summary);
    }
    (void)puts("\nAs a container's first process, words that are no command are run as "
               "`paddlerun exec --` would.");
    return 0;
}

int cmd_command_find(const char *name) {
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    base += strspn(base, "-"); /* --version, --help, -h */
    for (size_t i = 0; i < CMD_COMMAND_COUNT; i++) {
        if (strcmp(cmd_commands[i].name, base) == 0 || co_streq(cmd_commands[i].alias, base)) {
            return (int)i;
        }
    }
    return strcmp(base, "h") == 0 ? cmd_command_find("help") : -1;
}

const char *cmd_command_near(const char *word) {
    struct co_near near = co_near_begin(word, strlen(word));
    const char *meant = NULL;
    for (size_t i = 0; i < CMD_COMMAND_COUNT; i++) {
        meant = co_near_try(&near, cmd_commands[i].name) ? cmd_commands[i].name : meant;
    }
    return meant;
}
