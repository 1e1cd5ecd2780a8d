/* crdgen FILE: prints one of the files that follow from the tables of this folder. */
#include "crd/crd.h"
#include "crd/rbac.h"

#include <string.h>

static const struct {
    const char *name;
    void (*print)(FILE *out);
    const char *help;
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
    {"paths", crd_print_paths, "every field with its type"},
};

enum { OUTPUTS = sizeof(outputs) / sizeof(outputs[0]) };

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < OUTPUTS; i++) {
        if (strcmp(argv[1], outputs[i].name) != 0) {
            continue;
        }
        outputs[i].print(stdout);
        if (fflush(stdout) != 0 || ferror(stdout) != 0) {
            perror("crdgen: cannot write");
            return 1;
        }
        return 0;
    }
    fprintf(stderr, "usage: crdgen FILE, where FILE is one of\n");
    for (size_t i = 0; i < OUTPUTS; i++) {
        fprintf(stderr, "  %-14s  %s\n", outputs[i].name, outputs[i].help);
    }
    return 2;
}
