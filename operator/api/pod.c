/* Decodes a pod to its projection: identity, readiness, addresses; what became of it is judged in
 * ending.c. */
#include <string.h>

#include "common/json/jdoc.h"
#include "operator/api/child.h"
#include "operator/api/ending.h"
#include "operator/api/pack.h"

enum { REASON_MAX = 80 };

static int32_t count_of(const struct co_jnode *n) {
    int64_t v = co_jnode_i64(n);
    return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

static void decode_identity(const struct co_jnode *obj, struct api_pod *pod) {
    const struct co_jnode *labels = co_jnode_at(obj, "metadata", "labels");
    enum api_role role = api_role_parse(co_jnode_str(labels, API_LABEL_ROLE));
    if (role == API_NO_ROLE) {
        role = api_role_parse(co_jnode_str(obj, "metadata", "annotations", API_ANNOTATION_ROLE));
    }
    pod->role = (uint8_t)role;
    pod->index = api_label_number(co_jnode_str(labels, API_LABEL_INDEX));
    pod->labelled = pod->index >= 0 && pod->c.owner_uid &&
                    co_streq(co_jnode_str(labels, API_LABEL_UID), pod->c.owner_uid);
    if (pod->index < 0 && role != API_NO_ROLE && pod->c.owner_job) {
        pod->index = api_pod_name_index(pod->c.owner_job, role, pod->c.name);
    }
    pod->attempt = api_label_attempt(co_jnode_str(labels, API_LABEL_ATTEMPT));
}

/* In pods of earlier versions, an init container waits up to a thousand seconds until the DNS names
 * of the peers' Services resolve, in every mode. */
static bool asks_names(const struct co_jnode *obj, const struct api_pod *pod) {
    if (co_jnode_str(obj, "metadata", "labels", API_LABEL_JOB) || pod->passed ||
        pod->phase != API_POD_PENDING) {
        return false;
    }
    co_jnode_each(c, co_jnode_at(obj, "spec", "initContainers")) {
        if (co_streq(co_jnode_str(c, "name"), API_GATE_CONTAINER)) {
            return true;
        }
    }
    return false;
}

static void add_restarts(struct api_pod *pod, const struct co_jnode *count) {
    int32_t n = count_of(count);
    pod->restarts = pod->restarts > INT32_MAX - n ? INT32_MAX : pod->restarts + n;
}

static bool ended_well(const struct co_jnode *container_status) {
    const struct co_jnode *code = co_jnode_at(container_status, "state", "terminated", "exitCode");
    int64_t v;
    return co_jnode_int(code, &v) && v == 0;
}

static bool all_ended_well(const struct co_jnode *container_statuses) {
    bool all = false;
    co_jnode_each(c, container_statuses) {
        if (!ended_well(c)) {
            return false;
        }
        all = true;
    }
    return all;
}

static void decode_containers(const struct co_jnode *status, struct api_pod *pod) {
    /* kubelet stops native sidecars after the containers: how they end does not matter. */
    bool over = all_ended_well(co_jnode_get(status, "containerStatuses"));
    pod->ready = true;
    co_jnode_each(c, co_jnode_get(status, "initContainerStatuses")) {
        pod->ready &= over || co_jnode_is(co_jnode_get(c, "ready"), CO_J_TRUE);
        if (co_streq(co_jnode_str(c, "name"), API_GATE_CONTAINER)) {
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

/* The structs at the beginning of the packed block. */
struct pod_with_cause {
    struct api_pod pod;
    struct api_cause cause;
};

static bool is_none(const struct api_cause *c) {
    return c->exit_code < 0 && !c->container && !c->reason && !c->message;
}

static void put_cause(struct api_packer *p, const struct api_cause *c) {
    api_pack_put(p, offsetof(struct pod_with_cause, cause.container), c->container);
    api_pack_put_n(p, offsetof(struct pod_with_cause, cause.reason), c->reason,
        c->reason ? strnlen(c->reason, REASON_MAX) : 0);
    api_pack_put(p, offsetof(struct pod_with_cause, cause.finished), c->finished);
    api_pack_put_cause(p, offsetof(struct pod_with_cause, cause.message), c->message);
}

static struct api_pod *pack_pod(
    struct api_packer *p, const struct api_pod *pod, const struct api_cause *cause) {
    static const struct api_cause none = {"", "", "", "", -1, 0, false};
    struct pod_with_cause all = {.pod = *pod,
        .cause = {
            .exit_code = cause->exit_code, .probes = cause->probes, .unstarted = cause->unstarted}};
    if (is_none(cause)) {
        all.pod.cause = &none;
        return api_pack(p, &all, sizeof(all.pod));
    }
    put_cause(p, cause);
    struct pod_with_cause *packed = api_pack(p, &all, sizeof(all));
    packed->pod.cause = &packed->cause;
    return &packed->pod;
}

/* podIPs; older API servers, and fake ones, have only podIP. */
static void put_addresses(struct api_packer *p, const struct co_jnode *status) {
    const struct co_jnode *ips = co_jnode_get(status, "podIPs");
    const struct co_jnode *first = co_jnode_next(ips, NULL);
    const struct co_jnode *second = first ? co_jnode_next(ips, first) : NULL;
    const char *ip[2] = {co_jnode_str(first, "ip"), co_jnode_str(second, "ip")};
    if (!ip[0]) {
        ip[0] = co_jnode_str(status, "podIP");
    }
    api_pack_put(p, offsetof(struct api_pod, ip[0]), ip[0]);
    api_pack_put(p, offsetof(struct api_pod, ip[1]), ip[1]);
    api_pack_put(p, offsetof(struct api_pod, host_ip), co_jnode_str(status, "hostIP"));
}

struct api_child *api_pod_read(const struct co_jnode *obj) {
    struct api_pod pod = {.index = -1};
    struct api_packer p = {.n = 0};
    if (!api_pack_put_meta(&p, obj, &pod.c)) {
        return NULL;
    }
    decode_identity(obj, &pod);
    const struct co_jnode *status = co_jnode_get(obj, "status");
    struct api_ending ending;
    api_ending_judge(obj, &ending);
    pod.phase = (uint8_t)ending.phase;
    pod.blame = (uint8_t)ending.blame;
    pod.lost = ending.lost;
    pod.runs_on = ending.runs_on;
    pod.repeats = ending.repeats;
    pod.again = (uint8_t)ending.again;
    decode_containers(status, &pod);
    pod.asks_names = asks_names(obj, &pod);
    const char *node = co_jnode_str(obj, "spec", "nodeName");
    pod.scheduled = node && *node;
    const struct co_jnode *grace = co_jnode_at(obj, "metadata", "deletionGracePeriodSeconds");
    pod.at_once = pod.c.deleting && grace && co_jnode_i64(grace) == 0;
    put_addresses(&p, status);
    return &pack_pod(&p, &pod, &ending.cause)->c;
}

bool api_pod_differs(const struct api_child *of, const struct api_child *with) {
    const struct api_pod *a = (const struct api_pod *)of, *b = (const struct api_pod *)with;
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
           a->cause->probes != b->cause->probes || a->cause->unstarted != b->cause->unstarted ||
           a->index != b->index || a->attempt != b->attempt || a->restarts != b->restarts ||
           a->role != b->role || a->phase != b->phase || a->reported != b->reported ||
           a->coord != b->coord || a->passed != b->passed || a->ready != b->ready ||
           a->blame != b->blame || a->lost != b->lost || a->at_once != b->at_once ||
           a->asks_names != b->asks_names || a->runs_on != b->runs_on || a->repeats != b->repeats ||
           a->again != b->again;
}
