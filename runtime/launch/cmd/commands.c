/* The table of paddlerun's subcommands, and `paddlerun help`.  See commands.h. */
#include "runtime/launch/cmd/commands.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/version.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/legacy/cluster/cmd.h"

static int cmd_version(int argc, char **argv) {
    (void)argc;
    (void)argv;
    (void)printf("paddlerun %s\n", co_version);
    return 0;
}

static int cmd_help(int argc, char **argv);

const struct rl_command rl_commands[RL_COMMAND_COUNT] = {
    {"launch", "fleetrun", "start this node's training processes, as Paddle's launchers do",
        rl_cmd_launch},
    {"exec", NULL, "run a program as a container's first process: signals, orphans, exit code",
        rl_cmd_exec, .says = true},
    {"local", NULL, "run a rendered job as processes on this machine", rl_cmd_local, .says = true},
    {"info", NULL,
        "what this process's environment says: role, peers, which of them are reachable; "
        "with an address: the state of that server or trainer",
        rl_cmd_info, .says = true},
    {"ckpt", NULL, "inspect checkpoints: ls, show, verify, diff, export, merge", rl_cmd_ckpt},
    {"top", NULL, "a live table of servers and trainers, from their metrics", rl_cmd_top,
        .says = true},
    {"cluster_train", NULL, "a server and a trainer on every host of a conf.py, by ssh",
        rl_cmd_cluster_train, .says = true},
    {"pserver", NULL, "parameter server of Paddle 0.8 to 0.12, by its flags", rl_cmd_pserver},
    {"train", NULL, "a training program that gets its role by the flags of `paddle train`",
        rl_cmd_train},
    {"mpi", "k8s", "a node of a job that mpirun, srun or plain Kubernetes started", rl_cmd_mpi,
        .says = true},
    {"docs", NULL, "print a reference page", rl_cmd_docs},
    {"version", NULL, "print the version", cmd_version},
    {"help", NULL, "print this; COMMAND --help lists a command's flags", cmd_help},
};

static int cmd_help(int argc, char **argv) {
    (void)argc;
    (void)argv;
    (void)puts("Usage: paddlerun COMMAND [flags] [words]\n\nCommands:");
    for (size_t i = 0; i < RL_COMMAND_COUNT; i++) {
        (void)printf("  %-14s %s\n", rl_commands[i].name, rl_commands[i].summary);
    }
    (void)puts("\nAs a container's first process, words that are no command are run as "
               "`paddlerun exec --` would.");
    return 0;
}

int rl_command_find(const char *name) {
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    base += strspn(base, "-"); /* --version, --help, -h */
    for (size_t i = 0; i < RL_COMMAND_COUNT; i++) {
        if (strcmp(rl_commands[i].name, base) == 0 || co_streq(rl_commands[i].alias, base)) {
            return (int)i;
        }
    }
    return strcmp(base, "h") == 0 ? rl_command_find("help") : -1;
}
