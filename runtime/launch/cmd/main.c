/* paddlerun: one binary, many commands.  Only wiring here. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

static const struct {
    const char *name, *alias, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"launch", "fleetrun", "start this node's training processes, as Paddle's launchers do",
        rl_cmd_launch},
    {"exec", NULL, "run a program as a container's first process: signals, orphans, exit code",
        rl_cmd_exec},
    {"local", NULL, "run a rendered job as processes on this machine", rl_cmd_local},
    {"info", NULL, "what this process's environment makes of it: role, peers, who is reachable",
        rl_cmd_info},
    {"cluster_train", NULL, "a server and a trainer on every host of a conf.py, by ssh",
        rl_cmd_cluster_train},
    {"pserver", NULL, "parameter server of 0.8 to 0.12: ports and a number of trainers",
        rl_cmd_pserver},
    {"train", NULL, "a training program, told its place by the flags of `paddle train`",
        rl_cmd_train},
    {"mpi", "k8s", "a node of a job that mpirun, srun or plain Kubernetes started", rl_cmd_mpi},
    {"docs", NULL, "print a reference page", rl_cmd_docs},
    {"version", NULL, "print the version", cmd_version},
    {"help", NULL, "print this; COMMAND --help tells a command's flags", cmd_help},
};

static int cmd_help(int argc, char **argv) {
    (void)argc;
    (void)argv;
    (void)puts("Usage: paddlerun COMMAND [flags] [words]\n\nCommands:");
    for (size_t i = 0; i < CO_ARRAY_LEN(commands); i++) {
        (void)printf("  %-14s %s\n", commands[i].name, commands[i].summary);
    }
    (void)puts("\nAs a container's first process, words that are no command are run as "
               "`paddlerun exec --` would.");
    return 0;
}

static int find_command(const char *name) {
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    base += strspn(base, "-"); /* --version, --help, -h */
    for (size_t i = 0; i < CO_ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, base) == 0 || co_streq(commands[i].alias, base)) {
            return (int)i;
        }
    }
    return strcmp(base, "h") == 0 ? find_command("help") : -1;
}

/* A standard stream that was closed would be the first file that is opened, and what is said to
 * the user would go into it. */
static void hold_streams(void) {
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    co_closep(&fd);
}

int main(int argc, char **argv) {
    hold_streams();
    int as = argc > 0 ? find_command(argv[0]) : -1; /* under a command's name */
    if (as >= 0) {
        return commands[as].run(argc, argv);
    }
    int i = argc > 1 && !strchr(argv[1], '/') ? find_command(argv[1]) : -1;
    if (i >= 0) {
        return commands[i].run(argc - 1, argv + 1);
    }
    if (argc > 1 && getpid() == 1) {
        argv[0] = (char *)"exec";
        return rl_cmd_exec(argc, argv);
    }
    (void)fprintf(stderr,
        argc > 1 ? "paddlerun: no command \"%s\"; paddlerun help lists them\n"
                 : "paddlerun: no command; paddlerun help lists them\n",
        argc > 1 ? argv[1] : "");
    return RL_USAGE;
}
