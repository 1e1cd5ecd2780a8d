#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/launch/node/launch.h"
#include "runtime/launch/process/termination.h"

enum { HELP_MAX = 1 << 20 };

static const char *from_environ(void *arg, const char *name) {
    (void)arg;
    return getenv(name);
}

int rt_cmd_launch(int argc, char **argv) {
    struct rt_options o = {.format = RT_FORMAT_3};
    struct co_err err = {0};
    int r = rt_options_parse(argc, argv, from_environ, NULL, &o, &err);
    if (r == CO_CANCELED) {
        CO_AUTOBUF struct co_buf b = CO_BUF(HELP_MAX);
        r = rt_options_help(&b, &err);
        (void)fputs(b.data ? b.data : "", stdout);
        return r ? 1 : 0;
    }
    if (r) {
        (void)fprintf(stderr, "paddlerun launch: error: %s\n", co_err_text(&err));
        rt_termination_write(RT_TERMINATION_LOG, "", co_err_text(&err));
        return RT_CMD_USAGE;
    }
    int code = rt_launch_run(&o, argc, argv);
    rt_options_done(&o);
    return code;
}

int rt_cmd_docs(int argc, char **argv) {
    CO_AUTOBUF struct co_buf b = CO_BUF(HELP_MAX);
    if (argc != 2 || strcmp(argv[1], "launch") != 0 || rt_options_markdown(&b, NULL)) {
        (void)fputs("Usage: paddlerun docs launch\n", stderr);
        return RT_CMD_USAGE;
    }
    (void)fputs(b.data, stdout);
    return 0;
}
