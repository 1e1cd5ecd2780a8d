#include "common/jdoc.h"
#include "operator/api/child.h"
#include "operator/api/pack.h"

#include <string.h>

enum { REASON_MAX = 80 };

/* 0 when it is none. */
static int64_t number_of(const struct co_jnode *n) {
    int64_t v = 0;
    return co_jnode_int(n, &v) ? v : 0;
}

static int32_t count_of(const struct co_jnode *n) {
    int64_t v = number_of(n);
    return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

static void decode_identity(const struct co_jnode *obj, struct op_pod *pod) {
    const struct co_jnode *labels = co_jnode_at(obj, "metadata", "labels");
    enum op_role role = op_role_parse(co_jnode_str(labels, OP_LABEL_ROLE));
    if (role == OP_NO_ROLE) {
        role = op_role_parse(co_jnode_str(obj, "metadata", "annotations", OP_ANNOTATION_ROLE));
    }
    pod->role = (uint8_t)role;
    pod->index = op_label_number(co_jnode_str(labels, OP_LABEL_INDEX));
    pod->labelled = pod->index >= 0 && pod->c.owner_uid &&
                    co_streq(co_jnode_str(labels, OP_LABEL_UID), pod->c.owner_uid);
    if (pod->index < 0 && role != OP_NO_ROLE && pod->c.owner_job) {
        pod->index = op_pod_name_index(pod->c.owner_job, role, pod->c.name);
    }
    pod->attempt = op_label_attempt(co_jnode_str(labels, OP_LABEL_ATTEMPT));
}

/* Earlier versions have pods ask for the names of their peers' Services before they start, in every
 * mode, for a thousand seconds. */
static bool asks_names(const struct co_jnode *obj, const struct op_pod *pod) {
    if (co_jnode_str(obj, "metadata", "labels", OP_LABEL_JOB) || pod->passed ||
        pod->phase != OP_POD_PENDING) {
        return false;
    }
    co_jnode_each(c, co_jnode_at(obj, "spec", "initContainers")) {
        if (co_streq(co_jnode_str(c, "name"), OP_GATE_CONTAINER)) {
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

static void add_restarts(struct op_pod *pod, const struct co_jnode *count) {
    int32_t n = count_of(count);
    pod->restarts = pod->restarts > INT32_MAX - n ? INT32_MAX : pod->restarts + n;
}

static bool ended_well(const struct co_jnode *container_status) {
    const struct co_jnode *code = co_jnode_at(container_status, "state", "terminated", "exitCode");
    int64_t v;
    return co_jnode_int(code, &v) && v == 0;
}

static void decode_containers(const struct co_jnode *status, struct op_pod *pod) {
    pod->ready = true;
    co_jnode_each(c, co_jnode_get(status, "initContainerStatuses")) {
        pod->ready &= co_jnode_is(co_jnode_get(c, "ready"), CO_J_TRUE);
        if (co_streq(co_jnode_str(c, "name"), OP_GATE_CONTAINER)) {
            pod->coord |= co_jnode_is(co_jnode_at(c, "state", "running"), CO_J_OBJECT);
            pod->passed |= ended_well(c);
        }
        add_restarts(pod, co_jnode_get(c, "restartCount"));
    }
    co_jnode_each(c, co_jnode_get(status, "containerStatuses")) {
        /* One that is done has not gone back to starting: its pod will say Succeeded. */
        pod->ready &= (co_jnode_is(co_jnode_get(c, "ready"), CO_J_TRUE) &&
                          co_jnode_is(co_jnode_at(c, "state", "running"), CO_J_OBJECT)) ||
                      ended_well(c);
        add_restarts(pod, co_jnode_get(c, "restartCount"));
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

static bool is_disrupted(const struct co_jnode *status) {
    co_jnode_each(c, co_jnode_get(status, "conditions")) {
        if (co_streq(co_jnode_str(c, "type"), "DisruptionTarget") &&
            co_streq(co_jnode_str(c, "status"), "True")) {
            return true;
        }
    }
    return is_nodes_fault(co_jnode_str(status, "reason"));
}

/* The one of the list that failed first; containers that are killed because of it end later. */
static struct op_cause failed_container(const struct co_jnode *list) {
    struct op_cause first = {.exit_code = -1};
    co_jnode_each(c, list) {
        const struct co_jnode *t = co_jnode_at(c, "state", "terminated");
        int64_t code = number_of(co_jnode_get(t, "exitCode"));
        const char *finished = co_jnode_str(t, "finishedAt");
        if (!t || code == 0 ||
            (first.container &&
                !(finished && first.finished && strcmp(finished, first.finished) < 0))) {
            continue;
        }
        first = (struct op_cause){.container = co_jnode_str(c, "name"),
            .reason = co_jnode_str(t, "reason"),
            .message = co_jnode_str(t, "message"),
            .finished = finished,
            .exit_code = code < 0 || code > 255 ? 255 : (int32_t)code};
    }
    return first;
}

/* Before init containers: where one of those fails no other has begun, and a sidecar among them
 * ends because the pod does. */
static struct op_cause find_failure(const struct co_jnode *status) {
    struct op_cause c = failed_container(co_jnode_get(status, "containerStatuses"));
    if (c.exit_code < 0) {
        c = failed_container(co_jnode_get(status, "initContainerStatuses"));
    }
    const char *reason = co_jnode_str(status, "reason");
    /* An evicted pod's containers are killed: the eviction is the cause. */
    if (reason && *reason) {
        c.reason = reason;
        c.message = co_jnode_str(status, "message");
    }
    return c;
}

static bool is_passing(const char *reason) {
    return co_streq(reason, "ContainerCreating") || co_streq(reason, "PodInitializing");
}

/* Kubelet sorts containerStatuses by name: the spec says which container comes first. */
static struct op_cause ended_first(const struct co_jnode *obj) {
    const struct co_jnode *first = co_jnode_next(co_jnode_at(obj, "spec", "containers"), NULL);
    co_jnode_each(c, co_jnode_at(obj, "status", "containerStatuses")) {
        if (ended_well(c) && co_streq(co_jnode_str(c, "name"), co_jnode_str(first, "name"))) {
            return (struct op_cause){.container = co_jnode_str(c, "name"),
                .finished = co_jnode_str(c, "state", "terminated", "finishedAt")};
        }
    }
    return (struct op_cause){.exit_code = -1};
}

static struct op_cause find_waiting(const struct co_jnode *obj) {
    const struct co_jnode *status = co_jnode_get(obj, "status");
    static const char *const status_lists[] = {"initContainerStatuses", "containerStatuses"};
    for (size_t l = 0; l < CO_ARRAY_LEN(status_lists); l++) {
        co_jnode_each(c, co_jnode_get(status, status_lists[l])) {
            const struct co_jnode *w = co_jnode_at(c, "state", "waiting");
            const char *reason = co_jnode_str(w, "reason");
            if (!reason || !*reason || is_passing(reason)) {
                continue;
            }
            const struct co_jnode *code = co_jnode_at(c, "lastState", "terminated", "exitCode");
            return (struct op_cause){.container = co_jnode_str(c, "name"),
                .reason = reason,
                .message = co_jnode_str(w, "message"),
                .exit_code = code ? count_of(code) : -1};
        }
    }
    /* The pod goes on with its others, for ever or until this one is restarted. */
    struct op_cause ended = failed_container(co_jnode_get(status, "containerStatuses"));
    if (ended.exit_code >= 0) {
        return ended;
    }
    co_jnode_each(c, co_jnode_get(status, "conditions")) {
        if (co_streq(co_jnode_str(c, "type"), "PodScheduled") &&
            co_streq(co_jnode_str(c, "status"), "False")) {
            return (struct op_cause){.reason = co_jnode_str(c, "reason"),
                .message = co_jnode_str(c, "message"),
                .exit_code = -1};
        }
    }
    return ended_first(obj);
}

/* As it is packed. */
struct pod_with_cause {
    struct op_pod pod;
    struct op_cause cause;
};

static bool is_none(const struct op_cause *c) {
    return c->exit_code < 0 && !c->container && !c->reason && !c->message;
}

static void put_cause(struct op_packer *p, const struct op_cause *c) {
    op_pack_put(p, offsetof(struct pod_with_cause, cause.container), c->container);
    op_pack_put_n(p, offsetof(struct pod_with_cause, cause.reason), c->reason,
        c->reason ? strnlen(c->reason, REASON_MAX) : 0);
    op_pack_put(p, offsetof(struct pod_with_cause, cause.finished), c->finished);
    op_pack_put_last_line(p, offsetof(struct pod_with_cause, cause.message), c->message);
}

static struct op_pod *pack_pod(struct op_packer *p, struct co_slab *slab, const struct op_pod *pod,
    const struct op_cause *cause) {
    static const struct op_cause none = {"", "", "", "", -1};
    struct pod_with_cause all = {.pod = *pod, .cause.exit_code = cause->exit_code};
    if (is_none(cause)) {
        all.pod.cause = &none;
        return op_pack(p, slab, &all, sizeof(all.pod));
    }
    put_cause(p, cause);
    struct pod_with_cause *packed = op_pack(p, slab, &all, sizeof(all));
    packed->pod.cause = &packed->cause;
    return &packed->pod;
}

/* podIPs; older servers and fakes say only podIP. */
static void put_addresses(struct op_packer *p, const struct co_jnode *status) {
    const struct co_jnode *ips = co_jnode_get(status, "podIPs");
    const struct co_jnode *first = co_jnode_next(ips, NULL);
    const struct co_jnode *second = first ? co_jnode_next(ips, first) : NULL;
    const char *ip[2] = {co_jnode_str(first, "ip"), co_jnode_str(second, "ip")};
    if (!ip[0]) {
        ip[0] = co_jnode_str(status, "podIP");
    }
    op_pack_put(p, offsetof(struct op_pod, ip[0]), ip[0]);
    op_pack_put(p, offsetof(struct op_pod, ip[1]), ip[1]);
    op_pack_put(p, offsetof(struct op_pod, host_ip), co_jnode_str(status, "hostIP"));
}

struct op_child *op_pod_read(struct co_slab *slab, const struct co_jnode *obj) {
    struct op_pod pod = {.index = -1};
    struct op_packer p = {.n = 0};
    if (!op_pack_put_meta(&p, obj, &pod.c)) {
        return NULL;
    }
    decode_identity(obj, &pod);
    const struct co_jnode *status = co_jnode_get(obj, "status");
    pod.phase = (uint8_t)decode_phase(co_jnode_str(status, "phase"));
    decode_containers(status, &pod);
    pod.asks_names = asks_names(obj, &pod);
    pod.disrupted = is_disrupted(status);
    const char *node = co_jnode_str(obj, "spec", "nodeName");
    pod.scheduled = node && *node;
    struct op_cause c = {.exit_code = -1};
    if (pod.phase == OP_POD_FAILED) {
        c = find_failure(status);
    } else if (pod.phase != OP_POD_SUCCEEDED) {
        c = find_waiting(obj);
    }
    put_addresses(&p, status);
    return &pack_pod(&p, slab, &pod, &c)->c;
}

bool op_pod_differs(const struct op_child *of, const struct op_child *with) {
    const struct op_pod *a = (const struct op_pod *)of, *b = (const struct op_pod *)with;
    const char *const texts[][2] = {
        {a->c.name, b->c.name},
        {a->c.ns, b->c.ns},
        {a->c.uid, b->c.uid},
        {a->c.owner_uid, b->c.owner_uid},
        {a->c.owner_job, b->c.owner_job},
        {a->ip[0], b->ip[0]},
        {a->ip[1], b->ip[1]},
        {a->host_ip, b->host_ip},
        {a->cause->container, b->cause->container},
        {a->cause->reason, b->cause->reason},
        {a->cause->message, b->cause->message},
        {a->cause->finished, b->cause->finished},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(texts); i++) {
        if (strcmp(texts[i][0], texts[i][1]) != 0) {
            return true;
        }
    }
    return a->c.deleting != b->c.deleting || a->cause->exit_code != b->cause->exit_code ||
           a->index != b->index || a->attempt != b->attempt || a->restarts != b->restarts ||
           a->role != b->role || a->phase != b->phase || a->told != b->told ||
           a->coord != b->coord || a->passed != b->passed || a->ready != b->ready ||
           a->disrupted != b->disrupted || a->asks_names != b->asks_names;
}
