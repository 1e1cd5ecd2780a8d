/* Any JSON as a job and as each of its children: nothing crashes, what is validated twice has
 * the same problems, its head is the same without a tree, and a name never leads to a pod beyond
 * the limit without a problem. */
#include <string.h>

#include "operator/api/child.h"
#include "operator/api/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A string ends there in the tree, and has U+FFFD there in nodes; no name that the API server takes
 * has one. */
static bool has_escaped_nul(const char *text, size_t len) {
    return memmem(text, len, "\\u0000", 6) != NULL;
}

static void check_head(const char *text, size_t len, const struct api_job *job) {
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    struct api_job_head h;
    if (co_jdoc_read(text, len, NULL, &doc, NULL) || api_job_head_read(doc.node, &h, NULL) ||
        strcmp(h.name, job->name) != 0 || strcmp(h.ns, job->ns) != 0 || h.created != job->created ||
        h.phase != job->phase || h.deleting != job->deleting || h.elsewhere != job->elsewhere) {
        abort();
    }
}

static void check_job(const json_t *obj, const char *text, size_t len) {
    struct api_job *job = NULL;
    if (api_job_decode(json_incref((json_t *)(uintptr_t)obj), &job, NULL)) {
        return;
    }
    if (!has_escaped_nul(text, len)) {
        check_head(text, len, job);
    }
    struct api_problem strict[API_PROBLEMS_MAX];
    size_t n = api_job_validate(obj, true, strict, API_PROBLEMS_MAX);
    if (n < job->n_problems) {
        abort();
    }
    for (size_t i = 0; i < job->n_problems; i++) {
        if (strncmp(job->problems[i].path, job->problems[i].message,
                strlen(job->problems[i].path)) != 0) {
            abort();
        }
    }
    for (enum api_role r = API_PS; r < API_ROLES && job->n_problems == 0; r++) {
        char name[API_NAME_MAX + 64];
        int32_t last = job->role[r].replicas - 1;
        if (last < 0) {
            continue;
        }
        api_pod_name(job->name, r, last, name, sizeof(name));
        if (strlen(name) > API_NAME_MAX || api_pod_name_index(job->name, r, name) != last) {
            abort();
        }
    }
    api_job_free(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    if (!co_jdoc_read((const char *)data, size, NULL, &doc, NULL)) {
        free(api_pod_read(doc.node));
        free(api_service_read(doc.node));
        free(api_configmap_read(doc.node));
        free(api_podgroup_read(doc.node));
    }
    CO_AUTOJSON json_t *obj = NULL;
    if (co_json_parse((const char *)data, size, &obj, NULL)) {
        return 0;
    }
    check_job(obj, (const char *)data, size);
    struct api_pod *pod = (struct api_pod *)api_child_of_tree(api_pod_read, obj);
    if (pod && api_pod_differs(&pod->c, &pod->c)) {
        abort();
    }
    free(pod);
    return 0;
}
