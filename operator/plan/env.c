/* Host ports, peer lists, the token and the direct variables, from the contract's table
 * (common/contract.h). */
#include "operator/plan/env.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/contract.h"
#include "common/parse.h"

/* ---- ports ---------------------------------------------------------------------------------- */

/* A port reserves CO_PORT_SPAN ports; those of earlier versions may begin at any number. */
static bool is_taken(uint16_t port, const uint16_t *taken, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (taken[i] < port + CO_PORT_SPAN && port < taken[i] + CO_PORT_SPAN) {
            return true;
        }
    }
    return false;
}

uint16_t plan_port(const char *uid, const uint16_t *taken, size_t n_taken) {
    uint64_t h = 0xcbf29ce484222325U;
    for (const char *p = uid; *p; p++) {
        h = (h ^ (unsigned char)*p) * 0x100000001b3U;
    }
    h ^= h >> 32; /* the low bits of FNV alone are not random enough */
    uint16_t first = 0;
    for (uint64_t i = 0; i < CO_PORT_SLOTS; i++) {
        uint16_t port = (uint16_t)(CO_PORT_BASE + CO_PORT_SPAN * ((h + i) % CO_PORT_SLOTS));
        first = i ? first : port;
        if (!is_taken(port, taken, n_taken)) {
            return port;
        }
    }
    return first; /* all are taken: pods of the two jobs must not meet on a node */
}

/* The port of a live job never changes, so the one in its ConfigMap is used first. */
static uint16_t job_port(const struct plan_children *w) {
    if (plan_job_named(w->job)) {
        return CO_PORT_BASE;
    }
    uint16_t have = w->configmap ? w->configmap->port : 0;
    if (have >= CO_PORT_BASE && have < CO_PORT_BASE + CO_PORT_SPAN * CO_PORT_SLOTS) {
        return have;
    }
    bool host = w->job->intranet == API_HOST;
    return plan_port(
        w->job->uid, host ? w->seen->ports_taken : NULL, host ? w->seen->n_ports_taken : 0);
}

/* ---- addresses ------------------------------------------------------------------------------ */

const char *plan_address(const char *const ip[2], int prefer_family) {
    for (size_t i = 0; i < 2 && prefer_family; i++) {
        bool v6 = strchr(ip[i], ':') != NULL;
        if (*ip[i] && v6 == (prefer_family == 6)) {
            return ip[i];
        }
    }
    return ip[0];
}

/* A pod that has succeeded and is gone counts as addressed: lists have its name instead of an
 * address.  So pods that start again do not wait for it, and do not connect to another pod that has
 * its former address. */
static bool has_address(const struct plan_slot *slot) {
    const struct api_pod *pod = slot->pod;
    return pod ? *pod->ip[0] && (!pod->c.deleting || plan_slot_succeeded(slot)) : slot->done;
}

bool plan_env_addressed(const struct plan_children *w) {
    plan_slots_each(s, w) {
        if (!has_address(s)) {
            return false;
        }
    }
    return true;
}

bool plan_env_published(const struct plan_children *w, const json_t *env) {
    const struct api_configmap *have = w->configmap;
    if (!have || have->c.deleting) {
        return false;
    }
    if (have->old) {
        return have->peers == api_env_peers_hash(env);
    }
    /* With --prefer-family pods read their own address from the ConfigMap as well. */
    return have->hash == api_env_hash(env) && (have->own_ips || !api_env_own_ips(env));
}

static void slot_host(
    const struct plan_children *w, enum api_role role, int32_t index, char *ret, size_t size) {
    bool asked = index < plan_children_replicas(w, role); /* gloo's server may not be */
    const struct api_pod *pod = asked ? w->slot[role][index].pod : NULL;
    if (plan_job_named(w->job) || !pod) {
        plan_job_host(w->job, role, index, ret, size);
        return;
    }
    (void)snprintf(ret, size, "%s", plan_address(pod->ip, w->settings->prefer_family));
}

/* ---- the ConfigMap's values ----------------------------------------------------------------- */

enum { LIST_MAX = API_REPLICAS_MAX * (2 * API_NAME_MAX + 10) };

/* port 0: hosts only. */
static char *host_list(const struct plan_children *w, enum api_role role, uint16_t port) {
    struct co_buf b = CO_BUF(LIST_MAX);
    for (int32_t i = 0; i < plan_children_replicas(w, role); i++) {
        char host[CO_HOST_MAX];
        char text[CO_HOST_MAX + 10];
        slot_host(w, role, i, host, sizeof(host));
        const char *item = host;
        if (port) {
            co_hostport_format(host, port, text, sizeof(text));
            item = text;
        }
        (void)!co_buf_adds(&b, i ? "," : "", NULL); /* LIST_MAX has room for all */
        (void)!co_buf_adds(&b, item, NULL);
    }
    return co_buf_take(&b);
}

/* Whether the job's pods get a variable with this condition. */
static bool is_given(const struct api_job *job, enum co_var_when when) {
    switch (when) {
    case CO_WHEN_ALWAYS:
        return true;
    case CO_WHEN_PS:
        return job->role[API_PS].present;
    case CO_WHEN_WORKER:
        return job->role[API_WORKER].present;
    case CO_WHEN_HETER:
        return job->role[API_HETER].present;
    case CO_WHEN_GLOO:
        return job->gloo > 0;
    case CO_WHEN_ELASTIC:
        return job->elastic;
    case CO_WHEN_TOKEN:
        return job->peer_auth >= API_PEER_TOKEN;
    case CO_WHEN_ENCRYPTED:
        return job->peer_auth == API_PEER_ENCRYPTED;
    case CO_WHEN_TORCH:
        return job->torch;
    case CO_WHEN_SERVES: /* see is_direct: these go by the role */
    case CO_WHEN_GRACE:
    case CO_WHEN_NEVER:
    default:
        return false;
    }
}

static char *number_text(int64_t n) {
    return co_xasprintf("%" PRId64, n);
}

static char *gloo_endpoint(const struct plan_children *w, uint16_t port) {
    char host[CO_HOST_MAX];
    char text[CO_HOST_MAX + 10];
    slot_host(w, API_PS, 0, host, sizeof(host));
    co_hostport_format(host, (unsigned)port + CO_PORT_GLOO, text, sizeof(text));
    return co_xstrdup(text);
}

static char *master_host(const struct plan_children *w) {
    char host[CO_HOST_MAX];
    slot_host(w, API_WORKER, 0, host, sizeof(host));
    return co_xstrdup(host);
}

/* The value of a ConfigMap variable; the caller frees it. */
static char *encode_var(const struct plan_children *w, enum co_var var, uint16_t port) {
    switch (var) {
    case CO_VAR_PORTS_NUM:
        return number_text(CO_PORT_SPAN);
    case CO_VAR_PORT:
        return number_text(port);
    case CO_VAR_PSERVERS:
        return host_list(w, API_PS, port);
    case CO_VAR_TRAINER_ENDPOINTS:
        return host_list(w, API_WORKER, port);
    case CO_VAR_TRAINERS:
        return host_list(w, API_WORKER, 0);
    case CO_VAR_TRAINERS_NUM:
        return number_text(w->job->role[API_WORKER].replicas);
    case CO_VAR_HETER_ENDPOINTS:
        return host_list(w, API_HETER, port);
    case CO_VAR_WITH_GLOO:
        return number_text(w->job->gloo);
    case CO_VAR_GLOO_RENDEZVOUS:
        return co_xstrdup("3");
    case CO_VAR_GLOO_HTTP_ENDPOINT:
        return gloo_endpoint(w, port);
    case CO_VAR_MASTER_ADDR:
        return master_host(w);
    case CO_VAR_MASTER_PORT:
        return number_text(port + CO_PORT_MASTER);
    case CO_VAR_TORCH_WORLD_SIZE:
    case CO_VAR_TORCH_GROUP_WORLD_SIZE:
        return number_text(w->job->role[API_WORKER].replicas);
    case CO_VAR_TORCH_LOCAL_RANK:
        return number_text(0);
    case CO_VAR_TORCH_LOCAL_WORLD_SIZE:
        return number_text(1);
    case CO_VAR_TORCH_RUN_ID:
        return co_xstrdup(w->job->name);
    case CO_VAR_TORCH_RESTART_COUNT:
        return number_text(w->attempt);
    default:
        return co_xstrdup("");
    }
}

/* ---- a pod's own address -------------------------------------------------------------------- */

/* The downward API gives a pod the first of its addresses.  With --prefer-family peer lists may
 * have the other one, so each pod reads its own from the ConfigMap.  Elastic pods read no
 * ConfigMap. */
static bool chooses_address(const struct api_job *job, const struct plan_settings *settings) {
    return settings->prefer_family && !plan_job_named(job) && !job->elastic;
}

/* The key of a pod's own address: "POD_IP_PS_0".  The caller frees it. */
static char *address_key(enum api_role role, int32_t index) {
    static const char *const words[] = {
        [API_PS] = "PS", [API_WORKER] = "WORKER", [API_HETER] = "HETER"};
    return co_xasprintf("%s_%s_%" PRId32, co_contract[CO_VAR_POD_IP].name, words[role], index);
}

static void set_addresses(const struct plan_children *w, json_t *data) {
    plan_slots_each(s, w) {
        CO_AUTOFREE char *key = address_key(s->role, s->index);
        char host[CO_HOST_MAX];
        slot_host(w, s->role, s->index, host, sizeof(host));
        co_json_set(data, key, co_json_string(host));
    }
}

/* ---- */

json_t *plan_env_data(const struct plan_children *w) {
    if (!plan_job_named(w->job) && !plan_env_addressed(w)) {
        return NULL;
    }
    uint16_t port = job_port(w);
    json_t *data = json_object();
    for (enum co_var var = 0; var < CO_VAR_COUNT; var++) {
        const struct co_contract_row *row = &co_contract[var];
        if (row->via == CO_VIA_CONFIGMAP && is_given(w->job, row->when)) {
            CO_AUTOFREE char *value = encode_var(w, var, port);
            co_json_set(data, row->name, co_json_string(value));
        }
    }
    if (chooses_address(w->job, w->settings)) {
        set_addresses(w, data);
    }
    return data;
}

/* ---- the token ------------------------------------------------------------------------------ */

static bool has_variable(const json_t *env, const char *name) {
    size_t i;
    json_t *e;
    json_array_foreach(env, i, e) {
        if (co_streq(co_json_str(e, "name"), name)) {
            return true;
        }
    }
    return false;
}

void plan_env_token(const struct api_job *job, json_t *env) {
    const struct co_contract_row *row = &co_contract[CO_VAR_JOB_TOKEN];
    if (is_given(job, row->when) && !has_variable(env, row->name)) {
        CO_AUTOFREE char *secret = api_token_name(job);
        co_json_append(env, json_pack("{s:s,s:{s:{s:s,s:s}}}", "name", row->name, "valueFrom",
                                "secretKeyRef", "name", secret, "key", API_TOKEN_KEY));
    }
}

/* ---- direct variables ----------------------------------------------------------------------- */

static const char *role_word(enum api_role role) {
    return role == API_PS       ? co_contract_role_ps
           : role == API_WORKER ? co_contract_role_worker
                                : co_contract_role_heter;
}

/* "MIN:MAX" workers.  It is the same in every pod of an attempt, so that scaling changes no pod.
 * Without limits in the spec, MIN is 1 and MAX the largest number requested.  A single number, as
 * paddle-operator wrote, would mean to launchers that the number never changes. */
static char *elastic_np(const struct api_job *job) {
    const struct api_role_spec *worker = &job->role[API_WORKER];
    int32_t least = worker->min > 0 ? worker->min : 1;
    int32_t most = worker->max > 0 ? worker->max : job->np;
    return co_xasprintf("%" PRId32 ":%" PRId32, least, most > least ? most : least);
}

/* -1: Kubernetes' default. */
static int64_t grace_of(const json_t *pod_spec) {
    const json_t *grace = json_object_get(pod_spec, "terminationGracePeriodSeconds");
    return json_is_integer(grace) ? json_integer_value(grace) : -1;
}

/* What a launcher may give the training of the pod's grace period: it needs the rest itself, to
 * write down why it ends. */
static int64_t stop_timeout(int64_t grace) {
    enum { OWN_MAX = 5, OWN_PART = 6 /* 30 s, the default, leaves the launcher's default, 25 s */ };
    int64_t own = grace / OWN_PART;
    return grace - (own < OWN_MAX ? own : OWN_MAX);
}

/* {"name": …, "value": …}, or a reference to a field of the pod or of the ConfigMap. */
static json_t *make_direct(const struct api_job *job, enum co_var var, enum api_role role,
    int32_t index, const struct plan_settings *settings, const json_t *pod_spec) {
    json_t *e = json_object();
    co_json_set(e, "name", json_string(co_contract[var].name));
    CO_AUTOFREE char *value = NULL;
    char name[CO_HOST_MAX];
    switch (var) {
    case CO_VAR_POD_IP:
        if (plan_job_named(job)) {
            plan_job_host(job, role, index, name, sizeof(name));
            value = co_xstrdup(name);
            break;
        }
        if (chooses_address(job, settings)) {
            value = address_key(role, index);
            co_json_set(e, "valueFrom",
                json_pack("{s:{s:s,s:s}}", "configMapKeyRef", "name", job->name, "key", value));
        } else {
            co_json_set(
                e, "valueFrom", json_pack("{s:{s:s}}", "fieldRef", "fieldPath", "status.podIP"));
        }
        return e;
    case CO_VAR_TRAINER_ID:
    case CO_VAR_TORCH_RANK:
    case CO_VAR_TORCH_GROUP_RANK:
        value = number_text(index);
        break;
    case CO_VAR_TRAINING_ROLE:
    case CO_VAR_PADDLE_TRAINING_ROLE:
        value = co_xstrdup(role_word(role));
        break;
    case CO_VAR_ELASTIC_JOB_ID:
        value = co_xasprintf("%s-%s", job->ns, job->name);
        break;
    case CO_VAR_ELASTIC_NP:
        value = elastic_np(job);
        break;
    case CO_VAR_ELASTIC_TIMEOUT:
        value = co_xstrdup("60");
        break;
    case CO_VAR_JOB_ENCRYPT:
        value = co_xstrdup("1");
        break;
    case CO_VAR_TRAINING_END:
        value =
            co_xasprintf("%s/end/v1/%s/%s/%s", settings->gate_addr, job->ns, job->name, job->uid);
        break;
    case CO_VAR_STOP_TIMEOUT:
        value = number_text(stop_timeout(grace_of(pod_spec)));
        break;
    default:
        value = co_xstrdup("");
        break;
    }
    co_json_set(e, "value", co_json_string(value));
    return e;
}

/* The pod is a server, which does not end by itself when training is over, and may ask the gate. */
static bool serves(
    const struct api_job *job, enum api_role role, const struct plan_settings *settings) {
    return role == API_PS && plan_job_some_decide(job) && settings->gate_addr &&
           *settings->gate_addr;
}

static bool is_direct(const struct api_job *job, enum co_var var, enum api_role role,
    const struct plan_settings *settings, const json_t *pod_spec) {
    const struct co_contract_row *row = &co_contract[var];
    bool given = row->when == CO_WHEN_SERVES  ? serves(job, role, settings)
                 : row->when == CO_WHEN_GRACE ? grace_of(pod_spec) >= 0
                                              : is_given(job, row->when);
    return row->via == CO_VIA_ENV && given;
}

void plan_env_direct(const struct api_job *job, enum api_role role, int32_t index,
    const struct plan_settings *settings, const json_t *pod_spec, json_t *env) {
    for (enum co_var var = 0; var < CO_VAR_COUNT; var++) {
        const bool kept =
            co_contract[var].when == CO_WHEN_TORCH && has_variable(env, co_contract[var].name);
        if (is_direct(job, var, role, settings, pod_spec) && !kept) {
            co_json_append(env, make_direct(job, var, role, index, settings, pod_spec));
        }
    }
}

/* The value differs between the pods of a role. */
static bool gives_index(
    const struct api_job *job, enum co_var var, const struct plan_settings *settings) {
    return var == CO_VAR_TRAINER_ID || var == CO_VAR_TORCH_RANK || var == CO_VAR_TORCH_GROUP_RANK ||
           (var == CO_VAR_POD_IP && (plan_job_named(job) || chooses_address(job, settings)));
}

void plan_env_direct_again(const struct api_job *job, enum api_role role, int32_t index,
    const struct plan_settings *settings, const json_t *pod_spec, json_t *env) {
    size_t at = json_array_size(env);
    for (enum co_var var = CO_VAR_COUNT; var-- > 0;) {
        const char *last = at ? co_json_str(json_array_get(env, at - 1), "name") : NULL;
        /* A name that is missing at its place is one that the template has itself. */
        if (!is_direct(job, var, role, settings, pod_spec) ||
            !co_streq(last, co_contract[var].name)) {
            continue;
        }
        at--;
        if (gives_index(job, var, settings)) {
            (void)json_array_set_new(
                env, at, make_direct(job, var, role, index, settings, pod_spec));
        }
    }
}
