/* Prints reference pages from the tables of the code; tools/generate writes them to docs/. */
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/manual.h"
#include "operator/cmd/commands.h"
#include "operator/cmd/run_options.h"
#include "operator/control/operator_metrics.h"

static int docs_flags(struct co_buf *b, struct co_err *err) {
    size_t n = 0;
    const struct co_flag *flags = opc_options_flags(&n);
    (void)b;
    (void)err;
    co_flags_markdown(stdout, flags, n);
    return 0;
}

static int docs_metrics(struct co_buf *b, struct co_err *err) {
    struct ctl_metrics *m = ctl_metrics_new();
    int r = co_metrics_markdown(m->row, CTL_M_COUNT, b, err);
    ctl_metrics_free(m);
    return r;
}

static void print_manual(void (*print)(FILE *out, const struct co_manual *of)) {
    CO_CLEANUP(co_manual_done)
    struct co_manual m = {.program = "paddle-operator",
        .summary = "runs PaddleJobs on Kubernetes",
        .section = 8,
        .description = "Watches PaddleJobs (batch.paddlepaddle.org/v1) and makes their pods, "
                       "Services and ConfigMaps.\nOther commands look at job files and need no "
                       "cluster.\n\nWithout a command, flags are those of run."};
    size_t n = 0;
    const struct co_flag *flags = opc_options_flags(&n);
    co_manual_flags(co_manual_add(&m, "", NULL, "the commands below, or run"), NULL, flags, n);
    const struct opc_command *c;
    for (size_t i = 0; (c = opc_command_at(i)) != NULL; i++) {
        if (c->summary) {
            char *argv[] = {(char *)c->name, (char *)"--help", NULL};
            co_flags_read(co_manual_flags, co_manual_add(&m, c->name, NULL, c->summary));
            if (c->run != opc_cmd_version) { /* it prints that, whatever it is given */
                (void)c->run(2, argv);
            }
            co_flags_read(NULL, NULL);
        }
    }
    print(stdout, &m);
}

static const struct {
    const char *name;
    int (*print)(struct co_buf *b, struct co_err *err); /* or */
    void (*print_manual)(FILE *out, const struct co_manual *of);
} pages[] = {{"flags", docs_flags}, {"metrics", docs_metrics}, {"env", co_contract_markdown},
    {"events", plan_events_markdown}, {"reasons", plan_reasons_markdown},
    {"man", NULL, co_manual_man}, {"bash", NULL, co_manual_bash}, {"zsh", NULL, co_manual_zsh}};

int opc_cmd_docs(int argc, char *argv[]) {
    for (size_t i = 0; argc == 2 && i < CO_ARRAY_LEN(pages); i++) {
        if (strcmp(argv[1], pages[i].name) == 0) {
            CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
            struct co_err err = {0};
            if (pages[i].print_manual) {
                print_manual(pages[i].print_manual);
            } else if (pages[i].print(&text, &err)) {
                (void)fprintf(stderr, "paddle-operator: %s\n", co_err_text(&err));
                return 1;
            }
            (void)fputs(text.data ? text.data : "", stdout);
            return 0;
        }
    }
    (void)fprintf(
        stderr, "usage: paddle-operator docs flags|metrics|env|events|reasons|man|bash|zsh\n");
    return 2;
}
