/* `paddlerun launch`: parses the options and runs the launcher (runtime/launch/node/launch.h). */
#include "runtime/launch/node/launch.h"

#include <stdio.h>
#include <unistd.h>

#include "common/contract.h"
#include "common/mem.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/launch/process/termination.h"

enum { HELP_MAX = 1 << 20 };

static const char *from_environ(void *arg, const char *name) {
    (void)arg;
    return co_contract_getenv_of(name);
}

static void note_link(void *arg, const char *name, const char *value) {
    struct options *o = arg;
    (void)!co_buf_addf(&o->notes, NULL,
        "LAUNCH WARNING %s is \"%.100s\", as Kubernetes says it of a Service by that name: it is "
        "no "
        "setting here, and children do not get it\n",
        name, value);
}

int cmd_launch(int argc, char **argv) {
    struct options o = {.format = OPTIONS_FORMAT_3};
    struct co_err err = {0};
    int r = options_parse(argc, argv, from_environ, NULL, &o, &err);
    if (r == CO_CANCELED) {
        CO_AUTOBUF struct co_buf b = CO_BUF(HELP_MAX);
        r = options_help(&b, &err);
        (void)fputs(b.data ? b.data : "", stdout);
        return r ? 1 : 0;
    }
    if (r) {
        (void)fprintf(stderr, "paddlerun launch: error: %s\n", co_err_text(&err));
        proc_termination_write(PROC_TERMINATION_LOG, "", co_err_text(&err));
        return OPTIONS_USAGE;
    }
    co_contract_links(environ, note_link, &o);
    int code = node_launch_run(&o, argc, argv);
    options_done(&o);
    return code;
}
