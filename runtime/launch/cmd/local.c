/* `paddlerun local`: runs the pods of a rendered job as processes on this machine
 * (runtime/launch/local). */
#include "runtime/launch/local/local.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/contract.h"
#include "common/mem.h"
#include "common/token.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/launch/local/pods.h"

enum { INPUT_MAX = 64 << 20, IMAGES_MAX = 64 };

static const char usage[] = "paddlerun local [flags] [FILE|-]\n\n"
                            "Runs the pods of a job as processes on this machine:\n"
                            "    paddle-operator render job.yaml | paddlerun local\n"
                            "Ctrl-C ends all of them; the exit code is the job's.";

struct images {
    struct local_image item[IMAGES_MAX];
    size_t n;
};

/* Takes every --image NAME=COMMAND out of argv, as a row of flags can hold only one value. */
static int take_images(int *argc, char **argv, struct images *ret, struct co_err *err) {
    int to = 1;
    for (int i = 1; i < *argc; i++) {
        const char *word = argv[i];
        const char *name = word[0] == '-' ? word + 1 + (word[1] == '-') : "";
        bool joined = strncmp(name, "image=", 6) == 0;
        if (!joined && strcmp(name, "image") != 0) {
            argv[to++] = argv[i];
            continue;
        }
        char *value = joined ? strchr(argv[i], '=') + 1 : i + 1 < *argc ? argv[++i] : NULL;
        char *eq = value ? strchr(value, '=') : NULL;
        if (!eq || eq == value || !eq[1] || ret->n == IMAGES_MAX) {
            return co_err_set(err, CO_INVALID,
                "--image is \"%.100s\", expected NAME=COMMAND, at most %d times",
                value ? value : "", (int)IMAGES_MAX);
        }
        *eq = '\0';
        ret->item[ret->n++] = (struct local_image){.name = value, .command = eq + 1};
    }
    argv[to] = NULL;
    *argc = to;
    return 0;
}

/* Whether to colour what goes to fd: --color. */
static int read_colour(const char *word, int fd, bool *ret, struct co_err *err) {
    const bool automatic = strcmp(word, "auto") == 0, always = strcmp(word, "always") == 0;
    if (!automatic && !always && strcmp(word, "never") != 0) {
        return co_err_set(
            err, CO_INVALID, "--color is \"%.100s\", expected auto, always or never", word);
    }
    *ret = always || (automatic && isatty(fd) && !co_contract_getenv_of("NO_COLOR"));
    return 0;
}

static int read_input(const char *file, struct co_buf *ret, struct co_err *err) {
    bool in = strcmp(file, "-") == 0;
    if (in && isatty(STDIN_FILENO)) {
        return co_err_set(err, CO_INVALID,
            "stdin is a terminal, expected pods: paddle-operator render FILE | paddlerun local");
    }
    return co_file_read(in ? "/dev/stdin" : file, INPUT_MAX, ret, err);
}

/* The folder of this program, in which its sister programs are, too. */
static const char *bin_dir(char path[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    return dirname(path);
}

static int local(const char *file, const char *colour, const struct images *images,
    struct local_options *options, int *ret_code, struct co_err *err) {
    CO_TRY(read_colour(colour, options->out, &options->colour, err));
    CO_AUTOBUF struct co_buf text = CO_BUF(INPUT_MAX);
    CO_AUTOCLOSE int lock = -1;
    unsigned block = 0;
    CO_TRY(read_input(file, &text, err));
    CO_TRY(local_block(&block, &lock, err));
    CO_AUTOFREE char *token = NULL;
    CO_TRY(co_token_new(&token, err));
    char path[PATH_MAX];
    struct local_pods_options read = {.images = images->item,
        .n_images = images->n,
        .bin_dir = bin_dir(path),
        .token = token,
        .block = block,
        .envp = environ};
    CO_CLEANUP(local_pods_done) struct local_pods pods = {0};
    const char *name = strcmp(file, "-") == 0 ? "stdin" : file;
    CO_TRY(local_pods_read(name, text.data ? text.data : "", text.len, &read, &pods, err));
    return local_run(&pods, options, ret_code, err);
}

int cmd_local(int argc, char **argv) {
    struct local_options options = {.out = STDOUT_FILENO};
    bool says_grace = false;
    const char *image = NULL, *colour = NULL;
    const struct co_flag flags[] = {
        {"image", CO_FLAG_STR, &image, .metavar = "NAME=COMMAND",
            .help = "command of an image, for pods without a command of their own; may be "
                    "repeated; paddlejob/runtime is built in"},
        {"grace", CO_FLAG_DURATION, &options.grace_ms, .given = &says_grace,
            .help = "time between SIGTERM and SIGKILL when pods are stopped; otherwise their "
                    "longest terminationGracePeriodSeconds, or 10 s where none says it"},
        {"server-grace", CO_FLAG_DURATION, &options.server_grace_ms, "30s",
            .help = "time for servers to end by themselves once all workers have succeeded"},
        {"color", CO_FLAG_STR, &colour, "auto", .metavar = "auto|always|never",
            .help = "colours; auto: on a terminal"},
    };
    struct co_err err = {0};
    struct images images = {.n = 0};
    int rest = 0, code = 0;
    int r = take_images(&argc, argv, &images, &err);
    if (!r && !options_command_words(usage, flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &code)) {
        return code;
    }
    options.grace_ms = says_grace ? options.grace_ms : -1;
    if (!r && rest + 1 < argc) {
        r = co_err_set(&err, CO_INVALID, "one file at most, got \"%.100s\", too", argv[rest + 1]);
    }
    if (!r) {
        r = local(rest < argc ? argv[rest] : "-", colour, &images, &options, &code, &err);
    }
    if (r) {
        (void)fprintf(stderr, "paddlerun local: %s\n", co_err_text(&err));
        return r == CO_INVALID || r == CO_NOTFOUND ? OPTIONS_USAGE : 1;
    }
    return code;
}
