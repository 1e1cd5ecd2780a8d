/* The names that Kubernetes 1.35 has in a pod template.  A newer Kubernetes has more, so only a
 * name that resembles one of these, or that belongs elsewhere, is taken for a mistake: the API
 * server drops it without a word, and the pod runs without what was asked for. */
#include <string.h>

#include "common/mem.h"
#include "common/near.h"
#include "common/utf8.h"
#include "crd/unknown.h"

static const struct object {
    const char *keys, *what, *names; /* where it stands; words with blanks between */
} objects[] = {
    {"template", "a template", "metadata spec apiVersion kind"},
    {"metadata", "metadata",
        "annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers "
        "generateName generation labels managedFields name namespace ownerReferences "
        "resourceVersion selfLink uid"},
    {"spec", "a pod's spec",
        "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig "
        "dnsPolicy enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID "
        "hostUsers hostname hostnameOverride imagePullSecrets initContainers nodeName "
        "nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates "
        "resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates "
        "securityContext serviceAccount serviceAccountName setHostnameAsFQDN "
        "shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations "
        "topologySpreadConstraints volumes workloadRef"},
    {"containers initContainers", "a container",
        "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports "
        "readinessProbe resizePolicy resources restartPolicy restartPolicyRules securityContext "
        "startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty "
        "volumeDevices volumeMounts workingDir"},
    {"env", "a variable", "name value valueFrom"},
    {"valueFrom", "valueFrom", "configMapKeyRef fieldRef fileKeyRef resourceFieldRef secretKeyRef"},
    {"envFrom", "envFrom", "configMapRef prefix secretRef"},
    {"configMapKeyRef secretKeyRef", "such a reference", "key name optional"},
    {"configMapRef secretRef", "such a reference", "name optional"},
    {"ports", "a port", "containerPort hostIP hostPort name protocol"},
    {"resources", "resources", "claims limits requests"},
    {"volumeMounts", "a volumeMount",
        "mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr"},
    {"livenessProbe readinessProbe startupProbe", "a probe",
        "exec failureThreshold grpc httpGet initialDelaySeconds periodSeconds successThreshold "
        "tcpSocket terminationGracePeriodSeconds timeoutSeconds"},
    {"lifecycle", "lifecycle", "postStart preStop stopSignal"},
    {"securityContext", "a securityContext",
        "allowPrivilegeEscalation appArmorProfile capabilities fsGroup fsGroupChangePolicy "
        "privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser "
        "seLinuxChangePolicy seLinuxOptions seccompProfile supplementalGroups "
        "supplementalGroupsPolicy sysctls windowsOptions"},
    {"capabilities", "capabilities", "add drop"},
    {"volumes", "a volume",
        "awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir "
        "ephemeral fc flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi "
        "name nfs persistentVolumeClaim photonPersistentDisk portworxVolume projected quobyte rbd "
        "scaleIO secret storageos vsphereVolume"},
    {"configMap", "a volume's configMap", "defaultMode items name optional"},
    {"secret", "a volume's secret", "defaultMode items optional secretName"},
    {"emptyDir", "emptyDir", "medium sizeLimit"},
    {"hostPath", "hostPath", "path type"},
    {"nfs", "nfs", "path readOnly server"},
    {"persistentVolumeClaim", "persistentVolumeClaim", "claimName readOnly"},
    {"affinity", "affinity", "nodeAffinity podAffinity podAntiAffinity"},
    {"nodeAffinity podAffinity podAntiAffinity", "an affinity",
        "preferredDuringSchedulingIgnoredDuringExecution "
        "requiredDuringSchedulingIgnoredDuringExecution"},
    {"tolerations", "a toleration", "effect key operator tolerationSeconds value"},
    {"imagePullSecrets", "an imagePullSecret", "name"},
    {"topologySpreadConstraints", "a topologySpreadConstraint",
        "labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy "
        "topologyKey whenUnsatisfiable"},
};

/* What is often written a level too high or too low. */
static const struct {
    const char *in, *of, *place;
} misplaced[] = {
    {"template", "spec", "spec"},
    {"spec", "containers", "spec.containers"},
    {"containers", "spec", "template.spec"},
    {"containers", "resources", "resources"},
    {"containers", "securityContext", "securityContext"},
    {"containers", "livenessProbe", "a probe"},
};

/* The next of the words, of which *ret_len says how long it is; NULL: there are no more. */
static const char *word_next(const char *words, size_t *ret_len) {
    words += strspn(words, " ");
    *ret_len = strcspn(words, " ");
    return *ret_len ? words : NULL;
}

static bool has_word(const char *words, const char *word) {
    size_t len;
    while ((words = word_next(words, &len))) {
        if (strlen(word) == len && memcmp(words, word, len) == 0) {
            return true;
        }
        words += len;
    }
    return false;
}

static const struct object *object_of(const char *key) {
    for (size_t i = 0; i < CO_ARRAY_LEN(objects); i++) {
        if (has_word(objects[i].keys, key)) {
            return &objects[i];
        }
    }
    return NULL;
}

/* Where the name belongs, or NULL. */
static const char *place_of(const struct object *of, const char *name) {
    for (size_t i = 0; i < CO_ARRAY_LEN(misplaced); i++) {
        if (has_word(of->keys, misplaced[i].in) &&
            has_word(object_of(misplaced[i].of)->names, name)) {
            return misplaced[i].place;
        }
    }
    return NULL;
}

/* The known name that the unknown one resembles; the caller frees it.  NULL: none. */
static char *name_meant(const struct object *of, const char *name) {
    CO_AUTOFREE char *meant = NULL;
    struct co_near near = co_near_begin(name, strlen(name));
    const char *at = of->names;
    size_t len;
    while ((at = word_next(at, &len))) {
        CO_AUTOFREE char *known = co_xstrndup(at, len);
        if (co_near_try(&near, known)) {
            free(meant);
            meant = co_steal_ptr(known);
        }
        at += len;
    }
    return co_steal_ptr(meant);
}

static void judge_name(
    struct co_findings *to, const struct object *of, const char *path, const char *name) {
    const char *place = place_of(of, name);
    CO_AUTOFREE char *meant = place ? NULL : name_meant(of, name);
    if (place) {
        co_finding(to, path, "is not a field of %s, and would be dropped: it belongs to %s",
            of->what, place);
    } else if (meant) {
        co_finding(to, path, "is not a field of %s, and would be dropped: did you mean %s?",
            of->what, meant);
    }
}

/* No object of the table is in itself, so it is as deep as the table. */
static void walk(/* NOLINT(misc-no-recursion) */
    struct co_findings *to, const json_t *obj, const struct object *of, const char *path) {
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)obj, name, j) {
        const struct object *below = object_of(name);
        CO_AUTOFREE char *at = co_xasprintf("%s.%.*s", path, co_utf8_fit(name, 60), name);
        if (!has_word(of->names, name)) {
            judge_name(to, of, at, name);
            continue;
        }
        if (!below) {
            continue;
        }
        size_t i;
        json_t *item;
        if (json_is_object(j)) {
            walk(to, j, below, at);
        }
        json_array_foreach(j, i, item) {
            CO_AUTOFREE char *place = co_xasprintf("%s.%zu", at, i);
            walk(to, item, below, place);
        }
    }
}

void crd_find_misspelt(const json_t *tmpl, const char *path, struct co_findings *to) {
    walk(to, tmpl, &objects[0], path);
}
