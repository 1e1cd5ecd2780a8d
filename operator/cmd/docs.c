/* Prints reference pages from the tables of the code; tools/generate writes them to docs/. */
#include "operator/cmd/cmd.h"
#include "operator/cmd/options.h"

#include "common/contract.h"
#include "operator/control/metrics.h"

#include <stdio.h>
#include <string.h>

static int docs_flags(struct co_buf *b, struct co_err *err) {
    size_t n = 0;
    const struct co_flag *flags = op_options_flags(&n);
    (void)b;
    (void)err;
    co_flags_markdown(stdout, flags, n);
    return 0;
}

static int docs_metrics(struct co_buf *b, struct co_err *err) {
    struct op_metrics *m = op_metrics_new();
    int r = co_metrics_markdown(m->row, OP_M_COUNT, b, err);
    op_metrics_free(m);
    return r;
}

static const struct {
    const char *name;
    int (*print)(struct co_buf *b, struct co_err *err);
} pages[] = {{"flags", docs_flags}, {"metrics", docs_metrics}, {"env", co_contract_markdown},
    {"events", op_events_markdown}, {"reasons", op_reasons_markdown}};

int op_cmd_docs(int argc, char *argv[]) {
    for (size_t i = 0; argc == 2 && i < CO_ARRAY_LEN(pages); i++) {
        if (strcmp(argv[1], pages[i].name) == 0) {
            CO_AUTOBUF struct co_buf text = CO_BUF(1 << 20);
            struct co_err err = {0};
            if (pages[i].print(&text, &err)) {
                (void)fprintf(stderr, "paddle-operator: %s\n", co_err_text(&err));
                return 1;
            }
            (void)fputs(text.data ? text.data : "", stdout);
            return 0;
        }
    }
    (void)fprintf(stderr, "usage: paddle-operator docs flags|metrics|env|events|reasons\n");
    return 2;
}
