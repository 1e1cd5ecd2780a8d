/* `paddle-operator convert`: reads files, prints converted jobs, and notes on standard error. */
#include "operator/cmd/cmd.h"
#include "operator/cmd/convert.h"
#include "operator/cmd/files.h"

#include <stdio.h>

#include "common/flag.h"
#include "common/yaml_write.h"

enum { PAGE = 16 << 20 };

struct place {
    const char *file;
    const struct co_yaml *yaml;
    size_t jobs;
};

static void print_note(void *arg, const char *path, const char *message) {
    const struct place *in = arg;
    (void)fprintf(stderr, "%s:%d: %s: %s\n", in->file, co_yaml_line(in->yaml, path), path, message);
}

static int convert_document(
    void *arg, const char *file, const struct co_yaml *y, json_t *obj, struct co_err *err) {
    struct place *in = arg;
    in->file = file;
    in->yaml = y;
    CO_AUTOJSON json_t *made = op_convert_knows(obj) ? op_convert(obj, print_note, in) : NULL;
    in->jobs += made != NULL;
    CO_AUTOBUF struct co_buf text = CO_BUF(PAGE); /* others pass unchanged */
    int rc = co_yaml_write(made ? made : obj, &text, err);
    if (rc == 0) {
        (void)fputs(text.data, stdout);
    }
    return rc;
}

static const char usage[] = "paddle-operator convert FILE|DIRECTORY|-...\n"
                            "\n"
                            "Prints PaddleJobs of Kubeflow (kubeflow.org/v1) and of PaddleCloud as "
                            "PaddleJobs of this operator, and\n"
                            "on standard error file:line: what changes its meaning, and what could "
                            "not be carried over.  Other\n"
                            "objects pass unchanged.  Ends with 1 when there is no job.";

int op_cmd_convert(int argc, char *argv[]) {
    struct co_err err = {0};
    int rest = argc;
    int rc = co_flags_parse(NULL, 0, argc, argv, &rest, &err);
    if (rc == CO_CANCELED || (rc == 0 && rest == argc)) {
        co_flags_help(rc ? stdout : stderr, usage, NULL, 0);
        return rc ? 0 : 2;
    }
    struct place in = {0};
    for (; rc == 0 && rest < argc; rest++) {
        rc = op_files_read(argv[rest], convert_document, &in, &err);
    }
    if (rc) {
        (void)fprintf(stderr, "paddle-operator: %s\n", co_err_text(&err));
    } else if (in.jobs == 0) {
        (void)fprintf(stderr, "paddle-operator: no PaddleJob to convert\n");
    }
    return rc || in.jobs == 0;
}
