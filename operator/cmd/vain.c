/* Compares rules with what Kubernetes says of pods and with each other, and a gang with its pods.
 */
#include "operator/cmd/vain.h"

#include <inttypes.h>
#include <string.h>

#include "common/near.h"
#include "common/utf8.h"
#include "operator/api/job.h"

/* Reasons of containers, pods and the condition DisruptionTarget; the list is open, so that only
 * one that resembles one of these is taken for a mistake. */
static const char *const known_reasons[] = {"OOMKilled", "Error", "Completed", "ContainerCannotRun",
    "StartError", "ContainerStatusUnknown", "DeadlineExceeded", "Evicted", "Preempting",
    "Terminated", "NodeShutdown", "NodeAffinity", "NodeLost", "OutOfcpu", "OutOfmemory",
    "OutOfpods", "UnexpectedAdmissionError", "PreemptionByScheduler", "DeletionByTaintManager",
    "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet"};

static bool is_absent(const json_t *rule, const char *key) {
    const json_t *j = json_object_get(rule, key);
    return !j || json_is_null(j);
}

/* ---- failurePolicy -------------------------------------------------------------------------- */

static void check_reason(struct co_findings *to, const char *reason, const char *path) {
    struct co_near near = co_near_begin(reason, strlen(reason));
    const char *meant = NULL;
    for (size_t i = 0; i < CO_ARRAY_LEN(known_reasons); i++) {
        if (strcmp(reason, known_reasons[i]) == 0) {
            return;
        }
        meant = co_near_try(&near, known_reasons[i]) ? known_reasons[i] : meant;
    }
    if (meant) {
        co_finding(to, path, "is \"%.*s\", which Kubernetes does not say: did you mean %s?",
            co_utf8_fit(reason, 60), reason, meant);
    }
}

static void check_reasons(struct co_findings *to, const json_t *rule, const char *path) {
    const json_t *reasons = json_object_get(rule, "reasons");
    size_t i;
    json_t *reason;
    if (json_is_array(reasons) && !json_array_size(reasons)) {
        co_finding(
            to, path, "has an empty list of reasons, so that it fits no pod: leave it out for any");
    }
    json_array_foreach(reasons, i, reason) {
        CO_AUTOFREE char *at = co_xasprintf("%s.reasons.%zu", path, i);
        if (json_is_string(reason)) {
            check_reason(to, json_string_value(reason), at);
        }
    }
}

/* Whether the rule fits all that the later one does. */
static bool covers(const json_t *rule, const json_t *later) {
    const char *role = co_json_str(rule, "role");
    return is_absent(rule, "exitCodes") && is_absent(rule, "reasons") &&
           is_absent(later, "reasons") && (!role || co_streq(co_json_str(later, "role"), role));
}

static void check_rules(struct co_findings *to, const json_t *rules) {
    size_t i;
    json_t *rule;
    json_array_foreach(rules, i, rule) {
        CO_AUTOFREE char *path = co_xasprintf("spec.failurePolicy.%zu", i);
        size_t by = 0;
        while (by < i && !covers(json_array_get(rules, by), rule)) {
            by++;
        }
        if (by < i) {
            co_finding(to, path,
                "never applies: spec.failurePolicy.%zu, before it, fits the same pods", by);
        }
        check_reasons(to, rule, path);
    }
}

/* ---- schedulingPolicy ----------------------------------------------------------------------- */

static void check_gang(struct co_findings *to, const json_t *spec) {
    const json_t *given = co_json_at(spec, "schedulingPolicy", "minAvailable");
    int64_t most = 0;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const json_t *role = json_object_get(spec, api_role_name(r));
        int64_t replicas = json_integer_value(json_object_get(role, "replicas"));
        int64_t limits = json_integer_value(json_object_get(role, "limits"));
        most += replicas > limits ? replicas : limits;
    }
    if (json_is_integer(given) && json_integer_value(given) > most) {
        co_finding(to, "spec.schedulingPolicy.minAvailable",
            "is %" PRId64 ", but the job has at most %" PRId64
            " pod%s: the scheduler would wait for ever",
            (int64_t)json_integer_value(given), most, most == 1 ? "" : "s");
    }
}

void opc_vain_find(const json_t *spec, struct co_findings *to) {
    check_rules(to, json_object_get(spec, "failurePolicy"));
    check_gang(to, spec);
}
