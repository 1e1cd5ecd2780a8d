/* Finds the templates that an attempt began with, by the hashes in status.began. */
#include "operator/plan/templates.h"

#include <stdio.h>
#include <string.h>

#include "operator/api/began.h"

/* As status.began says, or will say: the first plan of an attempt takes what the spec has. */
static uint32_t began_hash(const struct plan_children *w, enum api_role role) {
    const char *began = co_json_str(w->job->status, "began");
    struct api_shape shape;
    return api_began_read(began, &shape) ? api_began_hash_of(began, role)
                                         : api_began_hash(w->job->role[role].tmpl);
}

static bool configmap_has(const struct plan_children *w, enum api_role role, uint32_t hash) {
    return w->configmap && w->configmap->templates[role] == hash;
}

/* The role's template of `all` if it is the one. */
static const json_t *find(const json_t *all, enum api_role role, uint32_t hash) {
    const json_t *tmpl = json_object_get(all, api_role_name(role));
    bool good = tmpl && api_began_hash(tmpl) == hash && api_job_template_is_good(tmpl);
    return good ? tmpl : NULL;
}

/* The role's pods keep a template that differs from the spec's, and something has it. */
static bool is_kept(const struct plan_children *w, enum api_role role, uint32_t *ret_hash) {
    const char *began = co_json_str(w->job->status, "began");
    if (!began || api_began_is_current(began, w->job) ||
        !api_began_template_differs(began, w->job, role) || !plan_children_has_started(w)) {
        return false;
    }
    *ret_hash = api_began_hash_of(began, role);
    return configmap_has(w, role, *ret_hash) || find(w->job->templates, role, *ret_hash);
}

const json_t *plan_templates_get(const struct plan_children *w, enum api_role role) {
    uint32_t hash = 0;
    if (!is_kept(w, role, &hash)) {
        return w->job->role[role].tmpl;
    }
    const json_t *read = find(w->seen->templates, role, hash);
    return read ? read : find(w->job->templates, role, hash);
}

bool plan_templates_known(const struct plan_children *w) {
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        if (w->job->role[r].tmpl && !plan_templates_get(w, r)) {
            return false;
        }
    }
    return true;
}

json_t *plan_templates_missing(const struct plan_children *w) {
    json_t *missing = NULL;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        uint32_t hash = began_hash(w, r);
        if (!hash || configmap_has(w, r, hash)) {
            continue;
        }
        const json_t *tmpl = w->job->role[r].tmpl;
        tmpl = api_began_hash(tmpl) == hash ? tmpl : find(w->job->templates, r, hash);
        CO_AUTOFREE char *text = tmpl ? co_json_dump_sorted(tmpl) : NULL;
        if (text && strlen(text) <= API_BEGAN_TEMPLATE_MAX) {
            missing = missing ? missing : json_object();
            co_json_set(missing, api_began_annotation(r), json_string(text));
        }
    }
    return missing;
}

bool plan_templates_in_status_only(const struct plan_children *w) {
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        uint32_t hash = began_hash(w, r);
        if (find(w->job->templates, r, hash) && !configmap_has(w, r, hash)) {
            return true;
        }
    }
    return false;
}

bool plan_templates_changed(const struct plan_children *w, char *ret, size_t size) {
    char fields[224]; /* which leaves room for the rest of the text */
    const char *began = co_json_str(w->job->status, "began");
    if (!began || !plan_children_has_pods(w) ||
        !api_began_differs(began, w->job, fields, sizeof(fields))) {
        return false;
    }
    bool mixed = false;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        uint32_t hash;
        mixed |= api_began_template_differs(began, w->job, r) && !is_kept(w, r, &hash);
    }
    (void)snprintf(ret, size,
        "%s changed; nothing happens until the group restarts: its pods keep what they began with, "
        "and one that is recreated alone gets %s; to apply the change now, suspend the job and "
        "resume it",
        fields, mixed ? "the new template" : "that too");
    return true;
}
