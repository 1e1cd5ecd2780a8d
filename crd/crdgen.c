/* crdgen FILE [WORD]: prints one of the files that follow from the tables of this folder. */
#include <string.h>

#include "common/stdio.h"
#include "crd/crd.h"
#include "crd/rbac.h"

#define ROLE(name, component, scope)                                                               \
    {                                                                                              \
        name, "deploy/kustomize/components/" component "/role.yaml", NULL, crd_print_role, NULL,   \
            scope                                                                                  \
    }
#define RULES(name, scope)                                                                         \
    {                                                                                              \
        name, "deploy/charts/paddle-operator/files/" name ".yaml", NULL, crd_print_rules, NULL,    \
            scope                                                                                  \
    }

static const struct {
    const char *name, *help;
    /* One of: */
    void (*print)(FILE *out);
    void (*print_scope)(FILE *out, enum crd_scope scope);
    bool (*print_word)(FILE *out, const char *word);
    enum crd_scope scope;
} outputs[] = {
    {"v1", "deploy/v1/crd.yaml", .print = crd_print_v1},
    {"v1beta1", "deploy/v1beta1/crd.yaml", .print = crd_print_v1beta1},
    {"docs", "docs/api.md", .print = crd_print_docs},
    {"rbac", "the roles in deploy/v1/operator.yaml", .print = crd_print_rbac},
    ROLE("metrics-rbac", "secure-metrics", CRD_SCOPE_METRICS),
    ROLE("shards-rbac", "shards", CRD_SCOPE_SHARDS),
    RULES("job-rules", CRD_SCOPE_CLUSTER),
    RULES("operator-rules", CRD_SCOPE_OPERATOR),
    RULES("shards-rules", CRD_SCOPE_SHARDS),
    RULES("edit-rules", CRD_SCOPE_EDIT),
    RULES("view-rules", CRD_SCOPE_VIEW),
    {"gang", "WORD: deploy/kustomize/components/WORD/kustomization.yaml",
        .print_word = crd_print_gang},
    {"gang-rules", "WORD: deploy/charts/paddle-operator/files/WORD-rules.yaml",
        .print_word = crd_print_gang_rules},
    {"paths", "every field with its type", .print = crd_print_paths},
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
        if (strcmp(argv[1], outputs[i].name) != 0 || argc != (outputs[i].print_word ? 3 : 2)) {
            continue;
        }
        if (outputs[i].print) {
            outputs[i].print(stdout);
        } else if (outputs[i].print_scope) {
            outputs[i].print_scope(stdout, outputs[i].scope);
        } else if (outputs[i].print_word && !outputs[i].print_word(stdout, argv[2])) {
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
