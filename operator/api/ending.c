/* Tables of what kubelet and the control plane say of a pod that ends, and the rules that choose
 * among them.  Texts and times are those of Kubernetes 1.35, and of older versions where they
 * differ. */
#include "operator/api/ending.h"

#include <signal.h>
#include <string.h>

#include "common/json/jdoc.h"
#include "common/parse.h"

enum {
    /* Seconds.  A condition has the control plane's time, a container its node's.  Nodes whose
     * clocks are set by NTP differ by far less; times are whole seconds. */
    CLOCKS_APART = 2,
    NOT_STARTED = 128, /* exit code of a container that the runtime could not start */
};

/* What a container is to the job.  Of several that failed in the same second, the first in this
 * order is the cause: the others were stopped because of it. */
enum rank { TRAINING, BESIDE, INIT, SIDECAR, ADDED };

/* A pod, with what all rules need. */
struct subject {
    const struct co_jnode *spec, *status;
    const struct co_jnode *disruption; /* the condition by which the cluster asks it to end */
    const char *names;  /* its template's containers, joined by commas; NULL: not recorded */
    const char *policy; /* spec.restartPolicy; NULL: none */
    int64_t asked;      /* seconds: when it was asked to end; 0: it was not, or that is unknown */
    bool deleting;
    bool over; /* all its containers have ended, and none is started again: no sidecar is, either */
};

/* ---- small readers -------------------------------------------------------------------------- */

static const char *text_of(const char *text) {
    return text && *text ? text : NULL;
}

static const struct co_jnode *terminated(const struct co_jnode *container_status, const char *key) {
    return co_jnode_at(container_status, key, "terminated");
}

/* ---- containers ----------------------------------------------------------------------------- */

/* The position of a name in "main,shipper"; -1 when it is not there. */
static int position(const char *names, const char *name) {
    size_t n = name ? strlen(name) : 0;
    int i = 0;
    for (const char *at = names; at; i++) {
        size_t len = strcspn(at, ",");
        if (n && len == n && strncmp(at, name, n) == 0) {
            return i;
        }
        at = at[len] ? at + len + 1 : NULL;
    }
    return -1;
}

static const struct co_jnode *find_named(
    const struct co_jnode *list, const char *name, int *ret_index) {
    *ret_index = 0;
    co_jnode_each(c, list) {
        if (co_streq(co_jnode_str(c, "name"), name)) {
            return c;
        }
        ++*ret_index;
    }
    *ret_index = -1;
    return NULL;
}

static const struct co_jnode *spec_of(
    const struct subject *s, const char *name, bool init, int *ret_index) {
    return find_named(
        co_jnode_get(s->spec, init ? "initContainers" : "containers"), name, ret_index);
}

/* kubelet sorts containerStatuses by name, and webhooks put containers where they like, so only the
 * name says what a container is. */
static enum rank rank_of(const struct subject *s, const char *name, bool init) {
    int index;
    const struct co_jnode *spec = spec_of(s, name, init, &index);
    if (init) {
        return co_streq(co_jnode_str(spec, "restartPolicy"), "Always") ? SIDECAR : INIT;
    }
    index = s->names ? position(s->names, name) : index;
    return index == 0 ? TRAINING : index > 0 || !s->names ? BESIDE : ADDED;
}

/* Whether a rule of restartPolicyRules is about this exit code. */
static bool is_about(const struct co_jnode *rule, int64_t code) {
    bool listed = false;
    co_jnode_each(value, co_jnode_at(rule, "exitCodes", "values")) {
        listed = listed || co_jnode_i64(value) == code;
    }
    const char *word = co_jnode_str(rule, "exitCodes", "operator");
    return co_streq(word, "In") ? listed : co_streq(word, "NotIn") && !listed;
}

/* Whether kubelet starts a container again after this exit code.  By a rule of its own that is what
 * the user has planned for that code, and no failure of the pod. */
enum start { NO_START, BY_RULE, BY_POLICY };

static enum start starts_again(const struct subject *s, const char *name, bool init, int64_t code) {
    if (init && s->over) {
        return NO_START;
    }
    int index;
    const struct co_jnode *spec = spec_of(s, name, init, &index);
    co_jnode_each(rule, co_jnode_get(spec, "restartPolicyRules")) {
        if (is_about(rule, code)) { /* all actions that there are restart it */
            return BY_RULE;
        }
    }
    const char *own = co_jnode_str(spec, "restartPolicy");
    const char *policy = own ? own : s->policy;
    bool again = co_streq(policy, "Always") || (co_streq(policy, "OnFailure") && code != 0);
    return again ? BY_POLICY : NO_START;
}

/* Reasons of a container that kubelet or the runtime has lost, as after a reboot of the node; its
 * exit code means nothing. */
static bool is_lost_container(const char *reason) {
    return co_streq(reason, "ContainerStatusUnknown") || co_streq(reason, "Unknown");
}

/* Whether a node could not start a container for a reason that is not the container's, as when
 * containerd waits in vain for a shim.  A command that is not there is in the words of the last
 * layer, which makes the process. */
static bool is_unstarted(const struct co_jnode *ended) {
    static const char *const own[] = {"unable to start container process",
        "starting container process caused", "exec: ", "executable file",
        /* crun */ "open executable", "exec container process"};
    const char *reason = co_jnode_str(ended, "reason");
    const char *message = co_jnode_str(ended, "message");
    /* Docker's code for a command that is not there is 127, of one that is no program 126. */
    bool docker = co_streq(reason, "ContainerCannotRun") &&
                  co_jnode_i64(co_jnode_get(ended, "exitCode")) == NOT_STARTED;
    bool found = !text_of(message);
    for (size_t i = 0; !found && i < CO_ARRAY_LEN(own); i++) {
        found = strstr(message, own[i]);
    }
    return (docker || co_streq(reason, "StartError")) && !found;
}

/* Each layer of the runtime puts words before the message of the one below, of which only the last
 * is about the container. */
static const char *without_layers(const char *message) {
    static const char last[] = "unable to start container process: ";
    const char *at = message ? strstr(message, last) : NULL;
    return at ? at + sizeof(last) - 1 : message;
}

/* ---- probes that fail ----------------------------------------------------------------------- */

/* The least number of seconds that a container runs before this probe makes kubelet stop it; times
 * in a status are whole seconds, so one may be missing. */
static int64_t seconds_of(const struct co_jnode *probe) {
    const struct co_jnode *period = co_jnode_get(probe, "periodSeconds");
    const struct co_jnode *failures = co_jnode_get(probe, "failureThreshold");
    return co_jnode_i64(co_jnode_get(probe, "initialDelaySeconds")) - 1 +
           (period ? co_jnode_i64(period) : 10) * ((failures ? co_jnode_i64(failures) : 3) - 1);
}

/* Whether a container may have been ended by kubelet's SIGTERM or SIGKILL.  One that is started
 * again although its policy does not ask for that was stopped by kubelet, whatever its code is. */
static bool looks_stopped(
    const struct subject *s, const char *name, bool init, const struct co_jnode *ended, bool runs) {
    int64_t code = co_jnode_i64(co_jnode_get(ended, "exitCode"));
    const char *reason = co_jnode_str(ended, "reason");
    bool plain = co_streq(reason, "Error") || co_streq(reason, "Completed");
    bool by_signal = code == 128 + SIGKILL || code == 128 + SIGTERM;
    return plain && (by_signal || (runs && starts_again(s, name, init, code) == NO_START));
}

/* The probes that may be why kubelet has stopped a container.  Its status has nothing but the exit
 * code, and an event says it where the container is started again. */
static uint8_t probes_of(const struct subject *s, const struct co_jnode *container_status,
    bool init, const struct co_jnode *ended) {
    static const char *const keys[] = {"livenessProbe", "startupProbe"};
    const char *name = co_jnode_str(container_status, "name");
    bool runs = co_jnode_at(container_status, "state", "running");
    int64_t from = co_time_of(co_jnode_str(ended, "startedAt"));
    int64_t upto = co_time_of(co_jnode_str(ended, "finishedAt"));
    int index;
    const struct co_jnode *spec = spec_of(s, name, init, &index);
    uint8_t probes = 0;
    if (s->deleting || !looks_stopped(s, name, init, ended, runs)) {
        return 0;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        const struct co_jnode *probe = co_jnode_get(spec, keys[i]);
        if (probe && (!from || !upto || upto - from >= seconds_of(probe))) {
            probes |= (uint8_t)(1 << i);
        }
    }
    return probes;
}

static struct api_cause cause_of(const struct subject *s, const struct co_jnode *container_status,
    bool init, const struct co_jnode *ended) {
    int64_t code = co_jnode_i64(co_jnode_get(ended, "exitCode"));
    return (struct api_cause){.container = co_jnode_str(container_status, "name"),
        .reason = co_jnode_str(ended, "reason"),
        .message = without_layers(co_jnode_str(ended, "message")),
        .finished = co_jnode_str(ended, "finishedAt"),
        .exit_code = code < 0 || code > 255 ? 255 : (int32_t)code,
        .probes = probes_of(s, container_status, init, ended),
        .unstarted = is_unstarted(ended)};
}

static const char *const status_lists[] = {"initContainerStatuses", "containerStatuses"};

static bool is_earlier(
    const struct api_cause *a, enum rank of_a, const struct api_cause *b, enum rank of_b) {
    int d =
        strcmp(text_of(a->finished) ? a->finished : "~", text_of(b->finished) ? b->finished : "~");
    return d < 0 || (d == 0 && of_a < of_b);
}

/* The container that failed first, of those up to this rank; exit_code -1: none has failed.  A
 * native sidecar fails no pod, however often it has ended with an error before. */
static struct api_cause first_failure(const struct subject *s, enum rank most) {
    struct api_cause first = {.exit_code = -1};
    enum rank of_first = ADDED;
    for (size_t l = 0; l < CO_ARRAY_LEN(status_lists); l++) {
        co_jnode_each(c, co_jnode_get(s->status, status_lists[l])) {
            const struct co_jnode *t = terminated(c, "state");
            enum rank rank = rank_of(s, co_jnode_str(c, "name"), l == 0);
            if (!t || co_jnode_i64(co_jnode_get(t, "exitCode")) == 0 || rank > most ||
                rank == SIDECAR) {
                continue;
            }
            struct api_cause cause = cause_of(s, c, l == 0, t);
            if (first.exit_code < 0 || is_earlier(&cause, rank, &first, of_first)) {
                first = cause;
                of_first = rank;
            }
        }
    }
    return first;
}

/* ---- the phase ------------------------------------------------------------------------------ */

static enum api_pod_phase decode_phase(const char *phase) {
    static const char *const names[] = {
        [API_POD_PENDING] = "Pending",
        [API_POD_RUNNING] = "Running",
        [API_POD_SUCCEEDED] = "Succeeded",
        [API_POD_FAILED] = "Failed",
    };
    for (size_t i = 0; phase && i < CO_ARRAY_LEN(names); i++) {
        if (strcmp(phase, names[i]) == 0) {
            return (enum api_pod_phase)i;
        }
    }
    return API_POD_UNKNOWN;
}

/* How the template's own containers ended. */
struct own_end {
    bool over, failed; /* all have ended, and none is started again; one has failed */
    bool others;       /* the pod has containers that are not the template's */
    int64_t at;        /* when the last of them ended; 0: unknown */
};

static struct own_end find_own_end(const struct subject *s) {
    struct own_end e = {.over = true};
    int n = 0;
    co_jnode_each(c, co_jnode_get(s->status, "containerStatuses")) {
        const char *name = co_jnode_str(c, "name");
        const struct co_jnode *t = terminated(c, "state");
        int64_t code = co_jnode_i64(co_jnode_get(t, "exitCode"));
        if (rank_of(s, name, false) == ADDED) {
            e.others = true;
            continue;
        }
        n++;
        e.over = e.over && t && !starts_again(s, name, false, code);
        e.failed = e.failed || (t && code != 0);
        int64_t at = co_time_of(co_jnode_str(t, "finishedAt"));
        e.at = at > e.at ? at : e.at;
    }
    for (const char *at = s->names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        n--;
    }
    e.over = e.over && n == 0;
    return e;
}

/* A program that ends with 0 after it was asked to end has only reacted to that. */
static enum api_pod_phase judge_phase(const struct subject *s, enum api_pod_phase phase) {
    bool plain = (phase == API_POD_RUNNING || phase == API_POD_FAILED) && s->names &&
                 !text_of(co_jnode_str(s->status, "reason"));
    if (!plain) {
        return phase;
    }
    struct own_end e = find_own_end(s);
    bool asked = s->disruption || s->deleting;
    if (!e.over || !e.others) {
        return phase;
    }
    return e.failed                              ? API_POD_FAILED
           : !asked || (e.at && e.at < s->asked) ? API_POD_SUCCEEDED
                                                 : phase;
}

/* ---- pods that failed ----------------------------------------------------------------------- */

/* Reasons of a pod, from kubelet.  A part of the message separates those that have the same
 * reason. */
static const struct {
    const char *reason, *message; /* NULL: any; the reason may be the beginning of one: "OutOf" */
    enum api_blame blame;
} pod_reasons[] = {
    /* The pod's own limits; unlike the others these come without DisruptionTarget. */
    {"Evicted", "Usage of EmptyDir volume", API_BLAME_PROGRAM},
    {"Evicted", "exceeded its local ephemeral storage limit", API_BLAME_PROGRAM},
    {"Evicted", "ephemeral local storage usage exceeds", API_BLAME_PROGRAM},
    {"Evicted", NULL, API_BLAME_NODE},
    {"DeadlineExceeded", NULL, API_BLAME_PROGRAM},
    {"Preempting", NULL, API_BLAME_NODE},
    {"Terminated", NULL, API_BLAME_NODE}, /* graceful node shutdown */
    {"Shutdown", NULL, API_BLAME_NODE},   /* the same, up to 1.21 */
    {"NodeShutdown", NULL, API_BLAME_NODE},
    {"NodeLost", NULL, API_BLAME_NODE},
    {"NodeAffinity", NULL, API_BLAME_NODE},
    {"OutOf", NULL, API_BLAME_NODE}, /* OutOfcpu, OutOfpods, OutOfnvidia.com/gpu */
    {"UnexpectedAdmissionError", NULL, API_BLAME_NODE},
    /* No node would take such a pod, whatever the cluster does. */
    {"SysctlForbidden", NULL, API_BLAME_PROGRAM},
    {"AppArmor", NULL, API_BLAME_PROGRAM},
    {"PodOSNotSupported", NULL, API_BLAME_PROGRAM},
    {"PodOSSelectorNodeLabelDoesNotMatch", NULL, API_BLAME_PROGRAM},
    {"PodFeatureUnsupported", NULL, API_BLAME_PROGRAM},
    {"PodLevelResourcesNotSupported", NULL, API_BLAME_PROGRAM},
    {"InitContainerRestartPolicyForbidden", NULL, API_BLAME_PROGRAM},
    {"SupplementalGroupsPolicyNotSupported", NULL, API_BLAME_PROGRAM},
    /* All else that a node refuses: ports, taints, topology, volumes. */
    {"", "Pod was rejected", API_BLAME_NODE},
    {"Topology", NULL, API_BLAME_NODE},
};

static enum api_blame blame_of_reason(const char *reason, const char *message) {
    for (size_t i = 0; i < CO_ARRAY_LEN(pod_reasons); i++) {
        const char *word = pod_reasons[i].reason, *part = pod_reasons[i].message;
        if (strncmp(reason, word, strlen(word)) == 0 &&
            (!part || (message && strstr(message, part)))) {
            return pod_reasons[i].blame;
        }
    }
    return API_BLAME_PROGRAM;
}

static void judge_failure(const struct subject *s, struct api_ending *e) {
    struct api_cause c = first_failure(s, e->runs_on ? BESIDE : ADDED);
    const char *reason = text_of(co_jnode_str(s->status, "reason"));
    const char *message = co_jnode_str(s->status, "message");
    const struct co_jnode *d = s->disruption;
    int64_t failed = co_time_of(c.finished);
    e->blame = c.unstarted ? API_BLAME_NODE : API_BLAME_PROGRAM;
    if (failed && failed + CLOCKS_APART < s->asked) {
        e->cause = c;
        return;
    }
    if (d || reason) { /* that says why it was stopped */
        c.probes = 0;
        c.unstarted = false;
    }
    if (d) {
        e->blame = API_BLAME_NODE;
        c.reason = reason ? reason : co_jnode_str(d, "reason");
        c.message = reason ? message : co_jnode_str(d, "message");
    } else if (reason) { /* its containers were killed because of that */
        e->blame = blame_of_reason(reason, message);
        c.reason = reason;
        c.message = message;
    } else if (is_lost_container(c.reason)) {
        e->blame = API_BLAME_NODE;
    } else if (s->deleting) {
        e->blame = API_BLAME_USER;
    }
    e->cause = c;
}

/* ---- pods that have not ended --------------------------------------------------------------- */

static bool is_condition(const struct co_jnode *c, const char *type, const char *value) {
    return co_streq(co_jnode_str(c, "type"), type) && co_streq(co_jnode_str(c, "status"), value);
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
    bool silent = running && !text_of(reason);
    return named || silent ? unready : NULL;
}

static bool is_passing(const char *reason) {
    return co_streq(reason, "ContainerCreating") || co_streq(reason, "PodInitializing");
}

/* A container that has run, and whose next start failed or waits for its turn.  kubelet shows these
 * in turn in one loop; other reasons, as of an image, say why there is no next start. */
static bool is_between_starts(const char *reason) {
    return co_streq(reason, "CrashLoopBackOff") || co_streq(reason, "RunContainerError") ||
           co_streq(reason, "PostStartHookError");
}

/* How much a container's state says about its pod; the most decides. */
enum trouble { NO_TROUBLE, STARTED_AGAIN, WAITS, REPEATS };

/* A container that ended with 0 is started again by restartPolicy Always, and where a probe made
 * kubelet stop it; that is a loop, but no failure. */
static enum trouble trouble_of(
    const struct subject *s, const struct co_jnode *c, bool init, struct api_ending *ret) {
    const char *name = co_jnode_str(c, "name");
    const char *waits = text_of(co_jnode_str(c, "state", "waiting", "reason"));
    const struct co_jnode *now = terminated(c, "state"), *last = terminated(c, "lastState");
    const struct co_jnode *ended = now ? now : last;
    int64_t code = co_jnode_i64(co_jnode_get(ended, "exitCode"));
    enum start again = starts_again(s, name, init, code);
    bool backs_off = now ? again != NO_START : last && is_between_starts(waits);
    bool runs = last && co_jnode_at(c, "state", "running");
    if (backs_off || runs) {
        ret->cause = cause_of(s, c, init, ended);
        ret->again = backs_off ? API_AGAIN_WAITS : API_AGAIN_RUNS;
        ret->repeats = again == BY_POLICY && code != 0 && rank_of(s, name, init) <= INIT;
        return ret->repeats ? REPEATS : backs_off ? WAITS : STARTED_AGAIN;
    }
    waits = waits && is_passing(waits) ? NULL : waits;
    if (!waits) {
        return NO_TROUBLE;
    }
    ret->cause = (struct api_cause){.container = name,
        .reason = waits,
        .message = without_layers(co_jnode_str(c, "state", "waiting", "message")),
        .exit_code = ended ? (int32_t)(code & 255) : -1};
    return WAITS;
}

static enum trouble find_trouble(const struct subject *s, struct api_ending *ret) {
    enum trouble most = NO_TROUBLE;
    for (size_t l = 0; l < CO_ARRAY_LEN(status_lists); l++) {
        co_jnode_each(c, co_jnode_get(s->status, status_lists[l])) {
            struct api_ending e = *ret;
            enum trouble t = trouble_of(s, c, l == 0, &e);
            if (t > most) {
                most = t;
                *ret = e;
            }
        }
    }
    return most;
}

/* The training, if it has exited with 0 while others run on. */
static struct api_cause ended_training(const struct subject *s) {
    co_jnode_each(c, co_jnode_get(s->status, "containerStatuses")) {
        const struct co_jnode *t = terminated(c, "state");
        int64_t code = -1;
        if (co_jnode_int(co_jnode_get(t, "exitCode"), &code) && code == 0 &&
            rank_of(s, co_jnode_str(c, "name"), false) == TRAINING) {
            return (struct api_cause){
                .container = co_jnode_str(c, "name"), .finished = co_jnode_str(t, "finishedAt")};
        }
    }
    return (struct api_cause){.exit_code = -1};
}

static const struct co_jnode *find_unplaced(const struct co_jnode *status) {
    co_jnode_each(c, co_jnode_get(status, "conditions")) {
        if (is_condition(c, "PodScheduled", "False")) {
            return c;
        }
    }
    return NULL;
}

static struct api_cause cause_of_condition(const struct co_jnode *c) {
    return (struct api_cause){.reason = co_jnode_str(c, "reason"),
        .message = co_jnode_str(c, "message"),
        .exit_code = -1};
}

static void judge_live(const struct subject *s, struct api_ending *e) {
    const struct co_jnode *lost = find_lost(s->status);
    e->lost = lost != NULL;
    e->blame = s->disruption ? API_BLAME_NODE : s->deleting ? API_BLAME_USER : API_BLAME_NOBODY;
    if (lost) {
        e->cause = (struct api_cause){.reason = "NodeLost",
            .message = co_jnode_str(s->spec, "nodeName"),
            .finished = co_jnode_str(lost, "lastTransitionTime"),
            .exit_code = -1};
        return;
    }
    if (s->disruption) {
        e->cause = cause_of_condition(s->disruption);
        return;
    }
    if (find_trouble(s, e) != NO_TROUBLE) {
        /* A node that was rebooted, or could not start one, starts its containers again: nobody
         * takes the pod away. */
        bool own = e->repeats && !is_lost_container(e->cause.reason) && !e->cause.unstarted;
        e->blame = own && !s->deleting ? API_BLAME_PROGRAM : e->blame;
        return;
    }
    e->cause = first_failure(s, ADDED); /* the pod runs on with its other containers */
    const struct co_jnode *unplaced = find_unplaced(s->status);
    if (e->cause.exit_code < 0) {
        e->cause = unplaced ? cause_of_condition(unplaced) : ended_training(s);
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* The conditions by which a controller asks a pod to end: Kubernetes' own, and Kueue's. */
static const struct co_jnode *find_disruption(const struct co_jnode *status) {
    static const char *const types[] = {"DisruptionTarget", "TerminationTarget"};
    co_jnode_each(c, co_jnode_get(status, "conditions")) {
        for (size_t i = 0; i < CO_ARRAY_LEN(types); i++) {
            if (is_condition(c, types[i], "True")) {
                return c;
            }
        }
    }
    return NULL;
}

static bool is_over(const struct subject *s) {
    bool over = false;
    co_jnode_each(c, co_jnode_get(s->status, "containerStatuses")) {
        const struct co_jnode *t = terminated(c, "state");
        int64_t code = co_jnode_i64(co_jnode_get(t, "exitCode"));
        if (!t || starts_again(s, co_jnode_str(c, "name"), false, code) != NO_START) {
            return false;
        }
        over = true;
    }
    return over;
}

static struct subject subject_of(const struct co_jnode *pod) {
    const struct co_jnode *meta = co_jnode_get(pod, "metadata");
    struct subject s = {.spec = co_jnode_get(pod, "spec"),
        .status = co_jnode_get(pod, "status"),
        .names = text_of(co_jnode_str(meta, "annotations", API_ANNOTATION_CONTAINERS))};
    const char *deleted = co_jnode_str(meta, "deletionTimestamp"); /* the end of the grace period */
    s.policy = co_jnode_str(s.spec, "restartPolicy");
    s.disruption = find_disruption(s.status);
    s.deleting = deleted != NULL;
    s.over = is_over(&s);
    if (s.disruption) {
        s.asked = co_time_of(co_jnode_str(s.disruption, "lastTransitionTime"));
    } else if (deleted) {
        /* kubelet sets the grace period to 0 when the containers have ended. */
        int64_t grace = co_jnode_i64(co_jnode_get(meta, "deletionGracePeriodSeconds"));
        s.asked = grace ? co_time_of(deleted) - grace : 0;
    }
    return s;
}

void api_ending_judge(const struct co_jnode *pod, struct api_ending *ret) {
    struct subject s = subject_of(pod);
    enum api_pod_phase phase = decode_phase(co_jnode_str(s.status, "phase"));
    *ret = (struct api_ending){.phase = judge_phase(&s, phase), .cause.exit_code = -1};
    ret->runs_on = ret->phase != phase && phase == API_POD_RUNNING;
    if (ret->phase == API_POD_FAILED) {
        judge_failure(&s, ret);
    } else if (ret->phase != API_POD_SUCCEEDED) {
        judge_live(&s, ret);
    }
}
