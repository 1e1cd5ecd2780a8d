/* `paddlerun top`: a live table of servers and trainers, and `paddlerun info HOST:PORT`, which
 * prints it once.  The table is in runtime/launch/top; this file has the flags. */
#include <stdio.h>

#include "common/mem.h"
#include "runtime/tools/tools.h"
#include "runtime/tools/top/top.h"

static int run(const char *command, const struct top_options *o) {
    struct co_err err = {0};
    int rc = top_run(o, &err);
    if (rc < 0) {
        (void)fprintf(stderr, "paddlerun %s: %s\n", command, co_err_text(&err));
    }
    return rc == CO_INVALID ? OPTIONS_USAGE : rc < 0 ? 1 : 0;
}

int tool_look(char **targets, int n, int64_t timeout_ms) {
    struct top_options o = {.targets = (const char *const *)targets,
        .n = (size_t)n,
        .count = 1,
        .timeout_ms = timeout_ms > 0 ? timeout_ms : 1,
        .life = true};
    return run("info", &o);
}

int tool_top(int argc, char **argv) {
    struct top_options o = {0};
    const struct co_flag flags[] = {
        {"n", CO_FLAG_STR, &o.space, .metavar = "NAMESPACE",
            .help = "namespace of JOB; default: that of kubectl's context"},
        {"interval", CO_FLAG_DURATION, &o.interval_ms, "2s", .help = "time between two updates"},
        {"count", CO_FLAG_INT, &o.count, .max = INT32_MAX,
            .help = "number of updates; 0: until q or Ctrl-C"},
        {"timeout", CO_FLAG_DURATION, &o.timeout_ms, "2s", .help = "how long to wait for answers"},
    };
    int rest = 0, code = 0;
    if (!options_command_words("paddlerun top [flags] JOB|HOST:PORT|http://HOST:PORT/PATH...",
            flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &code)) {
        return code;
    }
    if (rest >= argc || argc - rest > TOP_TARGETS || o.interval_ms < 100) {
        (void)fprintf(stderr,
            rest >= argc
                ? "paddlerun top: no address given, expected a job or HOST:PORT of /metrics\n"
            : o.interval_ms < 100 ? "paddlerun top: --interval is below 100ms\n"
                                  : "paddlerun top: too many addresses\n");
        return OPTIONS_USAGE;
    }
    o.targets = (const char *const *)(argv + rest);
    o.n = (size_t)(argc - rest);
    return run("top", &o);
}
