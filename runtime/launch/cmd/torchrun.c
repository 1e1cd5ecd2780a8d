/* `paddlerun torchrun`: torchrun's command line, turned into launch's
 * (runtime/launch/options/torchrun_words.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/contract.h"
#include "common/listen.h"
#include "runtime/launch/cmd/cmd.h"
#include "runtime/launch/node/machine.h"
#include "runtime/launch/options/torchrun_words.h"

static const char usage[] =
    "paddlerun torchrun [options] SCRIPT [its arguments]\n\n"
    "Starts this node's processes of a training by torchrun's options, with underscores, too:\n"
    "`paddlerun launch` with torchrun's defaults.  docs/torchrun.md has what differs.";

/* The launcher binds it itself, shortly after. */
static int find_port(uint16_t *ret, struct co_err *err) {
    CO_AUTOCLOSE int fd = -1;
    CO_TRY(co_listen("127.0.0.1:0", &fd, err));
    *ret = co_listen_port(fd);
    return 0;
}

/* The environment says who the other nodes are: that of a pod. */
static bool is_inside(void) {
    return co_contract_getenv(CO_VAR_TRAINER_ENDPOINTS) || co_contract_getenv(CO_VAR_MASTER) ||
           co_contract_getenv(CO_VAR_ELASTIC_JOB_ID);
}

static int translate(
    const struct options_torchrun_given *given, struct options_list *ret, struct co_err *err) {
    bool named = false;
    CO_AUTOFREE char *python = node_python(&named);
    struct options_torchrun_place at = {.python = python, .inside = is_inside()};
    if (options_torchrun_wants_port(given, at.inside)) {
        CO_TRY(find_port(&at.port, err));
    }
    return options_torchrun_words(given, &at, ret, err);
}

int cmd_torchrun(int argc, char **argv) {
    struct options_torchrun_given given = {.n_script = 0};
    struct co_flag flags[OPTIONS_TORCHRUN_FLAGS];
    const size_t n = options_torchrun_flags(&given, flags);
    int rest = 0, code = 0;
    if (!options_command_flags(usage, flags, n, argc, argv, &rest, &code)) {
        return code;
    }
    given.script = argv + rest;
    given.n_script = argc - rest;
    struct co_err err = {0};
    CO_CLEANUP(options_list_done) struct options_list words = {0};
    if (translate(&given, &words, &err)) {
        (void)fprintf(stderr, "paddlerun torchrun: %s\n", co_err_text(&err));
        return OPTIONS_USAGE;
    }
    const char *restarts = given.text[OPTIONS_TORCHRUN_MAX_RESTARTS];
    if (co_contract_getenv(CO_VAR_TRAINER_ENDPOINTS) && *restarts && strcmp(restarts, "0") != 0) {
        (void)fputs(
            "paddlerun torchrun: --max-restarts has no effect in a pod of a job that is not "
            "elastic: write spec.backoffLimit\n",
            stderr);
    }
    /* Threads of several processes would have to share the processors. */
    if (options_torchrun_several(&given)) {
        (void)setenv("OMP_NUM_THREADS", "1", 0);
    }
    return cmd_launch((int)words.n, words.item);
}
