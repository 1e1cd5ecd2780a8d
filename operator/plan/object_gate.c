/* The container, what it requests, and whose rejection a message describes. */
#include "operator/plan/object_gate.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "operator/api/resources.h"
#include "operator/plan/tree.h"

/* The user of the gate's image, which has no rights. */
enum { GATE_USER = 65532 };

bool plan_gate_is_wanted(const struct plan_settings *settings) {
    return settings->gate_image && *settings->gate_image && settings->gate_addr &&
           *settings->gate_addr;
}

/* ---- the container -------------------------------------------------------------------------- */

static json_t *field_env(const char *name, const char *path) {
    return json_pack("{s:s,s:{s:{s:s}}}", "name", name, "valueFrom", "fieldRef", "fieldPath", path);
}

static json_t *make_env(const struct plan_settings *settings) {
    json_t *env = json_array();
    json_t *addr = json_object();
    plan_tree_set_text(addr, "name", co_contract[CO_VAR_GATE_ADDR].name);
    plan_tree_set_text(addr, "value", settings->gate_addr);
    co_json_append(env, addr);
    co_json_append(env, field_env(co_contract[CO_VAR_POD_NAMESPACE].name, "metadata.namespace"));
    co_json_append(env, field_env(co_contract[CO_VAR_POD_NAME].name, "metadata.name"));
    co_json_append(env, field_env(co_contract[CO_VAR_POD_UID].name, "metadata.uid"));
    co_json_append(env, field_env(co_contract[CO_VAR_POD_IPS].name, "status.podIPs"));
    return env;
}

static const json_t *first_container(const json_t *spec) {
    return json_array_get(json_object_get(spec, "containers"), 0);
}

static bool is_root(const json_t *id) {
    return json_is_integer(id) && json_integer_value(id) == 0;
}

/* No user of its own: a namespace may prescribe a range of users, and set one where none is given.
 * A user that the template gives its first container is the gate's, too.  If the pod is root's, the
 * gate is not. */
static json_t *make_security(const json_t *spec) {
    json_t *s = json_pack("{s:b,s:b,s:b,s:{s:[s]},s:{s:s}}", "allowPrivilegeEscalation", 0,
        "readOnlyRootFilesystem", 1, "runAsNonRoot", 1, "capabilities", "drop", "ALL",
        "seccompProfile", "type", "RuntimeDefault");
    const json_t *own = json_object_get(first_container(spec), "securityContext");
    const json_t *user = json_object_get(own, "runAsUser");
    const json_t *group = json_object_get(own, "runAsGroup");
    if (json_is_integer(user) && !is_root(user)) {
        co_json_set(s, "runAsUser", plan_tree_copy(user));
    } else if (is_root(co_json_at(spec, "securityContext", "runAsUser"))) {
        co_json_set(s, "runAsUser", json_integer(GATE_USER));
    }
    if (json_is_integer(group)) {
        co_json_set(s, "runAsGroup", plan_tree_copy(group));
    }
    return s;
}

/* The settings say what it needs at least.  Of what the first container requests it takes as much,
 * so that a LimitRange's minimum for containers does not reject it. */
json_t *plan_gate_requests(const json_t *spec, const struct plan_settings *settings) {
    static const char *const kinds[] = {"cpu", "memory", "ephemeral-storage"};
    json_t *list = NULL;
    if (!plan_gate_is_wanted(settings) ||
        api_resources_parse(
            settings->gate_resources ? settings->gate_resources : "", &list, NULL)) {
        return NULL;
    }
    CO_AUTOJSON json_t *theirs = api_resources_of(first_container(spec));
    CO_AUTOJSON json_t *taken = json_object();
    for (size_t i = 0; i < CO_ARRAY_LEN(kinds); i++) {
        json_t *j = json_object_get(theirs, kinds[i]);
        co_json_set(taken, kinds[i], j ? json_incref(j) : NULL);
    }
    api_resources_raise(list, taken);
    return list;
}

json_t *plan_gate_container(const json_t *spec, const struct plan_settings *settings) {
    json_t *c = json_object();
    plan_tree_set_text(c, "name", API_GATE_CONTAINER);
    plan_tree_set_text(c, "image", settings->gate_image);
    plan_tree_set_text(c, "imagePullPolicy", "IfNotPresent");
    co_json_set(c, "command", json_pack("[s]", "/paddle-gate"));
    co_json_set(c, "env", make_env(settings));
    CO_AUTOJSON json_t *requests = plan_gate_requests(spec, settings);
    if (json_object_size(requests)) {
        co_json_set(
            c, "resources", json_pack("{s:O,s:O}", "requests", requests, "limits", requests));
    }
    co_json_set(c, "securityContext", make_security(spec));
    return c;
}

/* ---- rejections ----------------------------------------------------------------------------- */

/* The template's author did not write the container that the operator adds, and cannot change it.
 */

/* The message has this word, and it ends there. */
static bool has_word(const char *message, const char *word) {
    size_t n = strlen(word);
    for (const char *at = message; (at = strstr(at, word)); at += n) {
        if (!isalnum((unsigned char)at[n]) && at[n] != '.') {
            return true;
        }
    }
    return false;
}

static bool container_has(
    const json_t *c, const char *resource, const struct api_quantity *amount) {
    static const char *const lists[] = {"requests", "limits"};
    bool has = false;
    for (size_t i = 0; i < CO_ARRAY_LEN(lists); i++) {
        const json_t *j = json_object_get(co_json_at(c, "resources", lists[i]), resource);
        struct api_quantity q;
        has = has || (j && !api_quantity_decode(j, &q, NULL) && q.nano == amount->nano);
    }
    return has;
}

/* A container of the job's own has this amount: a message about it means that one, as the gate
 * takes as much as the first container. */
static bool templates_have(const struct api_job *job, const char *resource, const json_t *amount) {
    static const char *const lists[] = {"containers", "initContainers"};
    struct api_quantity q;
    bool has = api_quantity_decode(amount, &q, NULL) != 0;
    for (size_t i = 0; i < CO_ARRAY_LEN(lists) * API_ROLES; i++) {
        const json_t *tmpl = job->role[i % API_ROLES].tmpl;
        size_t k;
        json_t *c;
        json_array_foreach(co_json_at(tmpl, "spec", lists[i / API_ROLES]), k, c) {
            has = has || container_has(c, resource, &q);
        }
    }
    return has;
}

/* A LimitRange rejects a container, and says which amount: that of the gate alone. */
static bool is_limited(const struct api_job *job, const char *message, const json_t *requests) {
    static const char *const words[] = {"request is", "limit is"};
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)requests, name, j) {
        CO_AUTOFREE char *usage = co_xasprintf("imum %s usage per Container", name);
        for (size_t i = 0; i < CO_ARRAY_LEN(words); i++) {
            CO_AUTOFREE char *has = co_xasprintf("%s %s", words[i], json_string_value(j));
            if (strstr(message, usage) && has_word(message, has) && !templates_have(job, name, j)) {
                return true;
            }
        }
    }
    return false;
}

static const json_t *last_of(const json_t *list) {
    return json_array_size(list) ? json_array_get(list, json_array_size(list) - 1) : NULL;
}

const char *plan_advice(
    const struct api_job *job, const struct plan_action *a, const char *message) {
    const json_t *gate = last_of(a->inits);
    if (!co_streq(co_json_str(gate, "name"), API_GATE_CONTAINER)) {
        return NULL;
    }
    const char *image = co_json_str(gate, "image");
    CO_AUTOFREE char *path = co_xasprintf("initContainers[%zu]", json_array_size(a->inits) - 1);
    bool meant = strstr(message, API_GATE_CONTAINER) || strstr(message, path) ||
                 (image && *image && strstr(message, image)) ||
                 is_limited(job, message, co_json_at(gate, "resources", "requests"));
    return meant ? "the start gate is meant, init container " API_GATE_CONTAINER
                   ": the operator's flags --gate-resources and --initImage set what it takes and "
                   "its image, an empty --initImage= leaves it out"
                 : NULL;
}
