/* Decodes Services, ConfigMaps and PodGroups (pods: pod.c), and hashes what is compared of them. */
#include "operator/api/child.h"

#include <string.h>

#include "common/contract.h"
#include "common/parse.h"
#include "operator/api/began.h"
#include "operator/api/pack.h"
#include "operator/api/quantity.h"

struct api_child *api_child_of_tree(
    struct api_child *(*read_nodes)(const struct co_jnode *obj), const json_t *obj) {
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    if (!obj) {
        return NULL;
    }
    CO_AUTOFREE char *text = co_json_dump(obj);
    return co_jdoc_read(text, strlen(text), NULL, &doc, NULL) ? NULL : read_nodes(doc.node);
}

struct api_child *api_service_read(const struct co_jnode *obj) {
    struct api_service s = {.labelled = co_jnode_str(obj, "metadata", "labels", API_LABEL_NAME)};
    struct api_packer p = {.n = 0};
    return api_pack_put_meta(&p, obj, &s.c) ? api_pack(&p, &s, sizeof(s)) : NULL;
}

/* A member as a tree, for comparison with what the planner builds. */
static json_t *tree_at(const struct co_jnode *obj, const char *key) {
    const struct co_jnode *n = co_jnode_get(obj, key);
    return n ? co_json_of_nodes(n) : NULL;
}

#define HASH_START 0xcbf29ce484222325U

/* FNV-1a. */
static void hash_text(uint64_t *h, const char *s) {
    do {
        *h = (*h ^ (unsigned char)*s) * 0x100000001b3U;
    } while (*s++);
}

static bool names_peers(int var) {
    return var >= CO_VAR_PSERVERS && var <= CO_VAR_HETER_ENDPOINTS;
}

static uint64_t hash_vars(const json_t *data, bool peers_only) {
    uint64_t h = HASH_START;
    for (int i = 0; i < CO_VAR_COUNT; i++) {
        const char *value = NULL;
        if (co_contract[i].via == CO_VIA_CONFIGMAP && (names_peers(i) || !peers_only) &&
            (value = co_json_str(data, co_contract[i].name))) {
            hash_text(&h, co_contract[i].name);
            hash_text(&h, value);
        }
    }
    return h;
}

uint64_t api_env_hash(const json_t *data) {
    return hash_vars(data, false);
}

uint64_t api_env_peers_hash(const json_t *data) {
    return hash_vars(data, true);
}

int32_t api_env_peers(const json_t *data) {
    int32_t n = 0;
    for (int i = 0; i < CO_VAR_COUNT; i++) {
        const char *value = names_peers(i) ? co_json_str(data, co_contract[i].name) : NULL;
        n += value && *value;
        for (; value && *value && n < INT32_MAX; value++) {
            n += *value == ',';
        }
    }
    return n;
}

/* There is a key such as "POD_IP_WORKER_0". */
bool api_env_own_ips(const json_t *data) {
    const char *pod_ip = co_contract[CO_VAR_POD_IP].name;
    size_t n = strlen(pod_ip);
    const char *key;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)data, key, j) {
        if (strncmp(key, pod_ip, n) == 0 && key[n] == '_') {
            return true;
        }
    }
    return false;
}

struct api_child *api_configmap_read(const struct co_jnode *obj) {
    struct api_configmap m = {0};
    struct api_packer p = {.n = 0};
    if (!api_pack_put_meta(&p, obj, &m.c)) {
        return NULL;
    }
    const struct co_jnode *labels = co_jnode_at(obj, "metadata", "labels");
    CO_AUTOJSON json_t *data = tree_at(obj, "data");
    m.hash = api_env_hash(data);
    m.peers = api_env_peers_hash(data);
    m.n_peers = api_env_peers(data);
    m.changed = co_time_of(co_jnode_str(obj, "metadata", "annotations", API_ANNOTATION_CHANGED));
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        CO_AUTOJSON json_t *tmpl =
            api_began_parse(co_jnode_str(obj, "metadata", "annotations", api_began_annotation(r)));
        m.templates[r] = api_job_template_is_good(tmpl) ? api_began_hash(tmpl) : 0;
    }
    m.old = !co_jnode_str(labels, API_LABEL_JOB);
    m.own_ips = api_env_own_ips(data);
    m.attempt = api_label_attempt(co_jnode_str(labels, API_LABEL_ATTEMPT));
    int32_t port = api_label_number(co_json_str(data, co_contract[CO_VAR_PORT].name));
    m.port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
    return api_pack(&p, &m, sizeof(m));
}

/* Quantities in canonical form: a client that reads a group and writes it back turns "1000m" into
 * "1", which is not a change. */
static json_t *canonical(const json_t *resources) {
    json_t *same = json_object();
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)resources, name, j) {
        struct api_quantity q;
        char text[API_QUANTITY_TEXT];
        bool good = !api_quantity_decode(j, &q, NULL);
        if (good) {
            api_quantity_format(&q, text);
        }
        co_json_set(same, name, good ? json_string(text) : json_incref(j));
    }
    return same;
}

uint64_t api_podgroup_hash(const json_t *spec) {
    static const char *const keys[] = {"minMember", "minResources", "podGroups"};
    CO_AUTOJSON json_t *resources = canonical(json_object_get(spec, keys[1]));
    uint64_t h = HASH_START;
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        const json_t *j = json_object_get(spec, keys[i]);
        j = i == 1 && json_is_object(j) ? resources : j;
        CO_AUTOFREE char *text = j && !json_is_null(j) ? co_json_dump_sorted(j) : NULL;
        hash_text(&h, text ? text : "");
    }
    return h;
}

/* The message of the condition by which a scheduler says that the group waits. */
static const char *waiting_message(const struct co_jnode *status) {
    static const char *const rows[][2] = {
        {"Unschedulable", "True"}, {"PodGroupScheduled", "False"}, {"QuotaReserved", "False"}};
    for (size_t r = 0; r < CO_ARRAY_LEN(rows); r++) {
        co_jnode_each(c, co_jnode_get(status, "conditions")) {
            if (co_streq(co_jnode_str(c, "type"), rows[r][0]) &&
                co_streq(co_jnode_str(c, "status"), rows[r][1])) {
                return co_jnode_str(c, "message");
            }
        }
    }
    return NULL;
}

const struct api_wish api_wishes[API_WISHES] = {
    [API_WISH_QUEUE] = {"queue", "queue", API_GROUP "/queue"},
    [API_WISH_PRIORITY] = {"priorityClass", "priorityClassName", API_GROUP "/priority-class"},
};

struct api_child *api_podgroup_read(const struct co_jnode *obj) {
    struct api_podgroup g = {.hash = 0};
    struct api_packer p = {.n = 0};
    if (!api_pack_put_meta(&p, obj, &g.c)) {
        return NULL;
    }
    const struct co_jnode *status = co_jnode_get(obj, "status");
    CO_AUTOJSON json_t *spec = tree_at(obj, "spec");
    g.hash = api_podgroup_hash(spec);
    api_pack_put(&p, offsetof(struct api_podgroup, phase), co_jnode_str(status, "phase"));
    for (size_t i = 0; i < API_WISHES; i++) {
        api_pack_put(&p, offsetof(struct api_podgroup, has) + i * sizeof(char *),
            co_jnode_str(obj, "spec", api_wishes[i].spec));
        api_pack_put(&p, offsetof(struct api_podgroup, asked) + i * sizeof(char *),
            co_jnode_str(obj, "metadata", "annotations", api_wishes[i].annotation));
    }
    api_pack_put_last_line(&p, offsetof(struct api_podgroup, message), waiting_message(status));
    return api_pack(&p, &g, sizeof(g));
}

bool api_podgroup_differs(const struct api_child *of, const struct api_child *with) {
    const struct api_podgroup *a = (const struct api_podgroup *)of;
    const struct api_podgroup *b = (const struct api_podgroup *)with;
    for (size_t i = 0; i < API_WISHES; i++) {
        if (strcmp(a->has[i], b->has[i]) != 0 || strcmp(a->asked[i], b->asked[i]) != 0) {
            return true;
        }
    }
    return strcmp(a->c.uid, b->c.uid) != 0 || strcmp(a->c.owner_uid, b->c.owner_uid) != 0 ||
           strcmp(a->phase, b->phase) != 0 || strcmp(a->message, b->message) != 0 ||
           a->c.deleting != b->c.deleting || a->hash != b->hash;
}
