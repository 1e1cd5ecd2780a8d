/* Bodies and patches of objects other than pods. */
#include "operator/plan/objects.h"

#include "common/contract.h"
#include "operator/plan/tree.h"

/* ---- metadata ------------------------------------------------------------------------------- */

static void set_owner(const struct api_job *job, json_t *meta) {
    co_json_set(meta, "ownerReferences",
        json_pack("[{s:s,s:s,s:s,s:s,s:b,s:b}]", "apiVersion", API_VERSION, "kind", API_KIND,
            "name", job->name, "uid", job->uid, "controller", 1, "blockOwnerDeletion", 1));
}

/* apiVersion, kind and metadata with our two common labels. */
json_t *plan_object_new(
    const struct api_job *job, const char *kind, const char *name, json_t *meta_own) {
    json_t *obj = json_object();
    plan_tree_set_text(obj, "apiVersion", "v1");
    plan_tree_set_text(obj, "kind", kind);
    plan_tree_set_text(meta_own, "name", name);
    plan_tree_set_text(meta_own, "namespace", job->ns);
    json_t *labels = plan_tree_need(meta_own, "labels", json_object);
    plan_tree_set_text(labels, API_LABEL_NAME, name);
    plan_tree_set_text(labels, API_LABEL_JOB, job->name);
    set_owner(job, meta_own);
    co_json_set(obj, "metadata", meta_own);
    return obj;
}

/* ---- Services and ConfigMaps ---------------------------------------------------------------- */

/* A headless Service.  publishNotReadyAddresses: pods resolve each other's names before they are
 * ready. */
static json_t *make_headless(
    const struct api_job *job, const char *name, const char *label, const char *value) {
    json_t *ports = json_array();
    for (int i = 0; i < CO_PORT_SPAN; i++) {
        CO_AUTOFREE char *port = co_xasprintf("p-%d", i);
        co_json_append(ports, json_pack("{s:s,s:i}", "name", port, "port", CO_PORT_BASE + i));
    }
    json_t *svc = plan_object_new(job, "Service", name, json_object());
    co_json_set(svc, "spec",
        json_pack("{s:s,s:b,s:{s:s},s:o}", "clusterIP", "None", "publishNotReadyAddresses", 1,
            "selector", label, value, "ports", ports));
    return svc;
}

json_t *plan_object_service(const struct api_job *job, const char *name) {
    return make_headless(job, name, API_LABEL_NAME, name);
}

json_t *plan_object_job_service(const struct api_job *job) {
    return make_headless(job, job->name, API_LABEL_JOB, job->name);
}

/* Adds the label by which the watch selects it. */
json_t *plan_object_service_patch(const struct api_job *job, const struct api_service *have) {
    return json_pack("{s:{s:s,s:{s:s,s:s}}}", "metadata", "uid", have->c.uid, "labels",
        API_LABEL_NAME, have->c.name, API_LABEL_JOB, job->name);
}

json_t *plan_object_configmap(const struct api_job *job, json_t *data_own, json_t *notes_own) {
    json_t *cm = plan_object_new(job, "ConfigMap", job->name, json_object());
    co_json_set(json_object_get(cm, "metadata"), "annotations", notes_own);
    plan_tree_set_number(co_json_at(cm, "metadata", "labels"), API_LABEL_ATTEMPT, job->attempt);
    co_json_set(cm, "data", data_own);
    return cm;
}

/* Sets our keys, removes those of ours that are not needed any more, and keeps the user's keys. */
json_t *plan_object_configmap_patch(
    const struct api_configmap *have, json_t *data_own, int64_t changed, json_t *notes_own) {
    for (enum co_var var = 0; data_own && var < CO_VAR_COUNT; var++) {
        const char *key = co_contract[var].name;
        if (co_contract[var].via == CO_VIA_CONFIGMAP && !json_object_get(data_own, key)) {
            co_json_set(data_own, key, json_null());
        }
    }
    json_t *meta = json_pack("{s:s}", "uid", have->c.uid);
    co_json_set(meta, "annotations", notes_own);
    if (changed) {
        plan_tree_set_time(
            plan_tree_need(meta, "annotations", json_object), API_ANNOTATION_CHANGED, changed);
    }
    json_t *patch = json_pack("{s:o}", "metadata", meta);
    co_json_set(patch, "data", data_own);
    return patch;
}

/* Immutable, because a change would reach some pods and not others. */
json_t *plan_object_secret(const struct api_job *job) {
    CO_AUTOFREE char *name = api_token_name(job);
    json_t *secret = plan_object_new(job, "Secret", name, json_object());
    plan_tree_set_text(co_json_at(secret, "metadata", "labels"), API_LABEL_NAME, job->name);
    co_json_set(secret, "immutable", json_true());
    return secret;
}

json_t *plan_object_finalizer_patch(const struct api_job *job) {
    json_t *keep = json_array();
    size_t i;
    json_t *f;
    json_array_foreach(co_json_at(job->json, "metadata", "finalizers"), i, f) {
        if (!co_streq(json_string_value(f), API_FINALIZER)) {
            co_json_append(keep, json_incref(f));
        }
    }
    return json_pack(
        "{s:{s:s,s:o}}", "metadata", "resourceVersion", job->resource_version, "finalizers", keep);
}
