/* `paddlerun cluster_train`: starts a job of Paddle 0.8 to 0.12 on the hosts of a conf.py, over
 * ssh. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"
#include "runtime/legacy/cluster/legacy_commands.h"
#include "runtime/legacy/cluster/ssh_job.h"

static const char usage[] =
    "paddlerun cluster_train -j DIR | -p DIR [flags] [--flag=value...]\n\n"
    "Starts a server and a trainer on every host of a conf.py by ssh, and ends when training has.\n"
    "Flags that are not listed here are the trainers'.";

static struct cluster_options options;
static const char *conf_path;

static const struct co_flag flags[] = {
    {"job_workspace", CO_FLAG_STR, &options.workspace,
        .help = "directory of the job, on all hosts already; also -j"},
    {"job_dispatch_package", CO_FLAG_STR, &options.package,
        .help = "directory here, copied to ROOT_DIR/JOB<time> on all hosts; also -p"},
    {"conf", CO_FLAG_STR, &conf_path, "conf.py",
        .help = "HOSTS, ROOT_DIR, PADDLE_NIC, PADDLE_PORT, PADDLE_PORTS_NUM, "
                "PADDLE_PORTS_NUM_FOR_SPARSE, LD_LIBRARY_PATH; a conf.py (read, never executed) "
                "or the same names in a .yaml"},
    {"ssh", CO_FLAG_STR, &options.ssh, "ssh",
        .help = "command that reaches a host, words apart by blanks"},
    {"paddle", CO_FLAG_STR, &options.paddle, "paddlerun",
        .help = "program on the hosts whose `pserver` and `train` are started"},
    {"connect", CO_FLAG_DURATION, &options.connect_ms, "60s",
        .help = "how long ssh is tried on a host that it does not reach"},
    {"server-ready", CO_FLAG_DURATION, &options.ready_ms, "60s",
        .help = "time for all servers to listen, once ssh has reached all hosts"},
    {"server-grace", CO_FLAG_DURATION, &options.grace_ms, "10s",
        .help = "time for servers to end by themselves once all trainers have"},
    {"grace", CO_FLAG_DURATION, &options.stop_ms, "10s", .help = "SIGTERM to SIGKILL on the hosts"},
};

static bool is_flag(const char *word, const char *name) {
    size_t n = strlen(name);
    word += word[1] == '-' ? 2 : 1;
    return strncmp(word, name, n) == 0 && (word[n] == '=' || word[n] == '\0');
}

/* How many words of argv one of our own flags takes; 0: the word is no flag of ours. */
static int own_words(const char *word, bool *ret_short) {
    *ret_short = strcmp(word, "-j") == 0 || strcmp(word, "-p") == 0;
    if (*ret_short) {
        return 2;
    }
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        return 1;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(flags); i++) {
        if (word[0] == '-' && is_flag(word, flags[i].name)) {
            return strchr(word, '=') ? 1 : 2;
        }
    }
    return 0;
}

/* Keeps our own words in argv and moves the trainers' words to theirs. */
static void divide(int *argc, char **argv, char **theirs, size_t *ret_n) {
    int to = 1;
    for (int i = 1; i < *argc; i++) {
        bool is_short = false;
        int n = own_words(argv[i], &is_short);
        if (!n) {
            theirs[(*ret_n)++] = argv[i];
        } else if (is_short) {
            argv[i] =
                (char *)(strcmp(argv[i], "-j") == 0 ? "--job_workspace" : "--job_dispatch_package");
        }
        for (int k = 0; k < n && i + k < *argc; k++) {
            argv[to++] = argv[i + k];
        }
        i += n ? n - 1 : 0;
    }
    argv[to] = NULL;
    *argc = to;
}

static int check_options(struct co_err *err) {
    struct stat st;
    options.workspace = options.workspace && *options.workspace ? options.workspace : NULL;
    options.package = options.package && *options.package ? options.package : NULL;
    if (!options.workspace == !options.package) {
        return co_err_set(err, CO_INVALID, "%s",
            options.workspace ? "both --job_workspace and --job_dispatch_package are set, "
                                "expected one of them"
                              : "--job_workspace or --job_dispatch_package should be set");
    }
    if (options.workspace && *options.workspace != '/') {
        return co_err_set(err, CO_INVALID,
            "--job_workspace is \"%.200s\", expected an absolute "
            "path, as it is on all hosts",
            options.workspace);
    }
    if (options.package && (stat(options.package, &st) < 0 || !S_ISDIR(st.st_mode))) {
        return co_err_set(err, CO_INVALID,
            "--job_dispatch_package is \"%.200s\", expected a directory", options.package);
    }
    for (size_t i = 0; i < options.n_train_flags; i++) {
        if (strncmp(options.train_flags[i], "--", 2) != 0) {
            return co_err_set(
                err, CO_INVALID, "\"%.100s\", expected --flag=value", options.train_flags[i]);
        }
    }
    return 0;
}

int cluster_cmd_cluster_train(int argc, char **argv) {
    CO_AUTOFREE char **theirs = co_xcalloc((size_t)argc + 1, sizeof(char *));
    CO_CLEANUP(cluster_conf_done) struct cluster_conf conf = {.n_hosts = 0};
    struct co_err err = {0};
    int rest = 0, code = 0;
    divide(&argc, argv, theirs, &options.n_train_flags);
    options.train_flags = theirs;
    if (!options_command_flags(usage, flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &code)) {
        return code;
    }
    const bool bad = check_options(&err) || cluster_conf_load(conf_path, &conf, &err);
    if (bad || cluster_run(&conf, &options, &code, &err)) {
        (void)fprintf(stderr, "paddlerun cluster_train: %s\n", co_err_text(&err));
        return bad ? OPTIONS_USAGE : 1;
    }
    return code;
}
