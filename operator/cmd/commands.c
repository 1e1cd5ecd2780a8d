/* The subcommands of paddle-operator: one row each, and `version`. */
#include "operator/cmd/commands.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/version.h"

static const struct opc_command commands[] = {
    {"run", opc_cmd_run, "watch PaddleJobs and carry them out (also without a command)"},
    {"render", opc_cmd_render, "print the pods, Services and ConfigMaps that a job would get"},
    {"validate", opc_cmd_validate, "check job files, with line numbers"},
    {"convert", opc_cmd_convert, "print jobs of Kubeflow and PaddleCloud as this operator's"},
    {"version", opc_cmd_version, "print the version"},
    {"docs", opc_cmd_docs, NULL},
};

const struct opc_command *opc_command_at(size_t i) {
    return i < CO_ARRAY_LEN(commands) ? &commands[i] : NULL;
}

static void print_usage(FILE *out) {
    (void)fprintf(out, "usage: paddle-operator [command] [flags]\n\n");
    for (size_t i = 0; i < CO_ARRAY_LEN(commands); i++) {
        if (commands[i].summary) {
            (void)fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
        }
    }
    (void)fprintf(out, "\nEvery command explains itself with --help.\n");
}

int opc_cmd_version(int argc, char *argv[]) {
    if (argc > 1 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0) {
        (void)fprintf(stderr,
            "paddle-operator version: \"%s\" is one word too many, expected none\n", argv[1]);
        return 2;
    }
    (void)printf("paddle-operator %s\n", co_version);
    return 0;
}

int opc_cmd(int argc, char *argv[]) {
    /* Upstream's manifests start the program with flags alone. */
    if (argc < 2 || argv[1][0] == '-') {
        return opc_cmd_run(argc, argv);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    (void)fprintf(stderr, "paddle-operator: \"%s\" is not a command\n", argv[1]);
    print_usage(stderr);
    return 2;
}
