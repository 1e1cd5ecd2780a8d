/* Bodies of pods: metadata, environment, start gate, network mode, restart policy, gang marks. */
#include "operator/plan/object_pod.h"

#include <string.h>

#include "common/contract.h"
#include "operator/plan/children.h"
#include "operator/plan/env.h"
#include "operator/plan/gang.h"
#include "operator/plan/object_gate.h"
#include "operator/plan/objects.h"
#include "operator/plan/tree.h"

/* The fields of a template's metadata that are used; the others belong to a single object. */
static json_t *template_metadata(const json_t *tmpl) {
    static const char *const keys[] = {"labels", "annotations", "finalizers"};
    const json_t *from = json_object_get(tmpl, "metadata");
    json_t *meta = json_object();
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        const json_t *j = json_object_get(from, keys[i]);
        if (j && !json_is_null(j)) {
            co_json_set(meta, keys[i], plan_tree_copy(j));
        }
    }
    return meta;
}

/* All processes of a job listen on the same port number, so in Host mode those that listen must not
 * share a node.  Trainers of a parameter server job do not listen. */
static void keep_apart(const struct api_job *job, enum api_role role, json_t *spec) {
    bool ps_mode = job->mode == API_MODE_PS;
    if (ps_mode && role == API_WORKER) {
        return;
    }
    json_t *roles = json_array();
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        if (job->role[r].present && !(ps_mode && r == API_WORKER)) {
            co_json_append(roles, json_string(api_role_name(r)));
        }
    }
    json_t *term = json_pack("{s:{s:{s:s},s:[{s:s,s:s,s:o}]},s:s}", "labelSelector", "matchLabels",
        API_LABEL_JOB, job->name, "matchExpressions", "key", API_LABEL_ROLE, "operator", "In",
        "values", roles, "topologyKey", "kubernetes.io/hostname");
    json_t *anti = plan_tree_need(
        plan_tree_need(spec, "affinity", json_object), "podAntiAffinity", json_object);
    json_t *list =
        plan_tree_need(anti, "requiredDuringSchedulingIgnoredDuringExecution", json_array);
    co_json_append(list, term);
}

static void apply_intranet(
    const struct api_job *job, enum api_role role, json_t *spec, json_t *first) {
    if (plan_job_named(job)) {
        co_json_append(plan_tree_need(first, "ports", json_array),
            json_pack("{s:i}", "containerPort", CO_PORT_BASE));
    } else if (job->intranet == API_HOST) {
        co_json_set(spec, "hostNetwork", json_true());
        /* The node's own resolver does not know Services, and the start gate is one. */
        if (!co_json_str(spec, "dnsPolicy")) {
            plan_tree_set_text(spec, "dnsPolicy", "ClusterFirstWithHostNet");
        }
        keep_apart(job, role, spec);
    }
}

/* If a program fails without writing a termination message, kubelet takes the end of its log. */
static void apply_message_policy(json_t *spec) {
    static const char *const lists[] = {"initContainers", "containers"};
    for (size_t l = 0; l < CO_ARRAY_LEN(lists); l++) {
        size_t i;
        json_t *c;
        json_array_foreach(json_object_get(spec, lists[l]), i, c) {
            if (json_is_object(c) && !co_json_str(c, "terminationMessagePolicy")) {
                plan_tree_set_text(c, "terminationMessagePolicy", "FallbackToLogsOnError");
            }
        }
    }
}

/* kubelet gives a container some variables for each Service of the namespace.  With a thousand of
 * them no program starts, "argument list too long"; and the ConfigMap lists the peers.  Only
 * elastic pods without names need such variables: they give etcd's address. */
static void apply_service_links(const struct api_job *job, json_t *spec) {
    const json_t *given = json_object_get(spec, "enableServiceLinks");
    bool wanted = job->elastic && !plan_job_named(job);
    if (!wanted && (!given || json_is_null(given))) {
        co_json_set(spec, "enableServiceLinks", json_false());
    }
}

/* Where backoffLimit or failurePolicy say what a failed pod means, kubelet must not restart its
 * containers: it would do so for ever, and nothing would count it. */
static void apply_restart_policy(const struct api_job *job, enum api_role role, json_t *spec) {
    const char *given = co_json_str(spec, "restartPolicy");
    if (api_job_restarts(job)) {
        plan_tree_set_text(spec, "restartPolicy", "Never");
    } else if (job->elastic) {
        plan_tree_set_text(spec, "restartPolicy", "OnFailure");
    } else if (!given || !*given) {
        bool restart = role == API_WORKER && plan_job_named(job);
        plan_tree_set_text(spec, "restartPolicy", restart ? "OnFailure" : "Never");
    }
}

/* Records which containers are the template's, and in which order: webhooks add others, and put
 * them first. */
static void name_containers(const json_t *tmpl, json_t *annotations) {
    CO_AUTOBUF struct co_buf names = CO_BUF(1 << 16);
    (void)json_object_del(annotations, API_ANNOTATION_CONTAINERS);
    size_t i;
    json_t *c;
    json_array_foreach(co_json_at(tmpl, "spec", "containers"), i, c) {
        const char *name = co_json_str(c, "name");
        if (!name || co_buf_addf(&names, NULL, "%s%s", i ? "," : "", name)) {
            return; /* the API server refuses such a pod */
        }
    }
    plan_tree_set_text(annotations, API_ANNOTATION_CONTAINERS, names.data);
}

json_t *plan_object_pod(const struct api_job *job, const json_t *tmpl, enum api_role role,
    int32_t index, const struct plan_settings *settings) {
    char name[API_NAME_MAX + 1];
    api_pod_name(job->name, role, index, name, sizeof(name));

    json_t *meta = template_metadata(tmpl);
    json_t *labels = plan_tree_need(meta, "labels", json_object);
    plan_tree_set_text(labels, API_LABEL_ROLE, api_role_name(role));
    plan_tree_set_number(labels, API_LABEL_INDEX, index);
    (void)json_object_del(labels, API_LABEL_ATTEMPT);
    if (job->attempt) { /* an absent label means 0; most jobs have one attempt */
        plan_tree_set_number(labels, API_LABEL_ATTEMPT, job->attempt);
    }
    plan_tree_set_text(labels, API_LABEL_UID, job->uid);
    json_t *annotations = plan_tree_need(meta, "annotations", json_object);
    plan_tree_set_text(annotations, API_ANNOTATION_ROLE, api_role_name(role));
    name_containers(tmpl, annotations);
    json_t *pod = plan_object_new(job, "Pod", name, meta);

    json_t *spec = plan_tree_copy(json_object_get(tmpl, "spec"));
    co_json_set(pod, "spec", spec);
    plan_tree_set_text(spec, "hostname", name);
    plan_tree_set_text(spec, "subdomain", job->intranet == API_DNS ? job->name : name);
    if (*job->priority_class && !co_json_str(spec, "priorityClassName") &&
        !json_object_get(spec, "priority")) {
        plan_tree_set_text(spec, "priorityClassName", job->priority_class);
    }
    json_t *first = json_array_get(json_object_get(spec, "containers"), 0);
    json_t *env = plan_tree_need(first, "env", json_array);
    plan_env_token(job, env); /* before the direct variables, see plan_env_direct_again */
    plan_env_direct(job, role, index, settings, spec, env);
    if (!job->elastic) {
        co_json_append(plan_tree_need(first, "envFrom", json_array),
            json_pack("{s:{s:s}}", "configMapRef", "name", job->name));
    }
    apply_intranet(job, role, spec, first);
    apply_restart_policy(job, role, spec);
    apply_service_links(job, spec);
    plan_gang_mark(job, role, settings, meta, spec);
    if (plan_gate_is_wanted(settings)) {
        json_t *gate = plan_gate_container(spec, settings);
        co_json_append(plan_tree_need(spec, "initContainers", json_array), gate);
    }
    apply_message_policy(spec);
    return pod;
}

/* Replaces a member by a shallow copy of it, and returns that. */
static json_t *own_member(json_t *obj, const char *key) {
    co_json_set(obj, key, json_copy(json_object_get(obj, key)));
    return json_object_get(obj, key);
}

json_t *plan_object_pod_like(const json_t *like, const struct api_job *job, enum api_role role,
    int32_t index, const struct plan_settings *settings) {
    char name[API_NAME_MAX + 1];
    api_pod_name(job->name, role, index, name, sizeof(name));
    json_t *pod = json_copy((json_t *)(uintptr_t)like);
    json_t *meta = own_member(pod, "metadata");
    json_t *labels = own_member(meta, "labels");
    json_t *spec = own_member(pod, "spec");
    json_t *list = own_member(spec, "containers");
    (void)json_array_set_new(list, 0, json_copy(json_array_get(list, 0)));
    plan_tree_set_text(meta, "name", name);
    plan_tree_set_text(labels, API_LABEL_NAME, name);
    plan_tree_set_number(labels, API_LABEL_INDEX, index);
    plan_tree_set_text(spec, "hostname", name);
    if (job->intranet != API_DNS) {
        plan_tree_set_text(spec, "subdomain", name);
    }
    plan_env_direct_again(
        job, role, index, settings, spec, own_member(json_array_get(list, 0), "env"));
    return pod;
}

/* The recursion is bounded: the parser limits the nesting. */
size_t plan_object_pod_bytes(const json_t *tmpl) { /* NOLINT(misc-no-recursion) */
    enum { VALUE = 100 };
    size_t n = VALUE + (json_is_string(tmpl) ? json_string_length(tmpl) : 0);
    const char *key;
    size_t i;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)tmpl, key, v) {
        n += strlen(key) + plan_object_pod_bytes(v);
    }
    json_array_foreach(tmpl, i, v) {
        n += plan_object_pod_bytes(v);
    }
    return n;
}
