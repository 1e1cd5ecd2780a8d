#include "common/contract.h"
#include "operator/plan/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- small JSON helpers --------------------------------------------------------------------- */

/* The member as an object or list, made when absent or null. */
static json_t *need(json_t *obj, const char *key, json_t *(*make)(void)) {
    json_t *j = json_object_get(obj, key);
    if (!j || json_is_null(j)) {
        co_json_set(obj, key, make());
        j = json_object_get(obj, key);
    }
    return j;
}

static void set_text(json_t *obj, const char *key, const char *value) {
    co_json_set(obj, key, co_json_string(value));
}

static void set_number(json_t *obj, const char *key, int32_t n) {
    char text[16];
    (void)snprintf(text, sizeof(text), "%" PRId32, n);
    set_text(obj, key, text);
}

static json_t *deep_copy(const json_t *j) {
    return json_deep_copy((json_t *)(uintptr_t)j);
}

/* ---- metadata ------------------------------------------------------------------------------- */

static void set_owner(const struct op_job *job, json_t *meta) {
    json_t *owner = json_object();
    set_text(owner, "apiVersion", OP_API_VERSION);
    set_text(owner, "kind", OP_KIND);
    set_text(owner, "name", job->name);
    set_text(owner, "uid", job->uid);
    co_json_set(owner, "controller", json_true());
    co_json_set(owner, "blockOwnerDeletion", json_true());
    json_t *list = json_array();
    co_json_append(list, owner);
    co_json_set(meta, "ownerReferences", list);
}

/* apiVersion, kind and metadata with our two common labels. */
json_t *op_object_new(
    const struct op_job *job, const char *kind, const char *name, json_t *meta_own) {
    json_t *obj = json_object();
    set_text(obj, "apiVersion", "v1");
    set_text(obj, "kind", kind);
    set_text(meta_own, "name", name);
    set_text(meta_own, "namespace", job->ns);
    json_t *labels = need(meta_own, "labels", json_object);
    set_text(labels, OP_LABEL_NAME, name);
    set_text(labels, OP_LABEL_JOB, job->name);
    set_owner(job, meta_own);
    co_json_set(obj, "metadata", meta_own);
    return obj;
}

/* ---- pods ----------------------------------------------------------------------------------- */

/* What a template's metadata may say; all else of it is an object's own. */
static json_t *template_metadata(const json_t *tmpl) {
    static const char *const keys[] = {"labels", "annotations", "finalizers"};
    const json_t *from = json_object_get(tmpl, "metadata");
    json_t *meta = json_object();
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        const json_t *j = json_object_get(from, keys[i]);
        if (j && !json_is_null(j)) {
            co_json_set(meta, keys[i], deep_copy(j));
        }
    }
    return meta;
}

static json_t *field_env(const char *name, const char *path) {
    return json_pack("{s:s,s:{s:{s:s}}}", "name", name, "valueFrom", "fieldRef", "fieldPath", path);
}

/* Waits until the operator says that all addresses are known.  Fits namespaces that demand
 * limits and Pod Security "restricted". */
static json_t *gate_container(const struct op_settings *settings) {
    json_t *env = json_array();
    json_t *addr = json_object();
    set_text(addr, "name", co_contract[CO_VAR_GATE_ADDR].name);
    set_text(addr, "value", settings->gate_addr);
    co_json_append(env, addr);
    co_json_append(env, field_env(co_contract[CO_VAR_POD_NAMESPACE].name, "metadata.namespace"));
    co_json_append(env, field_env(co_contract[CO_VAR_POD_NAME].name, "metadata.name"));
    co_json_append(env, field_env(co_contract[CO_VAR_POD_UID].name, "metadata.uid"));
    co_json_append(env, field_env(co_contract[CO_VAR_POD_IPS].name, "status.podIPs"));
    json_t *c = json_object();
    set_text(c, "name", OP_GATE_CONTAINER);
    set_text(c, "image", settings->gate_image);
    set_text(c, "imagePullPolicy", "IfNotPresent");
    co_json_set(c, "command", json_pack("[s]", "/paddle-gate"));
    co_json_set(c, "env", env);
    co_json_set(c, "resources",
        json_pack("{s:{s:s,s:s},s:{s:s,s:s}}", "requests", "cpu", "10m", "memory", "10Mi", "limits",
            "cpu", "100m", "memory", "32Mi"));
    co_json_set(c, "securityContext",
        json_pack("{s:b,s:b,s:b,s:i,s:{s:[s]},s:{s:s}}", "allowPrivilegeEscalation", 0,
            "readOnlyRootFilesystem", 1, "runAsNonRoot", 1, "runAsUser", 65532, "capabilities",
            "drop", "ALL", "seccompProfile", "type", "RuntimeDefault"));
    return c;
}

/* All processes of a job listen on one port number, so those that listen must not share a node's
 * network.  Trainers of a parameter server job do not listen. */
static void keep_apart(const struct op_job *job, enum op_role role, json_t *spec) {
    bool ps_mode = job->mode == OP_MODE_PS;
    if (ps_mode && role == OP_WORKER) {
        return;
    }
    json_t *roles = json_array();
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        if (job->role[r].present && !(ps_mode && r == OP_WORKER)) {
            co_json_append(roles, json_string(op_role_name(r)));
        }
    }
    json_t *term = json_pack("{s:{s:{s:s},s:[{s:s,s:s,s:o}]},s:s}", "labelSelector", "matchLabels",
        OP_LABEL_JOB, job->name, "matchExpressions", "key", OP_LABEL_ROLE, "operator", "In",
        "values", roles, "topologyKey", "kubernetes.io/hostname");
    json_t *anti = need(need(spec, "affinity", json_object), "podAntiAffinity", json_object);
    json_t *list = need(anti, "requiredDuringSchedulingIgnoredDuringExecution", json_array);
    co_json_append(list, term);
}

static void apply_intranet(
    const struct op_job *job, enum op_role role, json_t *spec, json_t *first) {
    if (op_job_named(job)) {
        co_json_append(
            need(first, "ports", json_array), json_pack("{s:i}", "containerPort", CO_PORT_BASE));
    } else if (job->intranet == OP_HOST) {
        co_json_set(spec, "hostNetwork", json_true());
        /* The node's resolver knows no Service, the start gate's among them. */
        if (!co_json_str(spec, "dnsPolicy")) {
            set_text(spec, "dnsPolicy", "ClusterFirstWithHostNet");
        }
        keep_apart(job, role, spec);
    }
}

static void apply_restart_policy(const struct op_job *job, enum op_role role, json_t *spec) {
    const char *given = co_json_str(spec, "restartPolicy");
    if (job->elastic) {
        set_text(spec, "restartPolicy", "OnFailure");
    } else if (!given || !*given) {
        bool restart = role == OP_WORKER && op_job_named(job);
        set_text(spec, "restartPolicy", restart ? "OnFailure" : "Never");
    }
}

json_t *op_object_pod(const struct op_job *job, enum op_role role, int32_t index,
    const struct op_settings *settings) {
    char name[OP_NAME_MAX + 1];
    op_pod_name(job->name, role, index, name, sizeof(name));
    const json_t *tmpl = job->role[role].tmpl;

    json_t *meta = template_metadata(tmpl);
    json_t *labels = need(meta, "labels", json_object);
    set_text(labels, OP_LABEL_ROLE, op_role_name(role));
    set_number(labels, OP_LABEL_INDEX, index);
    (void)json_object_del(labels, OP_LABEL_ATTEMPT);
    if (job->attempt) { /* absent is 0, and most jobs have one attempt */
        set_number(labels, OP_LABEL_ATTEMPT, job->attempt);
    }
    set_text(labels, OP_LABEL_UID, job->uid);
    set_text(need(meta, "annotations", json_object), OP_ANNOTATION_ROLE, op_role_name(role));
    json_t *pod = op_object_new(job, "Pod", name, meta);

    json_t *spec = deep_copy(json_object_get(tmpl, "spec"));
    co_json_set(pod, "spec", spec);
    set_text(spec, "hostname", name);
    set_text(spec, "subdomain", job->intranet == OP_DNS ? job->name : name);
    if (*job->priority_class && !co_json_str(spec, "priorityClassName") &&
        !json_object_get(spec, "priority")) {
        set_text(spec, "priorityClassName", job->priority_class);
    }
    json_t *first = json_array_get(json_object_get(spec, "containers"), 0);
    op_env_direct(job, role, index, settings, need(first, "env", json_array));
    if (!job->elastic) {
        co_json_append(need(first, "envFrom", json_array),
            json_pack("{s:{s:s}}", "configMapRef", "name", job->name));
    }
    apply_intranet(job, role, spec, first);
    apply_restart_policy(job, role, spec);
    op_gang_mark(job, role, settings, meta, spec);
    if (settings->gate_image && *settings->gate_image && settings->gate_addr &&
        *settings->gate_addr) {
        co_json_append(need(spec, "initContainers", json_array), gate_container(settings));
    }
    return pod;
}

/* The member in a copy of its own, whose members are still the original's. */
static json_t *own(json_t *obj, const char *key) {
    co_json_set(obj, key, json_copy(json_object_get(obj, key)));
    return json_object_get(obj, key);
}

json_t *op_object_pod_like(const json_t *like, const struct op_job *job, enum op_role role,
    int32_t index, const struct op_settings *settings) {
    char name[OP_NAME_MAX + 1];
    op_pod_name(job->name, role, index, name, sizeof(name));
    json_t *pod = json_copy((json_t *)(uintptr_t)like);
    json_t *meta = own(pod, "metadata");
    json_t *labels = own(meta, "labels");
    json_t *spec = own(pod, "spec");
    json_t *list = own(spec, "containers");
    (void)json_array_set_new(list, 0, json_copy(json_array_get(list, 0)));
    set_text(meta, "name", name);
    set_text(labels, OP_LABEL_NAME, name);
    set_number(labels, OP_LABEL_INDEX, index);
    set_text(spec, "hostname", name);
    if (job->intranet != OP_DNS) {
        set_text(spec, "subdomain", name);
    }
    op_env_direct_again(job, role, index, settings, own(json_array_get(list, 0), "env"));
    return pod;
}

/* What a tree takes in memory, roughly.  Bounded by the nesting of what a parser accepted. */
static size_t tree_bytes(const json_t *j) { /* NOLINT(misc-no-recursion) */
    enum { VALUE = 100 };
    size_t n = VALUE + (json_is_string(j) ? json_string_length(j) : 0);
    const char *key;
    size_t i;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)j, key, v) {
        n += strlen(key) + tree_bytes(v);
    }
    json_array_foreach(j, i, v) {
        n += tree_bytes(v);
    }
    return n;
}

size_t op_object_pod_bytes(const struct op_job *job, enum op_role role) {
    return tree_bytes(job->role[role].tmpl);
}

/* ---- Services and ConfigMaps ---------------------------------------------------------------- */

/* Names resolve before pods are ready: they are told to each other before they start. */
static json_t *headless(
    const struct op_job *job, const char *name, const char *label, const char *value) {
    json_t *ports = json_array();
    for (int i = 0; i < CO_PORT_SPAN; i++) {
        CO_AUTOFREE char *port = co_xasprintf("p-%d", i);
        co_json_append(ports, json_pack("{s:s,s:i}", "name", port, "port", CO_PORT_BASE + i));
    }
    json_t *svc = op_object_new(job, "Service", name, json_object());
    co_json_set(svc, "spec",
        json_pack("{s:s,s:b,s:{s:s},s:o}", "clusterIP", "None", "publishNotReadyAddresses", 1,
            "selector", label, value, "ports", ports));
    return svc;
}

json_t *op_object_service(const struct op_job *job, const char *name) {
    return headless(job, name, OP_LABEL_NAME, name);
}

json_t *op_object_job_service(const struct op_job *job) {
    return headless(job, job->name, OP_LABEL_JOB, job->name);
}

/* From here on a watch tells of it. */
json_t *op_object_service_patch(const struct op_job *job, const struct op_service *have) {
    return json_pack("{s:{s:s,s:{s:s,s:s}}}", "metadata", "uid", have->c.uid, "labels",
        OP_LABEL_NAME, have->c.name, OP_LABEL_JOB, job->name);
}

json_t *op_object_configmap(const struct op_job *job, json_t *data_own) {
    json_t *cm = op_object_new(job, "ConfigMap", job->name, json_object());
    set_number(co_json_at(cm, "metadata", "labels"), OP_LABEL_ATTEMPT, job->attempt);
    co_json_set(cm, "data", data_own);
    return cm;
}

/* Our keys as they are to be, those of ours that went away removed, the user's left alone. */
json_t *op_object_configmap_patch(const struct op_configmap *have, json_t *data_own) {
    for (enum co_var var = 0; var < CO_VAR_COUNT; var++) {
        const char *key = co_contract[var].name;
        if (co_contract[var].via == CO_VIA_CONFIGMAP && !json_object_get(data_own, key)) {
            co_json_set(data_own, key, json_null());
        }
    }
    return json_pack("{s:{s:s},s:o}", "metadata", "uid", have->c.uid, "data", data_own);
}

json_t *op_object_finalizer_patch(const struct op_job *job) {
    json_t *keep = json_array();
    size_t i;
    json_t *f;
    json_array_foreach(co_json_at(job->json, "metadata", "finalizers"), i, f) {
        if (!co_streq(json_string_value(f), OP_FINALIZER)) {
            co_json_append(keep, json_incref(f));
        }
    }
    json_t *meta = json_object();
    set_text(meta, "resourceVersion", job->resource_version);
    co_json_set(meta, "finalizers", keep);
    json_t *patch = json_object();
    co_json_set(patch, "metadata", meta);
    return patch;
}
