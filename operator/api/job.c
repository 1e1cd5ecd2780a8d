/* The decoder of PaddleJobs: JSON to struct api_job, with the problems that validate.c finds. */
#include "operator/api/job.h"

#include <string.h>

#include "common/parse.h"
#include "operator/api/began.h"
#include "operator/api/range.h"
#include "operator/api/words.h"

static const char *text_or_empty(const char *s) {
    return s ? s : "";
}

static int32_t clamp32(const json_t *j, int32_t max) {
    int64_t v = json_is_integer(j) ? json_integer_value(j) : 0;
    return v < 0 ? 0 : v > max ? max : (int32_t)v;
}

/* The integer at a key, clamped to the range; `absent` when there is none. */
static int64_t number_at(
    const json_t *obj, const char *key, int64_t absent, int64_t min, int64_t max) {
    const json_t *j = json_object_get(obj, key);
    int64_t v = json_integer_value(j);
    return !json_is_integer(j) ? absent : v < min ? min : v > max ? max : v;
}

static void decode_roles(struct api_job *job, const json_t *spec) {
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const json_t *j = json_object_get(spec, api_role_name(r));
        struct api_role_spec *role = &job->role[r];
        role->present = json_is_object(j);
        role->asked = clamp32(json_object_get(j, "replicas"), API_REPLICAS_MAX);
        bool bounded = job->asked.elastic && r == API_WORKER;
        role->min = bounded ? (int32_t)number_at(j, "requests", -1, 0, API_REPLICAS_MAX) : -1;
        role->max = bounded ? (int32_t)number_at(j, "limits", -1, -1, API_REPLICAS_MAX) : -1;
        role->max = role->max > 0 ? role->max : -1; /* limits: 0 cannot mean "no worker at all" */
        role->replicas = role->max >= 0 && role->asked > role->max ? role->max : role->asked;
        role->replicas = role->replicas < role->min ? role->min : role->replicas;
        const json_t *tmpl = json_object_get(j, "template");
        role->tmpl = json_is_object(tmpl) ? tmpl : NULL;
    }
}

static void decode_rules(struct api_job *job, const json_t *list) {
    size_t n = json_array_size(list);
    n = n < API_RULES_MAX ? n : API_RULES_MAX;
    job->rules = n ? co_xcalloc(n, sizeof(*job->rules)) : NULL;
    job->n_rules = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *j = json_array_get(list, i);
        const char *codes = co_json_str(j, "exitCodes");
        const json_t *reasons = json_object_get(j, "reasons");
        struct api_rule *rule = &job->rules[i];
        const char *action = co_json_str(j, "action");
        rule->action = co_streq(action, "Fail")     ? API_FAIL
                       : co_streq(action, "Ignore") ? API_IGNORE
                                                    : API_RESTART;
        rule->role = api_role_parse(co_json_str(j, "role"));
        rule->any_code = !codes || !api_exit_codes_parse(codes, rule->codes);
        rule->reasons = json_is_array(reasons) ? reasons : NULL;
    }
}

const char *const api_peer_auths[API_PEER_AUTHS] = {
    [API_PEER_NONE] = "None",
    [API_PEER_TOKEN] = "Token",
    [API_PEER_ENCRYPTED] = "Encrypted",
};

bool api_managed_elsewhere(const char *manager) {
    return manager && *manager && strcmp(manager, API_MANAGER) != 0;
}

static void decode_policy(struct api_job *job, const json_t *spec) {
    job->suspend = json_is_true(json_object_get(spec, "suspend"));
    job->deadline = number_at(spec, "activeDeadlineSeconds", 0, 1, INT32_MAX);
    job->ttl = (int32_t)number_at(spec, "ttlSecondsAfterFinished", -1, 0, INT32_MAX);
    job->backoff_limit = (int32_t)number_at(spec, "backoffLimit", -1, 0, INT32_MAX);
    job->node_lost_after = (int32_t)number_at(spec, "nodeLostAfter", -1, 0, INT32_MAX);
    job->priority_class = text_or_empty(co_json_str(spec, "priorityClassName"));
    decode_rules(job, json_object_get(spec, "failurePolicy"));
}

/* Pods on the network of their node share its ports, and only Host mode gives each job ports of its
 * own and keeps servers on different nodes.  In the modes with names the scheduler does the latter,
 * by the port of the container. */
static bool uses_nodes_network(const struct api_job *job) {
    bool uses = false;
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        uses |= json_is_true(co_json_at(job->role[r].tmpl, "spec", "hostNetwork"));
    }
    return uses;
}

static void decode_spec(struct api_job *job, const json_t *spec) {
    job->clean = (enum api_clean)api_word_value(API_WORD_CLEAN, spec);
    struct api_shape *asked = &job->asked;
    asked->intranet = (enum api_intranet)api_word_value(API_WORD_INTRANET, spec);
    job->success = (enum api_success)api_word_value(API_WORD_SUCCESS, spec);
    const char *auth = co_json_str(spec, "peerAuth");
    for (enum api_peer_auth a = API_PEER_NONE; a < API_PEER_AUTHS; a++) {
        asked->peer_auth = co_streq(auth, api_peer_auths[a]) ? a : asked->peer_auth;
    }
    const json_t *elastic = json_object_get(spec, "elastic");
    asked->elastic = elastic && !json_is_null(elastic);
    decode_policy(job, spec);
    decode_roles(job, spec);
    if (asked->intranet == API_POD_IP && uses_nodes_network(job)) {
        asked->intranet = API_HOST;
    }
    asked->np = asked->elastic ? job->role[API_WORKER].replicas : 0;
    if (job->role[API_PS].present) {
        job->mode = API_MODE_PS;
    } else if (job->role[API_WORKER].present && job->role[API_WORKER].replicas > 1) {
        job->mode = API_MODE_COLLECTIVE;
        asked->torch = !asked->elastic && !job->role[API_HETER].present;
    }
    if (job->role[API_PS].replicas > 0) {
        asked->gloo = clamp32(json_object_get(spec, "withGloo"), INT32_MAX);
    }
}

/* Upstream's operator has begun the job, and this one has not written its status yet. */
static bool is_taken_over(const struct api_job *job) {
    return job->phase != API_PHASE_NONE && !json_object_get(job->status, "observedGeneration");
}

/* A running attempt keeps the shape that it began with. */
static void decode_shape(struct api_job *job) {
    struct api_shape shape = job->asked;
    shape.torch = shape.torch && !is_taken_over(job);
    const char *began = co_json_str(job->status, "began");
    if (!api_phase_terminal(job->phase) && api_began_read(began, &shape) &&
        !api_began_is_current(began, job)) {
        job->templates = api_began_parse(co_json_str(job->status, "beganTemplates"));
    }
    job->intranet = shape.intranet;
    job->peer_auth = shape.peer_auth;
    job->elastic = shape.elastic;
    job->gloo = shape.gloo;
    job->np = shape.np;
    job->torch = shape.torch;
}

static void decode_metadata(struct api_job *job, const json_t *meta) {
    job->ns = text_or_empty(co_json_str(meta, "namespace"));
    job->uid = text_or_empty(co_json_str(meta, "uid"));
    job->resource_version = text_or_empty(co_json_str(meta, "resourceVersion"));
    job->generation = json_integer_value(json_object_get(meta, "generation"));
    job->created = co_time_of(co_json_str(meta, "creationTimestamp"));
    const json_t *deleted = json_object_get(meta, "deletionTimestamp");
    job->deleting = deleted && !json_is_null(deleted);
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(meta, "finalizers"), i, f) {
        job->n_finalizers++;
        job->finalizer |= co_streq(json_string_value(f), API_FINALIZER) != 0;
    }
}

int api_job_decode(json_t *obj_own, struct api_job **ret, struct co_err *err) {
    CO_AUTOJSON json_t *obj = obj_own;
    if (!json_is_object(obj)) {
        return co_err_set(err, CO_INVALID, "not a JSON object, expected a PaddleJob");
    }
    const json_t *meta = json_object_get(obj, "metadata");
    const char *name = co_json_str(meta, "name");
    if (!name || !*name) {
        return co_err_set(err, CO_INVALID, "metadata.name is missing, expected the job's name");
    }
    struct api_job *job = co_xcalloc(1, sizeof(*job));
    job->owners = 1;
    job->name = name;
    decode_metadata(job, meta);
    decode_spec(job, json_object_get(obj, "spec"));
    job->elsewhere = api_managed_elsewhere(co_json_str(obj, "spec", "managedBy"));
    const json_t *status = json_object_get(obj, "status");
    job->status = json_is_object(status) ? status : NULL;
    job->phase = api_phase_parse(co_json_str(job->status, "phase"));
    job->attempt = (int32_t)number_at(job->status, "attempt", 0, 0, API_ATTEMPT_MAX);
    decode_shape(job);

    struct api_problem found[API_PROBLEMS_MAX];
    job->n_problems = api_job_validate(obj, false, found, API_PROBLEMS_MAX);
    if (job->n_problems) {
        job->problems = co_xcalloc(job->n_problems, sizeof(*job->problems));
        memcpy(job->problems, found, job->n_problems * sizeof(*found));
    }
    job->json = co_steal_ptr(obj);
    *ret = job;
    return 0;
}

struct api_job *api_job_share(struct api_job *job) {
    job->owners++;
    return job;
}

void api_job_free(struct api_job *job) {
    if (job && --job->owners == 0) {
        json_decref(job->json);
        json_decref(job->templates);
        free(job->rules);
        free(job->problems);
        free(job);
    }
}
