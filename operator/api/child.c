#include "operator/api/child.h"
#include "common/contract.h"
#include "common/parse.h"

#include <string.h>

enum { MESSAGE_MAX = 400, REASON_MAX = 80 };

/* ---- one allocation: the struct, then its strings ------------------------------------------ */

struct ref {
    size_t offset; /* of the const char * in the struct */
    const char *text;
    size_t len;
};

enum { REFS_MAX = 16 };

struct packer {
    struct ref ref[REFS_MAX];
    size_t n;
};

static void put_n(struct packer *p, size_t offset, const char *text, size_t len) {
    p->ref[p->n++] = (struct ref){.offset = offset, .text = text ? text : "", .len = len};
}

static void put(struct packer *p, size_t offset, const char *text) {
    put_n(p, offset, text, text ? strlen(text) : 0);
}

static void *pack(const struct packer *p, const void *proto, size_t size) {
    size_t total = size;
    for (size_t i = 0; i < p->n; i++) {
        total += p->ref[i].len + 1;
    }
    char *mem = co_xmalloc(total);
    memcpy(mem, proto, size);
    char *at = mem + size;
    for (size_t i = 0; i < p->n; i++) {
        const struct ref *r = &p->ref[i];
        memcpy(at, r->text, r->len);
        at[r->len] = '\0';
        memcpy(mem + r->offset, &at, sizeof(at)); /* a pointer may stand anywhere */
        at += r->len + 1;
    }
    return mem;
}

/* False when obj has no name. */
static bool put_child(struct packer *p, const json_t *obj, struct op_child *child) {
    const json_t *meta = json_object_get(obj, "metadata");
    const char *name = co_json_str(meta, "name");
    if (!name || !*name) {
        return false;
    }
    const char *owner_uid = NULL;
    const char *owner_job = NULL;
    size_t i;
    json_t *o;
    json_array_foreach(json_object_get(meta, "ownerReferences"), i, o) {
        if (json_is_true(json_object_get(o, "controller"))) {
            owner_uid = co_json_str(o, "uid");
            if (co_streq(co_json_str(o, "kind"), OP_KIND) &&
                co_streq(co_json_str(o, "apiVersion"), OP_API_VERSION)) {
                owner_job = co_json_str(o, "name");
            }
            break;
        }
    }
    const json_t *deleted = json_object_get(meta, "deletionTimestamp");
    child->deleting = deleted && !json_is_null(deleted);
    const char *created = co_json_str(meta, "creationTimestamp");
    if (!created || co_parse_time("creationTimestamp", created, &child->created, NULL)) {
        child->created = 0;
    }
    put(p, offsetof(struct op_child, name), name);
    put(p, offsetof(struct op_child, ns), co_json_str(meta, "namespace"));
    put(p, offsetof(struct op_child, uid), co_json_str(meta, "uid"));
    put(p, offsetof(struct op_child, resource_version), co_json_str(meta, "resourceVersion"));
    put(p, offsetof(struct op_child, owner_uid), owner_uid);
    put(p, offsetof(struct op_child, owner_job), owner_job);
    return true;
}

/* ---- pods ----------------------------------------------------------------------------------- */

static int32_t small(const json_t *j) {
    int64_t v = json_integer_value(j);
    return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

/* A decimal label's value, or -1. */
static int32_t label_number(const json_t *labels, const char *key) {
    const char *s = co_json_str(labels, key);
    size_t n = s ? strlen(s) : 0;
    if (n == 0 || n > 9 || strspn(s, "0123456789") != n) {
        return -1;
    }
    int32_t v = 0;
    for (; *s; s++) {
        v = v * 10 + (*s - '0');
    }
    return v;
}

static int32_t label_attempt(const json_t *labels) {
    int32_t attempt = label_number(labels, OP_LABEL_ATTEMPT);
    return attempt < 0 ? 0 : attempt;
}

static void decode_identity(
    const json_t *obj, const char *owner_uid, const char *owner_job, struct op_pod *pod) {
    const json_t *labels = co_json_at(obj, "metadata", "labels");
    enum op_role role = op_role_parse(co_json_str(labels, OP_LABEL_ROLE));
    if (role == OP_NO_ROLE) {
        role = op_role_parse(co_json_str(obj, "metadata", "annotations", OP_ANNOTATION_ROLE));
    }
    pod->role = (uint8_t)role;
    pod->index = label_number(labels, OP_LABEL_INDEX);
    if (pod->index < 0 && role != OP_NO_ROLE && owner_job) {
        pod->index = op_pod_name_index(owner_job, role, co_json_str(obj, "metadata", "name"));
    }
    pod->attempt = label_attempt(labels);
    pod->labelled = owner_uid && co_streq(co_json_str(labels, OP_LABEL_UID), owner_uid);
}

/* Earlier versions have pods ask for the names of their peers' Services before they start, in every
 * mode, for a thousand seconds. */
static bool asks_names(const json_t *obj, const struct op_pod *pod) {
    size_t i;
    json_t *c;
    if (co_json_str(obj, "metadata", "labels", OP_LABEL_JOB) || pod->passed ||
        pod->phase != OP_POD_PENDING) {
        return false;
    }
    json_array_foreach(co_json_at(obj, "spec", "initContainers"), i, c) {
        if (co_streq(co_json_str(c, "name"), OP_GATE_CONTAINER)) {
            return true;
        }
    }
    return false;
}

static enum op_pod_phase decode_phase(const char *phase) {
    static const char *const names[] = {
        [OP_POD_PENDING] = "Pending",
        [OP_POD_RUNNING] = "Running",
        [OP_POD_SUCCEEDED] = "Succeeded",
        [OP_POD_FAILED] = "Failed",
    };
    for (size_t i = 0; phase && i < CO_ARRAY_LEN(names); i++) {
        if (strcmp(phase, names[i]) == 0) {
            return (enum op_pod_phase)i;
        }
    }
    return OP_POD_UNKNOWN;
}

static void add_restarts(struct op_pod *pod, const json_t *count) {
    int32_t n = small(count);
    pod->restarts = pod->restarts > INT32_MAX - n ? INT32_MAX : pod->restarts + n;
}

static bool ended_well(const json_t *container_status) {
    const json_t *code = co_json_at(container_status, "state", "terminated", "exitCode");
    return json_is_integer(code) && json_integer_value(code) == 0;
}

static void decode_containers(const json_t *status, struct op_pod *pod) {
    pod->ready = true;
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(status, "initContainerStatuses"), i, c) {
        pod->ready &= json_is_true(json_object_get(c, "ready"));
        if (co_streq(co_json_str(c, "name"), OP_GATE_CONTAINER)) {
            pod->coord |= json_is_object(co_json_at(c, "state", "running"));
            pod->passed |= ended_well(c);
        }
        add_restarts(pod, json_object_get(c, "restartCount"));
    }
    json_array_foreach(json_object_get(status, "containerStatuses"), i, c) {
        /* One that is done has not gone back to starting: its pod will say Succeeded. */
        pod->ready &= (json_is_true(json_object_get(c, "ready")) &&
                          json_is_object(co_json_at(c, "state", "running"))) ||
                      ended_well(c);
        add_restarts(pod, json_object_get(c, "restartCount"));
    }
}

/* Words of kubelet for pods that it refused or stopped because of the node; newer ones also set
 * the condition. */
static bool is_nodes_fault(const char *reason) {
    static const char *const words[] = {"Evicted", "Preempting", "Terminated", "Shutdown",
        "NodeShutdown", "NodeLost", "NodeAffinity", "UnexpectedAdmissionError"};
    bool found = reason && strncmp(reason, "OutOf", strlen("OutOf")) == 0; /* OutOfcpu, … */
    for (size_t i = 0; i < CO_ARRAY_LEN(words) && !found; i++) {
        found = co_streq(reason, words[i]) != 0;
    }
    return found;
}

static bool is_disrupted(const json_t *status) {
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(status, "conditions"), i, c) {
        if (co_streq(co_json_str(c, "type"), "DisruptionTarget") &&
            co_streq(co_json_str(c, "status"), "True")) {
            return true;
        }
    }
    return is_nodes_fault(co_json_str(status, "reason"));
}

struct cause {
    const char *container, *reason, *message, *finished;
    int32_t exit_code;
};

static const char *const status_lists[] = {"initContainerStatuses", "containerStatuses"};

/* The container that failed first; containers that are killed because of it end later. */
static struct cause failed_container(const json_t *status) {
    struct cause first = {.exit_code = -1};
    for (size_t l = 0; l < CO_ARRAY_LEN(status_lists); l++) {
        size_t i;
        json_t *c;
        json_array_foreach(json_object_get(status, status_lists[l]), i, c) {
            const json_t *t = co_json_at(c, "state", "terminated");
            int64_t code = json_integer_value(json_object_get(t, "exitCode"));
            const char *finished = co_json_str(t, "finishedAt");
            if (!t || code == 0 ||
                (first.container &&
                    !(finished && first.finished && strcmp(finished, first.finished) < 0))) {
                continue;
            }
            first = (struct cause){.container = co_json_str(c, "name"),
                .reason = co_json_str(t, "reason"),
                .message = co_json_str(t, "message"),
                .finished = finished,
                .exit_code = code < 0 || code > 255 ? 255 : (int32_t)code};
        }
    }
    return first;
}

static struct cause failure(const json_t *status) {
    struct cause c = failed_container(status);
    const char *reason = co_json_str(status, "reason");
    /* An evicted pod's containers are killed: the eviction is the cause. */
    if (reason && *reason) {
        c.reason = reason;
        c.message = co_json_str(status, "message");
    }
    return c;
}

static bool is_passing(const char *reason) {
    return co_streq(reason, "ContainerCreating") || co_streq(reason, "PodInitializing");
}

static struct cause waiting(const json_t *status) {
    for (size_t l = 0; l < CO_ARRAY_LEN(status_lists); l++) {
        size_t i;
        json_t *c;
        json_array_foreach(json_object_get(status, status_lists[l]), i, c) {
            const json_t *w = co_json_at(c, "state", "waiting");
            const char *reason = co_json_str(w, "reason");
            if (!reason || !*reason || is_passing(reason)) {
                continue;
            }
            const json_t *code = co_json_at(c, "lastState", "terminated", "exitCode");
            return (struct cause){.container = co_json_str(c, "name"),
                .reason = reason,
                .message = co_json_str(w, "message"),
                .exit_code = code ? small(code) : -1};
        }
    }
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(status, "conditions"), i, c) {
        if (co_streq(co_json_str(c, "type"), "PodScheduled") &&
            co_streq(co_json_str(c, "status"), "False")) {
            return (struct cause){.reason = co_json_str(c, "reason"),
                .message = co_json_str(c, "message"),
                .exit_code = -1};
        }
    }
    return (struct cause){.exit_code = -1};
}

/* The last line that says something, cut at a character's start. */
static void put_last_line(struct packer *p, size_t offset, const char *text) {
    size_t end = text ? strlen(text) : 0;
    while (end > 0 && (unsigned char)text[end - 1] <= ' ') {
        end--;
    }
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n' && text[start - 1] != '\r') {
        start--;
    }
    while (start < end && (unsigned char)text[start] <= ' ') {
        start++;
    }
    size_t len = end - start;
    if (len > MESSAGE_MAX) {
        len = MESSAGE_MAX;
        while (len > 0 && ((unsigned char)text[start + len] & 0xC0) == 0x80) {
            len--;
        }
    }
    put_n(p, offset, text ? text + start : "", len);
}

static void put_cause(struct packer *p, const struct cause *c) {
    put(p, offsetof(struct op_pod, container), c->container);
    put_n(p, offsetof(struct op_pod, reason), c->reason,
        c->reason ? strnlen(c->reason, REASON_MAX) : 0);
    put(p, offsetof(struct op_pod, finished), c->finished);
    put_last_line(p, offsetof(struct op_pod, message), c->message);
}

/* podIPs; older servers and fakes say only podIP. */
static void put_addresses(struct packer *p, const json_t *status) {
    const json_t *ips = json_object_get(status, "podIPs");
    const char *ip[2] = {
        co_json_str(json_array_get(ips, 0), "ip"), co_json_str(json_array_get(ips, 1), "ip")};
    if (!ip[0]) {
        ip[0] = co_json_str(status, "podIP");
    }
    put(p, offsetof(struct op_pod, ip[0]), ip[0]);
    put(p, offsetof(struct op_pod, ip[1]), ip[1]);
    put(p, offsetof(struct op_pod, host_ip), co_json_str(status, "hostIP"));
}

struct op_pod *op_pod_decode(const json_t *obj) {
    struct op_pod pod = {.exit_code = -1};
    struct packer p = {.n = 0};
    if (!put_child(&p, obj, &pod.c)) {
        return NULL;
    }
    const char *owner_job = p.ref[p.n - 1].text; /* put_child's last */
    decode_identity(obj, p.ref[p.n - 2].text, owner_job, &pod);
    const json_t *status = json_object_get(obj, "status");
    pod.phase = (uint8_t)decode_phase(co_json_str(status, "phase"));
    decode_containers(status, &pod);
    pod.asks_names = asks_names(obj, &pod);
    pod.disrupted = is_disrupted(status);
    const char *node = co_json_str(obj, "spec", "nodeName");
    pod.scheduled = node && *node;
    struct cause c = {.exit_code = -1};
    if (pod.phase == OP_POD_FAILED) {
        c = failure(status);
    } else if (pod.phase != OP_POD_SUCCEEDED) {
        c = waiting(status);
    }
    pod.exit_code = c.exit_code;
    put_cause(&p, &c);
    put_addresses(&p, status);
    return pack(&p, &pod, sizeof(pod));
}

bool op_pod_differs(const struct op_pod *a, const struct op_pod *b) {
    const char *const texts[][2] = {
        {a->c.name, b->c.name},
        {a->c.ns, b->c.ns},
        {a->c.uid, b->c.uid},
        {a->c.owner_uid, b->c.owner_uid},
        {a->c.owner_job, b->c.owner_job},
        {a->ip[0], b->ip[0]},
        {a->ip[1], b->ip[1]},
        {a->host_ip, b->host_ip},
        {a->container, b->container},
        {a->reason, b->reason},
        {a->message, b->message},
        {a->finished, b->finished},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        if (strcmp(texts[i][0], texts[i][1]) != 0) {
            return true;
        }
    }
    return a->c.deleting != b->c.deleting || a->exit_code != b->exit_code || a->index != b->index ||
           a->attempt != b->attempt || a->restarts != b->restarts || a->role != b->role ||
           a->phase != b->phase || a->told != b->told || a->coord != b->coord ||
           a->passed != b->passed || a->ready != b->ready || a->disrupted != b->disrupted ||
           a->asks_names != b->asks_names;
}

/* ---- Services, ConfigMaps and gangs' groups ------------------------------------------------- */

struct op_service *op_service_decode(const json_t *obj) {
    struct op_service s = {.labelled = co_json_str(obj, "metadata", "labels", OP_LABEL_NAME)};
    struct packer p = {.n = 0};
    return put_child(&p, obj, &s.c) ? pack(&p, &s, sizeof(s)) : NULL;
}

#define HASH_START 0xcbf29ce484222325U

/* FNV-1a. */
static void hash_text(uint64_t *h, const char *s) {
    do {
        *h = (*h ^ (unsigned char)*s) * 0x100000001b3U;
    } while (*s++);
}

static uint64_t hash_vars(const json_t *data, bool peers_only) {
    uint64_t h = HASH_START;
    for (int i = 0; i < CO_VAR_COUNT; i++) {
        const char *value = NULL;
        bool peers = i >= CO_VAR_PSERVERS && i <= CO_VAR_HETER_ENDPOINTS;
        if (co_contract[i].via == CO_VIA_CONFIGMAP && (peers || !peers_only) &&
            (value = co_json_str(data, co_contract[i].name))) {
            hash_text(&h, co_contract[i].name);
            hash_text(&h, value);
        }
    }
    return h;
}

uint64_t op_env_hash(const json_t *data) {
    return hash_vars(data, false);
}

uint64_t op_env_peers_hash(const json_t *data) {
    return hash_vars(data, true);
}

struct op_configmap *op_configmap_decode(const json_t *obj) {
    struct op_configmap m = {0};
    struct packer p = {.n = 0};
    if (!put_child(&p, obj, &m.c)) {
        return NULL;
    }
    const json_t *data = json_object_get(obj, "data");
    m.hash = op_env_hash(data);
    m.peers = op_env_peers_hash(data);
    m.old = !co_json_str(obj, "metadata", "labels", OP_LABEL_JOB);
    m.attempt = label_attempt(co_json_at(obj, "metadata", "labels"));
    int32_t port = label_number(data, co_contract[CO_VAR_PORT].name);
    m.port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0;
    return pack(&p, &m, sizeof(m));
}

uint64_t op_podgroup_hash(const json_t *spec) {
    static const char *const keys[] = {"minMember", "minResources", "podGroups"};
    uint64_t h = HASH_START;
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        const json_t *j = json_object_get(spec, keys[i]);
        CO_AUTOFREE char *text = j && !json_is_null(j) ? co_json_dump_sorted(j) : NULL;
        hash_text(&h, text ? text : "");
    }
    return h;
}

/* The conditions by which schedulers say that a group waits, and their status then. */
static const char *waiting_message(const json_t *status) {
    static const char *const rows[][2] = {
        {"Unschedulable", "True"}, {"PodGroupScheduled", "False"}, {"QuotaReserved", "False"}};
    for (size_t r = 0; r < CO_ARRAY_LEN(rows); r++) {
        size_t i;
        json_t *c;
        json_array_foreach(json_object_get(status, "conditions"), i, c) {
            if (co_streq(co_json_str(c, "type"), rows[r][0]) &&
                co_streq(co_json_str(c, "status"), rows[r][1])) {
                return co_json_str(c, "message");
            }
        }
    }
    return NULL;
}

struct op_podgroup *op_podgroup_decode(const json_t *obj) {
    struct op_podgroup g = {.hash = op_podgroup_hash(json_object_get(obj, "spec"))};
    struct packer p = {.n = 0};
    if (!put_child(&p, obj, &g.c)) {
        return NULL;
    }
    const json_t *status = json_object_get(obj, "status");
    put(&p, offsetof(struct op_podgroup, phase), co_json_str(status, "phase"));
    put_last_line(&p, offsetof(struct op_podgroup, message), waiting_message(status));
    return pack(&p, &g, sizeof(g));
}

bool op_podgroup_differs(const struct op_podgroup *a, const struct op_podgroup *b) {
    return strcmp(a->c.uid, b->c.uid) != 0 || strcmp(a->c.owner_uid, b->c.owner_uid) != 0 ||
           strcmp(a->phase, b->phase) != 0 || strcmp(a->message, b->message) != 0 ||
           a->c.deleting != b->c.deleting || a->hash != b->hash;
}
