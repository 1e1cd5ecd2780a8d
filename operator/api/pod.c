/* Decodes a pod to its projection: identity, phase, readiness, addresses, and the cause of its
 * failure or wait. */
#include "common/jdoc.h"
#include "operator/api/child.h"
#include "operator/api/pack.h"

#include <string.h>

enum { REASON_MAX = 80 };

/* 0 when it is not an integer. */
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

/* In pods of earlier versions, an init container waits up to a thousand seconds until the DNS names
 * of the peers' Services resolve, in every mode. */
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
        /* A container that has exited with 0 counts as ready: the pod is about to be Succeeded. */
        pod->ready &= (co_jnode_is(co_jnode_get(c, "ready"), CO_J_TRUE) &&
                          co_jnode_is(co_jnode_at(c, "state", "running"), CO_J_OBJECT)) ||
                      ended_well(c);
        add_restarts(pod, co_jnode_get(c, "restartCount"));
    }
}

/* Reasons that kubelet gives to pods that it rejected or stopped because of the node.  Newer
 * versions also set the condition DisruptionTarget. */
static bool is_nodes_fault(const char *reason) {
    static const char *const words[] = {"Evicted", "Preempting", "Terminated", "Shutdown",
        "NodeShutdown", "NodeLost", "NodeAffinity", "UnexpectedAdmissionError"};
    bool found = reason && strncmp(reason, "OutOf", strlen("OutOf")) == 0; /* OutOfcpu, … */
    for (size_t i = 0; i < CO_ARRAY_LEN(words) && !found; i++) {
        found = co_streq(reason, words[i]) != 0;
    }
    return found;
}

static bool is_condition(const struct co_jnode *c, const char *type, const char *value) {
    return co_streq(co_jnode_str(c, "type"), type) && co_streq(co_jnode_str(c, "status"), value);
}

static bool is_disrupted(const struct co_jnode *status) {
    co_jnode_each(c, co_jnode_get(status, "conditions")) {
        if (is_condition(c, "DisruptionTarget", "True")) {
            return true;
        }
    }
    return is_nodes_fault(co_jnode_str(status, "reason"));
}

/* If the pod's node does not respond, returns the condition that shows it, else NULL.  In that case
 * the node controller sets Ready to False and leaves ContainersReady True.  kubelet, in contrast,
 * always gives a reason when a pod is not ready. */
static const struct co_jnode *find_lost(const struct co_jnode *status) {
    const struct co_jnode *unready = NULL;
    bool running = false;
    co_jnode_each(c, co_jnode_get(status, "conditions")) {
        unready = is_condition(c, "Ready", "False") ? c : unready;
        running |= is_condition(c, "ContainersReady", "True");
    }
    const char *reason = co_jnode_str(unready, "reason");
    bool named = co_streq(reason, "NodeNotReady") || co_streq(reason, "NodeLost");
    bool silent = running && (!reason || !*reason);
    return named || silent ? unready : NULL;
}

static struct op_cause lost_cause(const struct co_jnode *obj, const struct co_jnode *lost) {
    return (struct op_cause){.reason = "NodeLost",
        .message = co_jnode_str(obj, "spec", "nodeName"),
        .finished = co_jnode_str(lost, "lastTransitionTime"),
        .exit_code = -1};
}

/* The container that failed first; others that are killed because of it end later. */
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

/* Checks containers before init containers.  If an init container has failed no container has
 * started; and a sidecar among the init containers only ends because the pod does. */
static struct op_cause find_failure(const struct co_jnode *status) {
    struct op_cause c = failed_container(co_jnode_get(status, "containerStatuses"));
    if (c.exit_code < 0) {
        c = failed_container(co_jnode_get(status, "initContainerStatuses"));
    }
    const char *reason = co_jnode_str(status, "reason");
    /* The containers of an evicted pod are killed; the cause is the eviction. */
    if (reason && *reason) {
        c.reason = reason;
        c.message = co_jnode_str(status, "message");
    }
    return c;
}

static bool is_passing(const char *reason) {
    return co_streq(reason, "ContainerCreating") || co_streq(reason, "PodInitializing");
}

/* The first container, if it has exited with 0.  kubelet sorts containerStatuses by name, so only
 * the spec says which container is the first. */
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
    /* A container has failed, and the pod runs on with the others. */
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

/* The structs at the beginning of the packed block. */
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
    op_pack_put_cause(p, offsetof(struct pod_with_cause, cause.message), c->message);
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

/* podIPs; older API servers, and fake ones, have only podIP. */
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
    const struct co_jnode *grace = co_jnode_at(obj, "metadata", "deletionGracePeriodSeconds");
    pod.at_once = pod.c.deleting && grace && number_of(grace) == 0;
    bool ended = pod.phase == OP_POD_FAILED || pod.phase == OP_POD_SUCCEEDED;
    const struct co_jnode *lost = ended ? NULL : find_lost(status);
    pod.lost = lost != NULL;
    struct op_cause c = {.exit_code = -1};
    if (pod.phase == OP_POD_FAILED) {
        c = find_failure(status);
    } else if (lost) {
        c = lost_cause(obj, lost);
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
           a->disrupted != b->disrupted || a->lost != b->lost || a->at_once != b->at_once ||
           a->asks_names != b->asks_names;
}
