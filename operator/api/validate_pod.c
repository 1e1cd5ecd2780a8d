/* Walks a template: words, names that must be unique or refer to something, resources, labels. */
#include "operator/api/validate_pod.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"
#include "common/word_list.h"
#include "operator/api/quantity.h"
#include "operator/api/spelling.h"
#include "operator/api/validate_labels.h"
#include "operator/api/validate_parts.h"

enum { QUANTITY_ONE = 1000000000 }; /* in nano */

struct pod_walk {
    struct co_findings *to;
    bool host;          /* the pod is on its node's network */
    json_t *node_ports; /* borrowed: the ports of the node that its containers take */
};

static bool is_absent(const json_t *j) {
    return !j || json_is_null(j);
}

/* ---- words ---------------------------------------------------------------------------------- */

static const struct allowed_words {
    const char *key;
    const char *words[5];
} spec_words[] =
    {
        {"restartPolicy", {"OnFailure", "Never", "Always"}},
        {"dnsPolicy", {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"}},
        {"preemptionPolicy", {"PreemptLowerPriority", "Never"}},
        {0},
},
  container_words[] =
      {
          {"imagePullPolicy", {"IfNotPresent", "Always", "Never"}},
          {"terminationMessagePolicy", {"File", "FallbackToLogsOnError"}},
          {"restartPolicy", {"Always", "OnFailure", "Never"}},
          {0},
},
  toleration_words[] =
      {
          {"operator", {"Exists", "Equal", "Lt", "Gt"}},
          {"effect", {"NoSchedule", "PreferNoSchedule", "NoExecute"}},
          {0},
},
  port_words[] = {{"protocol", {"TCP", "UDP", "SCTP"}}, {0}},
  rule_words[] = {{"action", {"Restart", "RestartAllContainers"}}, {0}},
  code_words[] = {{"operator", {"In", "NotIn"}}, {0}};

static void check_words(
    struct pod_walk *w, const json_t *obj, const char *base, const struct allowed_words *rows) {
    for (; rows->key; rows++) {
        const json_t *j = json_object_get(obj, rows->key);
        const char *text = json_string_value(j);
        size_t i = 0;
        char list[120] = "";
        for (; i < CO_ARRAY_LEN(rows->words) && rows->words[i]; i++) {
            if (text && (!*text || strcmp(text, rows->words[i]) == 0)) {
                break;
            }
            co_word_list_add(list, sizeof(list), "%s", rows->words[i]);
        }
        if (!is_absent(j) && (i == CO_ARRAY_LEN(rows->words) || !rows->words[i])) {
            CO_AUTOFREE char *path = co_xasprintf("%s.%s", base, rows->key);
            CO_AUTOFREE char *given = json_dumps(j, JSON_ENCODE_ANY);
            co_finding(w->to, path, "is %.60s, expected one of %s", given ? given : "", list);
        }
    }
}

/* ---- names ---------------------------------------------------------------------------------- */

/* The path of a list's item; the caller frees it. */
static char *item_path(const char *base, const char *list, size_t i) {
    return co_xasprintf("%s.%s.%zu", base, list, i);
}

/* Notes a name in `seen`; says so if it is there already. */
static void note_name(struct pod_walk *w, json_t *seen, const char *name, const char *path) {
    if (json_object_get(seen, name)) {
        co_finding(w->to, path, "is \"%.63s\", as another one before it: they must differ", name);
    }
    co_json_set(seen, name, json_true());
}

/* The name of an item that must have one; NULL when it is none. */
static const char *check_name(
    struct pod_walk *w, const json_t *item, const char *base, enum api_spelling as, json_t *seen) {
    const char *name = co_json_str(item, "name");
    CO_AUTOFREE char *path = co_xasprintf("%s.name", base);
    if (!name || !*name) {
        co_finding(w->to, path, "is missing");
        return NULL;
    }
    if (!api_is_spelled(as, name, strlen(name))) {
        co_finding(w->to, path, "is \"%.*s\": use %s", co_utf8_fit(name, 80), name,
            api_spelling_words(as));
        return NULL;
    }
    note_name(w, seen, name, path);
    return name;
}

/* ---- resources ------------------------------------------------------------------------------ */

static bool is_device(const char *name) {
    return (strchr(name, '/') && !strstr(name, "kubernetes.io/")) ||
           strncmp(name, "hugepages-", 10) == 0;
}

static bool is_resource(const char *name) {
    static const char *const known[] = {"cpu", "memory", "ephemeral-storage"};
    bool found = is_device(name) || strchr(name, '/');
    for (size_t i = 0; i < CO_ARRAY_LEN(known); i++) {
        found = found || strcmp(name, known[i]) == 0;
    }
    return found;
}

/* The path has the resource's name, which may have dots, as its end. */
static void check_list(struct pod_walk *w, const json_t *list, const char *base) {
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)list, name, j) {
        struct api_quantity q;
        struct co_err err = {0};
        if (!is_resource(name)) {
            co_finding(w->to, base,
                "has \"%.*s\", which is no resource: expected cpu, memory, ephemeral-storage, "
                "hugepages-SIZE or DOMAIN/NAME, as nvidia.com/gpu",
                co_utf8_fit(name, 60), name);
        } else if (api_quantity_decode(j, &q, &err)) {
            co_finding(w->to, base, "has %.60s: %s", name, co_err_text(&err));
        } else if (q.nano < 0) {
            co_finding(w->to, base, "has %.60s, which is negative", name);
        } else if (is_device(name) && q.nano % QUANTITY_ONE != 0) {
            co_finding(w->to, base, "has a part of a %.60s, expected a whole number of them", name);
        }
    }
}

static void compare(struct pod_walk *w, const char *base, const char *name, const json_t *request,
    const json_t *limit) {
    struct api_quantity r, l;
    if (is_absent(limit)) {
        if (is_device(name)) {
            co_finding(w->to, base,
                "has no limit of %.60s: devices are given by the limit, so name it there", name);
        }
        return;
    }
    if (api_quantity_decode(request, &r, NULL) || api_quantity_decode(limit, &l, NULL)) {
        return;
    }
    if (r.nano > l.nano) {
        co_finding(w->to, base, "requests more %.60s than its limit", name);
    } else if (is_device(name) && r.nano != l.nano) {
        co_finding(w->to, base,
            "requests another number of %.60s than its limit: they must be the same", name);
    }
}

static void check_resources(struct pod_walk *w, const json_t *owner, const char *base) {
    static const char *const lists[] = {"requests", "limits"};
    CO_AUTOFREE char *path = co_xasprintf("%s.resources", base);
    const json_t *limits = co_json_at(owner, "resources", "limits");
    const char *name;
    json_t *j;
    for (size_t i = 0; i < CO_ARRAY_LEN(lists); i++) {
        CO_AUTOFREE char *at = co_xasprintf("%s.%s", path, lists[i]);
        check_list(w, co_json_at(owner, "resources", lists[i]), at);
    }
    json_object_foreach(co_json_at(owner, "resources", "requests"), name, j) {
        compare(w, path, name, j, json_object_get(limits, name));
    }
}

/* ---- containers ----------------------------------------------------------------------------- */

static bool is_env_name(const char *s) {
    while (*s >= ' ' && *s <= '~' && *s != '=') {
        s++;
    }
    return !*s;
}

/* The first object of a list at *i or later, which becomes its place; NULL: there is none. */
static json_t *object_from(const json_t *list, size_t *i) {
    while (*i < json_array_size(list) && !json_is_object(json_array_get(list, *i))) {
        (*i)++; /* crd_find_mistyped says so */
    }
    return json_array_get(list, *i);
}

#define each_object(i, item, list) for ((i) = 0; ((item) = object_from(list, &(i))); (i)++)

static void check_env(struct pod_walk *w, const json_t *container, const char *base) {
    CO_AUTOJSON json_t *seen = json_object();
    size_t i;
    json_t *e;
    each_object(i, e, json_object_get(container, "env")) {
        CO_AUTOFREE char *path = item_path(base, "env", i);
        const char *name = co_json_str(e, "name");
        const json_t *value = json_object_get(e, "value");
        if (!name || !*name) {
            co_finding(w->to, path, "has no name");
            continue;
        }
        note_name(w, seen, name, path);
        if (!is_env_name(name)) {
            co_finding(w->to, path, "is \"%.63s\": use printable ASCII characters but '='", name);
        }
        if (json_string_length(value) && !is_absent(json_object_get(e, "valueFrom"))) {
            co_finding(w->to, path, "has both value and valueFrom");
        }
    }
}

enum { PORT_MAX = 65535 };

static bool is_port(int64_t number) {
    return number >= 1 && number <= PORT_MAX;
}

static void check_ports(struct pod_walk *w, const json_t *container, const char *base) {
    CO_AUTOJSON json_t *names = json_object();
    CO_AUTOJSON json_t *numbers = json_object();
    size_t i;
    json_t *p;
    each_object(i, p, json_object_get(container, "ports")) {
        CO_AUTOFREE char *path = item_path(base, "ports", i);
        const json_t *given = json_object_get(p, "containerPort");
        int64_t number = json_integer_value(given);
        const char *protocol = co_json_str(p, "protocol");
        check_words(w, p, path, port_words);
        if (!is_absent(json_object_get(p, "name"))) {
            (void)check_name(w, p, path, API_PORT_NAME, names);
        }
        if (!is_absent(given) && !json_is_number(given)) {
            continue; /* crd_find_mistyped says so */
        }
        if (!is_port(number)) {
            co_finding(
                w->to, path, "has containerPort %" PRId64 ": expected 1 to %d", number, PORT_MAX);
            continue;
        }
        int64_t node = json_integer_value(json_object_get(p, "hostPort"));
        if (node && !is_port(node)) {
            co_finding(w->to, path, "has hostPort %" PRId64 ": expected 1 to %d", node, PORT_MAX);
        }
        CO_AUTOFREE char *key =
            co_xasprintf("%" PRId64 "/%.8s", number, protocol ? protocol : "TCP");
        note_name(w, numbers, key, path);
    }
}

/* The ports of its node that a container takes: on the node's network, all that it names.  The API
 * server looks at those of init containers no further. */
static void check_node_ports(struct pod_walk *w, const json_t *container, const char *base) {
    size_t i;
    json_t *p;
    json_array_foreach(json_object_get(container, "ports"), i, p) {
        int64_t number = json_integer_value(json_object_get(p, "containerPort"));
        int64_t node = json_integer_value(json_object_get(p, "hostPort"));
        const char *protocol = co_json_str(p, "protocol"), *ip = co_json_str(p, "hostIP");
        CO_AUTOFREE char *path = item_path(base, "ports", i);
        if (w->host && node && node != number) {
            co_finding(w->to, path,
                "has hostPort %" PRId64 " and containerPort %" PRId64
                ": on the network of its node (hostNetwork, intranet Host) they must be the same",
                node, number);
            continue;
        }
        node = w->host ? number : node;
        CO_AUTOFREE char *key =
            co_xasprintf("%" PRId64 "/%.8s/%.64s", node, protocol ? protocol : "TCP", ip ? ip : "");
        if (node && json_object_get(w->node_ports, key)) {
            co_finding(
                w->to, path, "takes port %" PRId64 " of the node, as another one before it", node);
        }
        co_json_set(w->node_ports, key, json_true());
    }
}

/* kubelet's way to restart a container only after some exit codes. */
static void check_restart_rules(struct pod_walk *w, const json_t *container, const char *base) {
    const json_t *rules = json_object_get(container, "restartPolicyRules");
    size_t i;
    json_t *rule;
    if (json_array_size(rules) &&
        !json_string_length(json_object_get(container, "restartPolicy"))) {
        co_finding(w->to, base,
            "has restartPolicyRules, but no restartPolicy, which all other codes need");
    }
    json_array_foreach(rules, i, rule) {
        CO_AUTOFREE char *path = item_path(base, "restartPolicyRules", i);
        CO_AUTOFREE char *codes = co_xasprintf("%s.exitCodes", path);
        check_words(w, rule, path, rule_words);
        check_words(w, json_object_get(rule, "exitCodes"), codes, code_words);
    }
}

static void check_mounts(
    struct pod_walk *w, const json_t *container, const char *base, const json_t *volumes) {
    CO_AUTOJSON json_t *paths = json_object();
    size_t i;
    json_t *m;
    each_object(i, m, json_object_get(container, "volumeMounts")) {
        CO_AUTOFREE char *path = item_path(base, "volumeMounts", i);
        const char *name = co_json_str(m, "name");
        const char *where = co_json_str(m, "mountPath");
        if (!name || !json_object_get(volumes, name)) {
            co_finding(w->to, path, "mounts \"%.63s\", but spec.volumes has no volume of that name",
                name ? name : "");
        }
        if (!where || !*where) {
            co_finding(w->to, path, "has no mountPath");
        } else {
            note_name(w, paths, where, path);
        }
    }
}

static void check_container(
    struct pod_walk *w, const json_t *c, const char *base, json_t *names, const json_t *volumes) {
    const char *name = check_name(w, c, base, API_LABEL, names);
    const char *image = co_json_str(c, "image");
    if (co_streq(name, API_GATE_CONTAINER)) {
        co_finding(w->to, base,
            "is called " API_GATE_CONTAINER ", as the start gate that the operator adds");
    }
    if (!image || !*image) {
        co_finding(w->to, base, "has no image");
    }
    check_words(w, c, base, container_words);
    check_env(w, c, base);
    check_ports(w, c, base);
    check_restart_rules(w, c, base);
    check_mounts(w, c, base, volumes);
    check_resources(w, c, base);
}

/* What only containers have that run beside the training. */
static void check_init_container(struct pod_walk *w, const json_t *c, const char *base) {
    static const char *const fields[] = {
        "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"};
    bool beside = co_streq(co_json_str(c, "restartPolicy"), "Always");
    for (size_t i = 0; i < CO_ARRAY_LEN(fields) && !beside; i++) {
        if (!is_absent(json_object_get(c, fields[i]))) {
            co_finding(w->to, base,
                "has a %s, which init containers may have with restartPolicy Always only",
                fields[i]);
        }
    }
}

/* ---- the pod -------------------------------------------------------------------------------- */

/* Names of the volumes. */
static json_t *check_volumes(struct pod_walk *w, const json_t *spec, const char *base) {
    json_t *names = json_object();
    size_t i;
    json_t *v;
    each_object(i, v, json_object_get(spec, "volumes")) {
        CO_AUTOFREE char *path = item_path(base, "volumes", i);
        (void)check_name(w, v, path, API_LABEL, names);
        if (json_object_size(v) > 2) {
            co_finding(w->to, path, "has more than one source");
        }
    }
    return names;
}

static void check_tolerations(struct pod_walk *w, const json_t *spec, const char *base) {
    size_t i;
    json_t *t;
    each_object(i, t, json_object_get(spec, "tolerations")) {
        CO_AUTOFREE char *path = item_path(base, "tolerations", i);
        bool exists = co_streq(co_json_str(t, "operator"), "Exists");
        check_words(w, t, path, toleration_words);
        if (exists && json_string_length(json_object_get(t, "value"))) {
            co_finding(
                w->to, path, "has a value, but operator Exists takes any: leave one of them out");
        } else if (!exists && !json_string_length(json_object_get(t, "key"))) {
            co_finding(w->to, path,
                "has no key: name the taint, or set operator to Exists for all of them");
        }
    }
}

/* Those of the pod and of its volumes, and what chooses nodes, other pods and volumes. */
static void check_labels(struct pod_walk *w, const json_t *tmpl, const char *base) {
    const json_t *spec = json_object_get(tmpl, "spec");
    CO_AUTOFREE char *metadata = co_xasprintf("%s.metadata", base);
    api_labels_validate(json_object_get(tmpl, "metadata"), metadata, w->to);
    CO_AUTOFREE char *path = co_xasprintf("%s.spec", base);
    CO_AUTOJSON json_t *chooses = json_object();
    static const char *const keys[] = {"nodeSelector", "affinity", "topologySpreadConstraints"};
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        co_json_set(chooses, keys[i], json_incref(json_object_get(spec, keys[i])));
    }
    api_labels_validate(chooses, path, w->to);
    size_t v;
    json_t *volume;
    json_array_foreach(json_object_get(spec, "volumes"), v, volume) {
        CO_AUTOFREE char *at =
            co_xasprintf("%s.volumes.%zu.ephemeral.volumeClaimTemplate", path, v);
        api_labels_validate(co_json_at(volume, "ephemeral", "volumeClaimTemplate"), at, w->to);
    }
}

void api_template_validate(
    const json_t *tmpl, struct api_template_use use, const char *base, struct co_findings *to) {
    static const char *const lists[] = {"initContainers", "containers"};
    const json_t *spec = json_object_get(tmpl, "spec");
    CO_AUTOJSON json_t *node_ports = json_object();
    struct pod_walk w = {.to = to,
        .host = use.host || json_is_true(json_object_get(spec, "hostNetwork")),
        .node_ports = node_ports};
    CO_AUTOFREE char *path = co_xasprintf("%s.spec", base);
    check_words(&w, spec, path, spec_words);
    if (use.ends && co_streq(co_json_str(spec, "restartPolicy"), "Always")) {
        CO_AUTOFREE char *at = co_xasprintf("%s.restartPolicy", path);
        co_finding(to, at,
            "is Always: a container that has succeeded is started again, so that the job never "
            "ends; use OnFailure or Never");
    }
    CO_AUTOJSON json_t *volumes = check_volumes(&w, spec, path);
    CO_AUTOJSON json_t *names = json_object();
    for (size_t l = 0; l < CO_ARRAY_LEN(lists); l++) {
        size_t i;
        json_t *c;
        each_object(i, c, json_object_get(spec, lists[l])) {
            CO_AUTOFREE char *at = item_path(path, lists[l], i);
            check_container(&w, c, at, names, volumes);
            (l == 0 ? check_init_container : check_node_ports)(&w, c, at);
        }
    }
    if (json_array_size(json_object_get(spec, "ephemeralContainers"))) {
        co_finding(to, path, "has ephemeralContainers, which a pod cannot be created with");
    }
    check_resources(&w, spec, path);
    check_tolerations(&w, spec, path);
    check_labels(&w, tmpl, base);
    api_parts_validate(spec, path, to);
}
