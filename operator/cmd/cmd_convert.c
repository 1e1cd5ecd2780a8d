/* `paddle-operator convert`: reads files, prints converted jobs, and notes on standard error. */
#include <stdio.h>
#include <string.h>

#include "common/yaml/yaml_write.h"
#include "operator/api/job.h"
#include "operator/cmd/commands.h"
#include "operator/cmd/convert.h"
#include "operator/cmd/files.h"

enum { PAGE = 16 << 20 };

static void print_note(void *arg, const char *path, const char *message) {
    const struct opc_position *at = arg;
    (void)fprintf(stderr, "%s:%d: %s: %s\n", at->file, opc_position_line(at, path), path, message);
}

/* A kind that only looks like ours: of another group, or another job of Kubeflow's. */
static bool is_stranger(const json_t *obj) {
    const char *version = co_json_str(obj, "apiVersion");
    return co_streq(co_json_str(obj, "kind"), API_KIND) ||
           (version && strncmp(version, "kubeflow.org/", strlen("kubeflow.org/")) == 0);
}

static int convert_object(
    void *arg, const struct opc_position *at, json_t *obj, struct co_err *err) {
    size_t *jobs = arg;
    struct opc_position place = *at;
    CO_AUTOJSON json_t *made = opc_convert_knows(obj) ? opc_convert(obj, print_note, &place) : NULL;
    *jobs += made != NULL;
    if (!made && is_stranger(obj)) {
        print_note(&place, "apiVersion",
            "passes unchanged: only PaddleJobs of kubeflow.org/v1 and " API_VERSION
            " are converted");
    }
    CO_AUTOBUF struct co_buf text = CO_BUF(PAGE); /* others pass unchanged */
    int rc = co_yaml_write(made ? made : obj, &text, err);
    if (rc == 0) {
        (void)fputs(text.data, stdout);
    }
    return rc;
}

static const char usage[] =
    "paddle-operator convert FILE|DIRECTORY|-...\n"
    "\n"
    "Prints PaddleJobs of Kubeflow (kubeflow.org/v1) and of PaddleCloud as "
    "PaddleJobs of this operator, and\n"
    "on standard error file:line: what changes its meaning, and what could "
    "not be carried over.  Each\n"
    "item of a List becomes a document; other objects pass unchanged.  Ends "
    "with 1 when there is no job.";

int opc_cmd_convert(int argc, char *argv[]) {
    size_t jobs = 0;
    int code = opc_files_command(usage, argc, argv, convert_object, &jobs);
    if (code < 0 && !jobs) {
        (void)fprintf(stderr, "paddle-operator: no PaddleJob to convert\n");
    }
    return code < 0 ? !jobs : code;
}
