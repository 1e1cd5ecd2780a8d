/* The table of RBAC rules, and how roles are printed from it as YAML or as lines of the chart. */
#include "crd/rbac.h"

#include <string.h>

#include "crd/crd.h"
#include "crd/out.h"

/* The name that earlier versions used too: old and new never lead at the same time. */
#define LOCK "b2a304f2.paddlepaddle.org"

const struct crd_grant crd_grants[] = {
    {CRD_SCOPE_CLUSTER, CRD_GROUP, "paddlejobs", NULL, "delete,get,list,patch,watch",
        "follow the jobs; get those that are too large to be kept, patch only to remove the "
        "finalizer of earlier versions, delete only what ttlSecondsAfterFinished says"},
    {CRD_SCOPE_CLUSTER, CRD_GROUP, "paddlejobs/status", NULL, "patch", "report on the jobs"},
    {CRD_SCOPE_CLUSTER, CRD_GROUP, "paddlejobs/finalizers", NULL, "update",
        "own pods of a job where OwnerReferencesPermissionEnforcement is on"},
    {CRD_SCOPE_CLUSTER, "", "pods", NULL, "create,delete,deletecollection,list,watch",
        "start, follow and clean up pods; deletecollection: those of a job that has ended, at "
        "once"},
    {CRD_SCOPE_CLUSTER, "", "services", NULL, "create,delete,get,list,patch,watch",
        "names of pods; get and patch to take over those of earlier versions"},
    {CRD_SCOPE_CLUSTER, "", "configmaps", NULL, "create,delete,list,patch,watch",
        "addresses of a job's pods; deleted with the pods when a group is restarted"},
    {CRD_SCOPE_CLUSTER, "", "secrets", NULL, "create",
        "tokens of jobs with peerAuth Token or Encrypted; the operator reads none"},
    {CRD_SCOPE_CLUSTER, "", "events", NULL, "create,patch", "report what happens to a job"},
    {CRD_SCOPE_OPERATOR, "coordination.k8s.io", "leases", NULL, "create",
        "leader election (create cannot be limited by name)"},
    {CRD_SCOPE_OPERATOR, "coordination.k8s.io", "leases", LOCK, "get,update", "leader election"},
    {CRD_SCOPE_OPERATOR, "", "configmaps", LOCK, "get",
        "wait for an earlier version that still leads"},
    {CRD_SCOPE_SHARDS, "coordination.k8s.io", "leases", NULL, "get,update",
        "the leases of shards, whose names follow their number"},
    {CRD_SCOPE_METRICS, "authentication.k8s.io", "tokenreviews", NULL, "create",
        "whose token is that? (metrics)"},
    {CRD_SCOPE_METRICS, "authorization.k8s.io", "subjectaccessreviews", NULL, "create",
        "may that user read metrics?"},
    {CRD_SCOPE_EDIT, CRD_GROUP, "paddlejobs", NULL,
        "create,delete,deletecollection,get,list,patch,update,watch", "jobs of one's own"},
    {CRD_SCOPE_EDIT, CRD_GROUP, "paddlejobs/scale", NULL, "get,patch,update",
        "kubectl scale, and those who create autoscalers"},
    {CRD_SCOPE_VIEW, CRD_GROUP, "paddlejobs,paddlejobs/scale,paddlejobs/status", NULL,
        "get,list,watch", "see jobs"},
    {CRD_SCOPE_VOLCANO, "scheduling.volcano.sh", "podgroups", NULL,
        "create,delete,list,patch,watch", "one group a job"},
    {CRD_SCOPE_COSCHEDULING, "scheduling.x-k8s.io", "podgroups", NULL,
        "create,delete,list,patch,watch", "one group a job"},
    {CRD_SCOPE_NATIVE, "scheduling.k8s.io", "workloads", NULL, "create,delete,list,watch",
        "one group a job; its spec cannot be changed"},
    {CRD_SCOPE_KUEUE, "kueue.x-k8s.io", "workloads", NULL, "list,watch",
        "say what a job in a queue waits for"},
    {0},
};

static const struct {
    const char *kind;
    const char *name;
    const char *namespace;
    const char *into[3]; /* Kubernetes' roles that take its rules in */
} roles[] = {
    [CRD_SCOPE_CLUSTER] = {"ClusterRole", "paddle-manager-role", NULL},
    [CRD_SCOPE_OPERATOR] = {"Role", "paddle-leader-election-role", "paddle-system"},
    [CRD_SCOPE_SHARDS] = {"Role", "paddle-shards-role", "paddle-system"},
    [CRD_SCOPE_METRICS] = {"ClusterRole", "paddle-metrics-review-role", NULL},
    [CRD_SCOPE_EDIT] = {"ClusterRole", "paddle-jobs-edit", NULL, {"admin", "edit"}},
    [CRD_SCOPE_VIEW] = {"ClusterRole", "paddle-jobs-view", NULL, {"admin", "edit", "view"}},
};

/* Words of --scheduling. */
static const struct {
    const char *word;
    enum crd_scope scope;
} gangs[] = {
    {"volcano", CRD_SCOPE_VOLCANO},
    {"coscheduling", CRD_SCOPE_COSCHEDULING},
    {"native", CRD_SCOPE_NATIVE},
    {"kueue", CRD_SCOPE_KUEUE},
};

/* key: ["a", "b"] */
static void print_list(FILE *out, const char *key, const char *items) {
    fprintf(out, "%s: [", key);
    for (const char *separator = "";; separator = ", ") {
        size_t length = strcspn(items, ",");

        fprintf(out, "%s\"%.*s\"", separator, (int)length, items);
        if (items[length] == '\0') {
            break;
        }
        items += length + 1;
    }
    fprintf(out, "]\n");
}

void crd_print_rules(FILE *out, enum crd_scope scope) {
    struct crd_out top = {.file = out};

    for (const struct crd_grant *grant = crd_grants; grant->resources != NULL; grant++) {
        if (grant->scope != scope) {
            continue;
        }
        crd_out_line(&top, "# %s", grant->why);
        crd_out_line(&top, "- apiGroups: [\"%s\"]", grant->group);
        print_list(out, "  resources", grant->resources);
        if (grant->names != NULL) {
            print_list(out, "  resourceNames", grant->names);
        }
        print_list(out, "  verbs", grant->verbs);
    }
}

void crd_print_role(FILE *out, enum crd_scope scope) {
    struct crd_out top = {.file = out};

    crd_out_line(&top, "---");
    crd_out_line(&top, "apiVersion: rbac.authorization.k8s.io/v1");
    crd_out_line(&top, "kind: %s", roles[scope].kind);
    crd_out_line(&top, "metadata:");
    crd_out_line(&top, "  name: %s", roles[scope].name);
    if (roles[scope].namespace != NULL) {
        crd_out_line(&top, "  namespace: %s", roles[scope].namespace);
    }
    if (roles[scope].into[0] != NULL) {
        crd_out_line(&top, "  labels:");
    }
    for (size_t i = 0; i < 3 && roles[scope].into[i] != NULL; i++) {
        crd_out_line(
            &top, "    rbac.authorization.k8s.io/aggregate-to-%s: \"true\"", roles[scope].into[i]);
    }
    crd_out_line(&top, "rules:");
    crd_print_rules(out, scope);
}

void crd_print_rbac(FILE *out) {
    crd_print_role(out, CRD_SCOPE_CLUSTER);
    crd_print_role(out, CRD_SCOPE_OPERATOR);
    crd_print_role(out, CRD_SCOPE_EDIT);
    crd_print_role(out, CRD_SCOPE_VIEW);
}

static const struct crd_grant *gang_grant(const char *word) {
    for (size_t i = 0; i < sizeof(gangs) / sizeof(gangs[0]); i++) {
        for (const struct crd_grant *g = crd_grants;
             g->resources != NULL && strcmp(gangs[i].word, word) == 0; g++) {
            if (g->scope == gangs[i].scope) {
                return g;
            }
        }
    }
    return NULL;
}

bool crd_print_gang(FILE *out, const char *word) {
    const struct crd_grant *grant = gang_grant(word);
    struct crd_out top = {.file = out};

    if (grant == NULL) {
        return false;
    }
    crd_out_line(&top,
        "# --scheduling=%s and the rights that it needs. Printed by `crdgen gang %s`:", word, word);
    crd_out_line(&top, "# change the rows in crd/rbac.c.");
    crd_out_line(&top, "apiVersion: kustomize.config.k8s.io/v1alpha1");
    crd_out_line(&top, "kind: Component");
    crd_out_line(&top, "patches:");
    crd_out_line(&top, "- target: {kind: Deployment|StatefulSet, name: paddle-controller-manager}");
    crd_out_line(&top, "  patch: |");
    crd_out_line(&top, "    - op: add");
    crd_out_line(&top, "      path: /spec/template/spec/containers/0/args/-");
    crd_out_line(&top, "      value: --scheduling=%s", word);
    crd_out_line(&top, "- target: {kind: ClusterRole|Role, name: paddle-manager-role}");
    crd_out_line(&top, "  patch: |");
    crd_out_line(&top, "    # %s", grant->why);
    crd_out_line(&top, "    - op: add");
    crd_out_line(&top, "      path: /rules/-");
    crd_out_line(&top, "      value:");
    crd_out_line(&top, "        apiGroups: [\"%s\"]", grant->group);
    print_list(out, "        resources", grant->resources);
    print_list(out, "        verbs", grant->verbs);
    return true;
}

bool crd_print_gang_rules(FILE *out, const char *word) {
    const struct crd_grant *grant = gang_grant(word);

    if (grant != NULL) {
        crd_print_rules(out, grant->scope);
    }
    return grant != NULL;
}
