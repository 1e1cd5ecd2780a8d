/* crdgen FILE [WORD]: prints one of the files that follow from the tables of this folder. */
#include "common/stdio.h"
#include "crd/crd.h"
#include "crd/rbac.h"

#include <string.h>

static const struct {
    const char *name;
    void (*print)(FILE *out);
    const char *help;
    bool (*print_word)(FILE *out, const char *word); /* instead of print */
} outputs[] = {
    {"v1", crd_print_v1, "deploy/v1/crd.yaml"},
    {"v1beta1", crd_print_v1beta1, "deploy/v1beta1/crd.yaml"},
    {"docs", crd_print_docs, "docs/api.md"},
    {"rbac", crd_print_rbac, "the roles in deploy/v1/operator.yaml"},
    {"metrics-rbac", crd_print_metrics_rbac,
        "deploy/kustomize/components/secure-metrics/role.yaml"},
    {"shards-rbac", crd_print_shards_rbac, "deploy/kustomize/components/shards/role.yaml"},
    {"job-rules", crd_print_job_rules, "deploy/charts/paddle-operator/files/job-rules.yaml"},
    {"operator-rules", crd_print_operator_rules,
        "deploy/charts/paddle-operator/files/operator-rules.yaml"},
    {"shards-rules", crd_print_shards_rules,
        "deploy/charts/paddle-operator/files/shards-rules.yaml"},
    {"edit-rules", crd_print_edit_rules, "deploy/charts/paddle-operator/files/edit-rules.yaml"},
    {"view-rules", crd_print_view_rules, "deploy/charts/paddle-operator/files/view-rules.yaml"},
    {"gang", NULL, "WORD: deploy/kustomize/components/WORD/kustomization.yaml", crd_print_gang},
    {"gang-rules", NULL, "WORD: deploy/charts/paddle-operator/files/WORD-rules.yaml",
        crd_print_gang_rules},
    {"paths", crd_print_paths, "every field with its type"},
};

enum { OUTPUTS = sizeof(outputs) / sizeof(outputs[0]) };

static void print_usage(FILE *out) {
    fprintf(out, "usage: crdgen FILE, where FILE is one of\n");
    for (size_t i = 0; i < OUTPUTS; i++) {
        fprintf(out, "  %-14s  %s\n", outputs[i].name, outputs[i].help);
    }
}

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < OUTPUTS; i++) {
        if (strcmp(argv[1], outputs[i].name) != 0 || argc != (outputs[i].print ? 2 : 3)) {
            continue;
        }
        if (outputs[i].print) {
            outputs[i].print(stdout);
        } else if (!outputs[i].print_word(stdout, argv[2])) {
            fprintf(stderr, "crdgen: %s is no word of --scheduling\n", argv[2]);
            return 2;
        }
        return co_stdio_close("crdgen", 0);
    }
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (argc > 1) {
        fprintf(stderr, "crdgen: no file \"%s\" (--help lists them)\n", argv[1]);
    } else {
        print_usage(stderr);
    }
    return 2;
}
