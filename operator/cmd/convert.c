/* `paddle-operator convert`: jobs of relatives as ours, which are Kubeflow's PaddleJob
 * (kubeflow.org/v1) and PaddleCloud's fields, by tables of what moves or is renamed, and the few
 * functions that need more.  What the fields mean there: Kubeflow's training-operator 1.9,
 * PaddleCloud 0.1. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "common/yaml/yaml_write.h"
#include "crd/unknown.h"
#include "operator/api/job.h"
#include "operator/api/words.h"
#include "operator/cmd/commands.h"
#include "operator/cmd/files.h"

#define KUBEFLOW "kubeflow.org/v1"

enum { UNKNOWN_MAX = 100, PAGE = 16 << 20 };

static const char no_such_field[] = "not carried over: there is no such field here";

struct conversion {
    json_t *from; /* a copy: what has been carried over is taken out */
    json_t *spec; /* of the result; borrowed */
    bool limited; /* it has a backoffLimit */
    bool ruled;   /* a role has restartPolicy ExitCode, so the result has a failurePolicy */
    const struct opc_position *at;
};

/* Fields that move, with their values.  Of the relatives' jobs; NULL: no place here. */
static const struct move {
    const char *from[3], *to[2];
    const char *note; /* NULL: it means the same */
} moves[] = {
    {{"runPolicy", "ttlSecondsAfterFinished"}, {"ttlSecondsAfterFinished"}, NULL},
    {{"runPolicy", "activeDeadlineSeconds"}, {"activeDeadlineSeconds"}, NULL},
    {{"runPolicy", "backoffLimit"}, {"backoffLimit"},
        "here it counts restarts of the whole group, not of containers"},
    {{"runPolicy", "suspend"}, {"suspend"}, NULL},
    {{"runPolicy", "schedulingPolicy", "minAvailable"}, {"schedulingPolicy", "minAvailable"}, NULL},
    {{"runPolicy", "schedulingPolicy", "queue"}, {"schedulingPolicy", "queue"}, NULL},
    {{"runPolicy", "schedulingPolicy", "minResources"}, {"schedulingPolicy", "minResources"}, NULL},
    {{"runPolicy", "schedulingPolicy", "priorityClass"}, {"schedulingPolicy", "priorityClass"},
        NULL},
    {{"runPolicy", "schedulingPolicy", "scheduleTimeoutSeconds"}, {NULL},
        "not carried over: set activeDeadlineSeconds, or ask the scheduler for it"},
    {{"runPolicy", "managedBy"}, {NULL},
        "not carried over: spec.managedBy names another controller than this operator"},
    {{"elasticPolicy", "minReplicas"}, {"worker", "requests"}, NULL},
    {{"elasticPolicy", "maxReplicas"}, {"worker", "limits"}, NULL},
    {{"elasticPolicy", "maxRestarts"}, {NULL},
        "not carried over: spec.backoffLimit says how often the group may be restarted"},
    {{"elasticPolicy", "metrics"}, {NULL},
        "not carried over: make a HorizontalPodAutoscaler for the PaddleJob (it has a scale)"},
    {{"cleanPolicy"}, {"cleanPodPolicy"}, NULL},
    {{"sampleSetRef"}, {NULL},
        "not carried over: mount the data in the template (spec.volumes and volumeMounts)"},
};

static const struct {
    const char *there, *here;
} clean_policies[] = {{"All", "Always"}, {"None", "Never"}, {"Running", "Running"}};

static const struct {
    const char *type, *role;
} replica_types[] = {{"Worker", "worker"}, {"Master", "ps"}};

/* Takes the value out of its place; NULL: there is none.  Owned by the caller. */
static json_t *take(json_t *obj, const char *const path[3]) {
    json_t *in = obj;
    size_t last = 0;
    while (last < 2 && path[last + 1]) {
        in = json_object_get(in, path[last++]);
    }
    json_t *v = json_incref(json_object_get(in, path[last]));
    (void)json_object_del(in, path[last]);
    return v;
}

static json_t *member(json_t *obj, const char *key) {
    json_t *v = json_object_get(obj, key);
    if (!json_is_object(v)) {
        v = json_object();
        co_json_set(obj, key, v);
    }
    return v;
}

/* path: of the field in the job that was read. */
static void print_note(const struct opc_position *at, const char *path, const char *message) {
    (void)fprintf(stderr, "%s:%d: %s: %s\n", at->file, opc_position_line(at, path), path, message);
}

static void note(const struct conversion *c, const char *path, const char *message) {
    CO_AUTOFREE char *full = path ? co_xasprintf("spec.%s", path) : NULL;
    print_note(c->at, full, message);
}

static void move_fields(struct conversion *c) {
    for (size_t i = 0; i < CO_ARRAY_LEN(moves); i++) {
        const struct move *m = &moves[i];
        CO_AUTOJSON json_t *v = take(c->from, m->from);
        const char *said = v ? m->note : NULL;
        if (v && m->to[0]) {
            json_t *in = m->to[1] ? member(c->spec, m->to[0]) : c->spec;
            const char *key = m->to[1] ? m->to[1] : m->to[0];
            bool taken = json_object_get(in, key);
            said = taken ? "not carried over: what it is called here is there, too" : said;
            co_json_set(in, key, json_incref(taken ? json_object_get(in, key) : v));
        }
        if (said) {
            CO_AUTOFREE char *path = co_xasprintf("%s%s%s%s%s", m->from[0], m->from[1] ? "." : "",
                m->from[1] ? m->from[1] : "", m->from[2] ? "." : "", m->from[2] ? m->from[2] : "");
            note(c, path, said);
        }
    }
}

/* Kubeflow leaves all pods where nothing is said. */
static void convert_clean_policy(struct conversion *c) {
    CO_AUTOJSON json_t *v = take(c->from, (const char *const[3]){"runPolicy", "cleanPodPolicy"});
    const char *word = v ? json_string_value(v) : "None";
    for (size_t i = 0; i < CO_ARRAY_LEN(clean_policies); i++) {
        if (word && strcmp(clean_policies[i].there, word) == 0) {
            co_json_set(c->spec, "cleanPodPolicy", json_string(clean_policies[i].here));
            return;
        }
    }
    note(c, "runPolicy.cleanPodPolicy", "not carried over: expected All, Running or None");
}

/* Their ExitCode: 1 to 127 are final, what is above is tried again. */
static void convert_restart_policy(
    struct conversion *c, const char *type, const char *role, json_t *pod, const char *policy) {
    CO_AUTOFREE char *path = co_xasprintf("paddleReplicaSpecs.%s.restartPolicy", type);
    if (strcmp(policy, "ExitCode") == 0) {
        json_t *rules = json_object_get(c->spec, "failurePolicy");
        if (!rules) {
            rules = json_array();
            co_json_set(c->spec, "failurePolicy", rules);
        }
        (void)json_array_append_new(rules,
            json_pack("{s:s,s:s,s:s}", "action", "Fail", "exitCodes", "1-127", "role", role));
        note(c, path,
            c->limited
                ? "as spec.failurePolicy: exit codes 1 to 127 fail the job, after others the whole "
                  "group restarts, at most spec.backoffLimit times"
                : "as spec.failurePolicy; set spec.backoffLimit, without which nothing is tried "
                  "again");
        return;
    }
    bool restarts = strcmp(policy, "Never") != 0;
    if (restarts && (c->limited || c->ruled)) {
        note(c, path,
            c->limited ? "not carried over: a failed container restarts the whole group, at most "
                         "spec.backoffLimit times"
                       : "not carried over: with spec.failurePolicy a failed container is a failed "
                         "pod; set spec.backoffLimit, without which nothing is tried again");
        return;
    }
    co_json_set(pod, "restartPolicy", json_string(policy));
    if (restarts) {
        note(c, path,
            "kubelet restarts containers in their pods, without a limit; with spec.backoffLimit "
            "the whole group restarts, and so many times at most");
    }
}

static void convert_role(
    struct conversion *c, const char *type, const char *role, json_t *replica) {
    CO_AUTOJSON json_t *policy = take(replica, (const char *const[3]){"restartPolicy"});
    CO_AUTOJSON json_t *replicas = take(replica, (const char *const[3]){"replicas"});
    CO_AUTOJSON json_t *template = take(replica, (const char *const[3]){"template"});
    json_t *to = member(c->spec, role);
    co_json_set(to, "replicas", replicas ? json_incref(replicas) : json_integer(1));
    co_json_set(to, "template", template ? json_incref(template) : json_object());
    const char *word = json_string_value(policy);
    convert_restart_policy(
        c, type, role, member(json_object_get(to, "template"), "spec"), word ? word : "OnFailure");
}

static void convert_roles(struct conversion *c) {
    json_t *specs = json_object_get(c->from, "paddleReplicaSpecs"), *replica;
    const char *key;
    void *next;
    c->limited = json_is_integer(co_json_at(c->from, "runPolicy", "backoffLimit"));
    json_object_foreach(specs, key, replica) {
        c->ruled = c->ruled || co_streq(co_json_str(replica, "restartPolicy"), "ExitCode");
    }
    json_object_foreach_safe(specs, next, key, replica) {
        for (size_t i = 0; i < CO_ARRAY_LEN(replica_types); i++) {
            if (strcasecmp(replica_types[i].type, key) == 0 && json_is_object(replica)) {
                convert_role(c, replica_types[i].type, replica_types[i].role, replica);
            }
        }
    }
    if (json_object_get(c->spec, "ps")) {
        note(c, "paddleReplicaSpecs.Master",
            "became spec.ps: Kubeflow makes its Masters parameter servers");
    }
}

/* What nothing took: said once, at the highest place below spec's members at which all is left. */
static void note_rest(/* NOLINT(misc-no-recursion) */
    const struct conversion *c, const char *prefix, const json_t *rest, const json_t *whole) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)rest, key, v) {
        CO_AUTOFREE char *path = co_xasprintf("%s%s%s", prefix, *prefix ? "." : "", key);
        json_t *was = json_object_get(whole, key);
        if (json_is_object(v) && (!*prefix || !json_equal(v, was))) {
            note_rest(c, path, v, was);
        } else if (!json_is_object(v) || json_object_size(v) > 0) {
            note(c, path, no_such_field);
        }
    }
}

/* "spec.ps.odd" is taken out.  A name that was cut, or has a dot in it, stays. */
static void drop_unknown(void *arg, const char *path, const char *message) {
    struct conversion *c = arg;
    json_t *in = c->spec;
    const char *p = path + strlen("spec.");
    (void)message;
    for (const char *dot; (dot = strchr(p, '.')); p = dot + 1) {
        CO_AUTOFREE char *key = co_xasprintf("%.*s", (int)(dot - p), p);
        in = json_object_get(in, key);
    }
    (void)json_object_del(in, p);
    print_note(c->at, path, no_such_field);
}

static void note_words(const struct conversion *c, const json_t *was) {
    for (enum api_word_field f = 0; f < API_WORD_FIELDS; f++) {
        const char *path = api_word_path(f);
        const char *key = path + strlen("spec.");
        bool moved = f == API_WORD_CLEAN && !json_object_get(was, key);
        char odd[160];
        if (api_word_is_odd(f, c->spec, odd, sizeof(odd))) {
            note(c, moved ? "cleanPolicy" : key, odd + strlen(path) + strlen(" is "));
        }
    }
}

/* All but the fields of the table is ours already. */
static void convert_paddlecloud(struct conversion *c, json_t *ret, const json_t *was) {
    CO_AUTOJSON json_t *seen = json_object();
    c->from = c->spec;
    move_fields(c);
    note_words(c, was);
    co_json_set(seen, "spec", json_deep_copy(json_object_get(ret, "spec")));
    crd_find_unknown(seen, &(struct co_findings){.fn = drop_unknown, .arg = c, .max = UNKNOWN_MAX});
}

static bool is_kubeflow(const json_t *obj) {
    return co_streq(co_json_str(obj, "apiVersion"), KUBEFLOW);
}

/* A PaddleJob that this knows: of Kubeflow's group, or of our own. */
static bool is_known(const json_t *obj) {
    const char *version = co_json_str(obj, "apiVersion");
    return co_streq(co_json_str(obj, "kind"), API_KIND) && version &&
           (is_kubeflow(obj) || strcmp(version, API_VERSION) == 0);
}

static json_t *convert_metadata(const json_t *from) {
    static const char *const kept[] = {
        "name", "generateName", "namespace", "labels", "annotations"};
    json_t *meta = json_object();
    for (size_t i = 0; i < CO_ARRAY_LEN(kept); i++) {
        json_t *v = json_object_get(from, kept[i]);
        co_json_set(meta, kept[i], v ? json_deep_copy(v) : NULL);
    }
    return meta;
}

/* The same job as ours, owned by the caller. */
static json_t *convert_job(const json_t *obj, const struct opc_position *at) {
    CO_AUTOJSON json_t *from = json_deep_copy(json_object_get(obj, "spec"));
    json_t *spec = is_kubeflow(obj) ? json_object() : json_deep_copy(from);
    json_t *ret = json_object();
    co_json_set(ret, "apiVersion", json_string(API_VERSION));
    co_json_set(ret, "kind", json_string(API_KIND));
    co_json_set(ret, "metadata", convert_metadata(json_object_get(obj, "metadata")));
    co_json_set(ret, "spec", spec);
    struct conversion c = {.from = from, .spec = spec, .at = at};
    if (!is_kubeflow(obj)) {
        convert_paddlecloud(&c, ret, json_object_get(obj, "spec"));
        return ret;
    }
    convert_clean_policy(&c);
    convert_roles(&c);
    if (json_object_get(from, "elasticPolicy")) {
        co_json_set(spec, "elastic", json_integer(1));
    }
    move_fields(&c);
    note_rest(&c, "", from, json_object_get(obj, "spec"));
    return ret;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* A kind that only looks like ours: of another group, or another job of Kubeflow's. */
static bool is_stranger(const json_t *obj) {
    const char *version = co_json_str(obj, "apiVersion");
    return co_streq(co_json_str(obj, "kind"), API_KIND) ||
           (version && strncmp(version, "kubeflow.org/", strlen("kubeflow.org/")) == 0);
}

static int convert_object(
    void *arg, const struct opc_position *at, json_t *obj, struct co_err *err) {
    size_t *jobs = arg;
    CO_AUTOJSON json_t *made = is_known(obj) ? convert_job(obj, at) : NULL;
    *jobs += made != NULL;
    if (!made && is_stranger(obj)) {
        print_note(at, "apiVersion",
            "passes unchanged: only PaddleJobs of kubeflow.org/v1 and " API_VERSION
            " are converted");
    }
    CO_AUTOBUF struct co_buf text = CO_BUF(PAGE); /* others pass unchanged */
    CO_TRY(co_yaml_write(made ? made : obj, &text, err));
    (void)fputs(text.data, stdout);
    return 0;
}

static const char usage[] =
    "paddle-operator convert FILE|DIRECTORY|-...\n"
    "\n"
    "Prints PaddleJobs of Kubeflow (kubeflow.org/v1) and of PaddleCloud as "
    "PaddleJobs of this operator, and\n"
    "on standard error file:line: what changes its meaning, and what could "
    "not be carried over.  Each\n"
    "item of a List becomes a document; other objects pass unchanged.  Ends "
    "with 1 when there is no job.";

int opc_cmd_convert(int argc, char *argv[]) {
    size_t jobs = 0;
    int code = opc_files_command(usage, argc, argv, convert_object, &jobs);
    if (code < 0 && !jobs) {
        (void)fprintf(stderr, "paddle-operator: no PaddleJob to convert\n");
    }
    return code < 0 ? !jobs : code;
}
