/* `paddle pserver` and `paddle train` of 0.8 to 0.12. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/contract.h"
#include "common/mem.h"
#include "runtime/legacy/cluster/legacy_commands.h"

void cluster_pserver_path(char *ret, size_t size) {
    static const char name[] = "paddle-pserver";
    char self[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *slash = n > 0 ? strrchr(self, '/') : NULL;
    (void)snprintf(ret, size, "%.*s/%s", slash ? (int)(slash - self) : 0, self, name);
    if (!slash || access(ret, X_OK) < 0) {
        (void)snprintf(ret, size, "%s", name);
    }
}

/* The server is a separate program, because it loads libraries that a launcher does not need. */
int cluster_cmd_pserver(int argc, char **argv) {
    char path[PATH_MAX + 64];
    (void)argc;
    cluster_pserver_path(path, sizeof(path));
    (void)execvp(path, argv);
    (void)fprintf(stderr, "paddlerun pserver: cannot start %s: %s\n", path, strerror(errno));
    return errno == ENOENT ? 127 : 126;
}

/* "--num_passes=10" becomes PADDLE_INIT_NUM_PASSES=10 in the program's environment; a flag without
 * a value becomes "true". False: the word is no flag, and an error was printed. */
static bool pass_on(const char *word, const char **config) {
    if (strncmp(word, "--", 2) != 0 || !isalpha((unsigned char)word[2])) {
        (void)fprintf(stderr, "paddlerun train: \"%.100s\", expected --flag=value\n", word);
        return false;
    }
    const char *eq = strchrnul(word + 2, '=');
    const char *value = *eq ? eq + 1 : "true";
    CO_AUTOFREE char *name = co_xasprintf("PADDLE_INIT_%.*s", (int)(eq - word - 2), word + 2);
    for (char *c = name; *c; c++) {
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    }
    if (strcmp(name, "PADDLE_INIT_CONFIG") == 0) {
        *config = value;
    }
    return setenv(name, value, 1) == 0;
}

/* Where the documents say that a trainer's log is: the file that its output goes to, by its
 * other name. */
static void name_log(void) {
    const char *dir = co_contract_getenv_of("GLOG_log_dir");
    struct stat st;
    char file[PATH_MAX];
    ssize_t n = readlink("/proc/self/fd/1", file, sizeof(file) - 1);
    if (!dir || n <= 0 || fstat(STDOUT_FILENO, &st) < 0 || !S_ISREG(st.st_mode)) {
        return;
    }
    file[n] = '\0';
    CO_AUTOFREE char *link_path = co_xasprintf("%s/paddle_trainer.INFO", dir);
    (void)!symlink(file, link_path);
}

/* Whether this is a model's configuration of 0.8 to 0.12: Python for a library that no longer
 * exists.  The documents' jobs name one, and its traceback would say only what it cannot import. */
static bool is_model_config(const char *path) {
    CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
    return co_file_read(path, text.max, &text, NULL) == 0 && text.data &&
           strstr(text.data, "trainer_config_helpers");
}

/* The path of a name: a file of the job's directory, else a program of the PATH.  NULL, and errno:
 * there is none. */
static char *find_program(const char *config) {
    bool named = !strchr(config, '/');
    CO_AUTOFREE char *here = named ? co_xasprintf("./%s", config) : co_xstrdup(config);
    struct stat st;
    bool is_there = stat(here, &st) == 0;
    if (is_there && !S_ISDIR(st.st_mode)) {
        return co_steal_ptr(here);
    }
    int why = is_there ? EISDIR : errno;
    char *found = named ? co_path_find(config) : NULL;
    errno = why;
    return found;
}

/* The trainer must be a program that reads PADDLE_INIT_*. */
int cluster_cmd_train(int argc, char **argv) {
    const char *config = NULL;
    for (int i = 1; i < argc; i++) {
        if (!pass_on(argv[i], &config)) {
            return OPTIONS_USAGE;
        }
    }
    if (!config) {
        (void)fprintf(stderr, "paddlerun train: --config is not set, expected the training "
                              "program: an executable or a .py\n");
        return OPTIONS_USAGE;
    }
    bool python = co_ends_with(config, ".py") && access(config, X_OK) < 0;
    CO_AUTOFREE char *path = find_program(config);
    char *const run[] = {python ? (char *)"python3" : path, python ? path : NULL, NULL};
    if (!path) {
        (void)fprintf(stderr, "paddlerun train: --config is \"%.200s\": %s%s\n", config,
            strerror(errno), strchr(config, '/') ? "" : ", neither here nor in the PATH");
        return OPTIONS_USAGE;
    }
    if (python && is_model_config(path)) {
        (void)fprintf(stderr,
            "paddlerun train: --config is \"%.200s\", a model's configuration for Paddle 0.8 to "
            "0.12, expected the training program: an executable or a .py that trains by itself, as "
            "recommendation, the model of Paddle's demo (docs/cluster.md)\n",
            config);
        return OPTIONS_USAGE;
    }
    name_log();
    (void)execvp(run[0], run);
    (void)fprintf(
        stderr, "paddlerun train: cannot start \"%.200s\": %s\n", run[0], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
