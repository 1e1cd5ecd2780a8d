/* Checks a job's JSON for everything that would make it impossible to run, with messages that say
 * what to do. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"
#include "operator/api/job.h"
#include "operator/api/quantity.h"
#include "operator/api/range.h"
#include "operator/api/spelling.h"

struct problem_list {
    struct api_problem *rows;
    size_t n, max;
};

/* The message is the path, followed by the sentence. */
static void CO_PRINTF(4, 5) add_problem(
    struct problem_list *f, enum api_problem_code code, const char *path, const char *fmt, ...) {
    if (f->n == f->max) {
        return;
    }
    struct api_problem *p = &f->rows[f->n++];
    *p = (struct api_problem){.code = code};
    (void)snprintf(p->path, sizeof(p->path), "%s", path);
    int n = snprintf(p->message, sizeof(p->message), "%s ", path);
    if (n < 0 || (size_t)n >= sizeof(p->message)) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    /* A long message is cut. */
    (void)vsnprintf(p->message + n, sizeof(p->message) - (size_t)n, fmt, ap);
    va_end(ap);
}

static bool is_absent(const json_t *j) {
    return !j || json_is_null(j);
}

/* ---- names -------------------------------------------------------------------------------- */

/* Number of pods that the role may have: for elastic workers at least `requests`. */
static int64_t most_replicas(const json_t *spec, enum api_role role) {
    const json_t *j = json_object_get(spec, api_role_name(role));
    int64_t replicas = json_integer_value(json_object_get(j, "replicas"));
    int64_t least = json_integer_value(json_object_get(j, "requests"));
    bool raised = role == API_WORKER && !is_absent(json_object_get(spec, "elastic"));
    return raised && least > replicas ? least : replicas;
}

/* NULL and a problem: it is something else, as y and 123 are.  "": it is not there. */
static const char *name_at(
    struct problem_list *f, const json_t *obj, const char *key, const char *path) {
    const json_t *given = co_json_at(obj, "metadata", key);
    const char *name = is_absent(given) ? "" : json_string_value(given);
    if (!name) {
        CO_AUTOFREE char *text = json_dumps(given, JSON_ENCODE_ANY | JSON_COMPACT);
        add_problem(f, API_PROBLEM_NAME, path, "is %.40s, expected a string: write it in quotes",
            text ? text : "");
    }
    return name;
}

static void check_namespace(struct problem_list *f, const json_t *obj) {
    const char *ns = name_at(f, obj, "namespace", "metadata.namespace");
    if (!ns || !*ns) {
        return;
    }
    if (!api_is_spelled(API_LABEL, ns, strlen(ns))) {
        add_problem(f, API_PROBLEM_NAME, "metadata.namespace",
            "is \"%.*s\", which no namespace can be called: use %s", co_utf8_fit(ns, 80), ns,
            api_spelling_words(API_LABEL));
    }
}

static void check_name(struct problem_list *f, const json_t *obj) {
    const char *name = name_at(f, obj, "name", "metadata.name");
    if (!name) {
        return;
    }
    if (!*name) {
        add_problem(f, API_PROBLEM_NAME, "metadata.name", "is missing: give the job a name");
        return;
    }
    size_t n = strlen(name);
    bool digit = name[0] >= '0' && name[0] <= '9'; /* no Service is called so */
    if (digit || (n <= API_NAME_MAX && !api_is_spelled(API_LABEL, name, n))) {
        add_problem(f, API_PROBLEM_NAME, "metadata.name",
            "is \"%.*s\", but pods and Services are named after it: use small letters, digits and "
            "'-', beginning with a letter and not ending with '-'",
            co_utf8_fit(name, 80), name);
        return;
    }
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        int64_t replicas = most_replicas(json_object_get(obj, "spec"), r);
        if (replicas < 1 || replicas > API_REPLICAS_MAX) {
            continue;
        }
        char digits[16];
        int length = snprintf(digits, sizeof(digits), "%" PRId64, replicas - 1);
        size_t rest = strlen(api_role_name(r)) + 2 + (size_t)length;
        if (n + rest > API_NAME_MAX) {
            add_problem(f, API_PROBLEM_NAME, "metadata.name",
                "has %zu characters, so that pod <name>-%s-%s would have more than %d: use at most "
                "%zu",
                n, api_role_name(r), digits, API_NAME_MAX, API_NAME_MAX - rest);
            return;
        }
    }
}

/* ---- fields ------------------------------------------------------------------------------- */

/* The same types and bounds as in crd/, which the API server checks where the CRD is ours.  A test
 * compares them (operator/cmd/fields_test.c). */
struct field {
    const char *key;
    json_type type; /* JSON_TRUE: a boolean */
    const char *word;
    bool bounded; /* must be at least min */
    int64_t min;
    int64_t max; /* 0: none */
};

static const struct field spec_fields[] = {
    {"cleanPodPolicy", JSON_STRING, "a string"},
    {"intranet", JSON_STRING, "a string"},
    {"successPolicy", JSON_STRING, "a string"},
    {"withGloo", JSON_INTEGER, "an integer"},
    {"elastic", JSON_INTEGER, "an integer"},
    {"schedulingPolicy", JSON_OBJECT, "an object"},
    {"suspend", JSON_TRUE, "true or false"},
    {"activeDeadlineSeconds", JSON_INTEGER, "an integer", true, 1},
    {"ttlSecondsAfterFinished", JSON_INTEGER, "an integer", true, 0, INT32_MAX},
    {"backoffLimit", JSON_INTEGER, "an integer", true, 0, INT32_MAX},
    {"failurePolicy", JSON_ARRAY, "a list"},
    {"nodeLostAfter", JSON_INTEGER, "an integer", true, 0, INT32_MAX},
    {"priorityClassName", JSON_STRING, "a string"},
    {"managedBy", JSON_STRING, "a string"},
    {"peerAuth", JSON_STRING, "a string"},
};

static const struct field gang_fields[] = {
    {"minAvailable", JSON_INTEGER, "an integer", false, 0, INT32_MAX},
    {"queue", JSON_STRING, "a string"},
    {"priorityClass", JSON_STRING, "a string"},
    {"minResources", JSON_OBJECT, "an object"},
};

/* Of a role, beside replicas and template. */
static const struct field role_fields[] = {
    {"requests", JSON_INTEGER, "an integer: the least workers of an elastic job"},
    {"limits", JSON_INTEGER, "an integer: the most workers of an elastic job"},
};

static void check_field(
    struct problem_list *f, const char *base, const json_t *in, const struct field *field) {
    const json_t *j = json_object_get(in, field->key);
    char path[64];
    (void)snprintf(path, sizeof(path), "%s.%s", base, field->key);
    if (is_absent(j)) {
        return;
    }
    bool fits = field->type == JSON_TRUE ? json_is_boolean(j) : json_typeof(j) == field->type;
    if (!fits) {
        add_problem(f, API_PROBLEM_TYPE, path, "is not %s", field->word);
    } else if (field->bounded && json_integer_value(j) < field->min) {
        add_problem(f, API_PROBLEM_TYPE, path, "is %" JSON_INTEGER_FORMAT ": the least is %" PRId64,
            json_integer_value(j), field->min);
    } else if (field->max && json_integer_value(j) > field->max) {
        add_problem(f, API_PROBLEM_TYPE, path, "is %" JSON_INTEGER_FORMAT ": the most is %" PRId64,
            json_integer_value(j), field->max);
    }
}

static void check_all(struct problem_list *f, const char *base, const json_t *in,
    const struct field *fields, size_t n) {
    for (size_t i = 0; i < n; i++) {
        check_field(f, base, in, &fields[i]);
    }
}

static void check_quantities(struct problem_list *f, const char *base, const json_t *in) {
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)in, name, j) {
        struct api_quantity q;
        char path[API_PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s.%.*s", base, co_utf8_fit(name, 60), name);
        if (api_quantity_decode(j, &q, NULL)) {
            add_problem(f, API_PROBLEM_TYPE, path, "is not a quantity, as 2, 500m or 4Gi");
        }
    }
}

/* ---- roles -------------------------------------------------------------------------------- */

/* Parts of a template to which the operator adds something, so that their type matters. */
static const struct {
    const char *keys[5];
    json_type type;
    const char *word;
} template_parts[] = {
    {{"metadata"}, JSON_OBJECT, "an object"},
    {{"metadata", "labels"}, JSON_OBJECT, "an object"},
    {{"metadata", "annotations"}, JSON_OBJECT, "an object"},
    {{"spec", "initContainers"}, JSON_ARRAY, "a list"},
    {{"spec", "affinity"}, JSON_OBJECT, "an object"},
    {{"spec", "affinity", "podAntiAffinity"}, JSON_OBJECT, "an object"},
    {{"spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"},
        JSON_ARRAY, "a list"},
};

static void join_path(const char *base, const char *const *keys, char *ret, size_t size) {
    size_t n = (size_t)snprintf(ret, size, "%s", base);
    for (; *keys && n < size; keys++) {
        n += (size_t)snprintf(ret + n, size - n, ".%s", *keys);
    }
}

static void check_containers(struct problem_list *f, const json_t *tmpl, const char *base) {
    char path[API_PATH_MAX];
    const json_t *spec = json_object_get(tmpl, "spec");
    const char *const keys[] = {"spec", "containers", NULL};
    join_path(base, keys, path, sizeof(path));
    const json_t *list = json_object_get(spec, "containers");
    if (is_absent(list) || (json_is_array(list) && json_array_size(list) == 0)) {
        add_problem(f, API_PROBLEM_CONTAINERS, path,
            "is missing or empty: name at least one container with its image");
        return;
    }
    if (!json_is_array(list)) {
        add_problem(
            f, API_PROBLEM_CONTAINERS, path, "is not a list: write each container as a list item");
        return;
    }
    static const char *const lists[] = {"env", "envFrom", "ports"};
    const json_t *first = json_array_get(list, 0);
    if (!json_is_object(first)) {
        add_problem(f, API_PROBLEM_CONTAINERS, path, "has a first item that is not an object");
        return;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(lists); i++) {
        const json_t *j = json_object_get(first, lists[i]);
        if (!is_absent(j) && !json_is_array(j)) {
            const char *const env[] = {"spec", "containers", "0", lists[i], NULL};
            join_path(base, env, path, sizeof(path));
            add_problem(f, API_PROBLEM_TEMPLATE, path, "is not a list");
        }
    }
}

static void check_template(struct problem_list *f, const json_t *tmpl, const char *base) {
    if (is_absent(tmpl)) {
        add_problem(f, API_PROBLEM_TEMPLATE, base,
            "is missing: describe the role's pods there, as in a Pod's metadata and spec");
        return;
    }
    if (!json_is_object(tmpl) || !json_is_object(json_object_get(tmpl, "spec"))) {
        add_problem(f, API_PROBLEM_TEMPLATE, base,
            "is not a pod template: it must be an object with a spec, as in a Pod");
        return;
    }
    check_containers(f, tmpl, base);
    for (size_t i = 0; i < CO_ARRAY_LEN(template_parts); i++) {
        const json_t *j = co_json_atv(tmpl, template_parts[i].keys);
        if (!is_absent(j) && json_typeof(j) != template_parts[i].type) {
            char path[API_PATH_MAX];
            join_path(base, template_parts[i].keys, path, sizeof(path));
            add_problem(f, API_PROBLEM_TEMPLATE, path, "is not %s", template_parts[i].word);
        }
    }
}

static void check_replicas(struct problem_list *f, const json_t *j, const char *path) {
    if (is_absent(j)) {
        add_problem(f, API_PROBLEM_REPLICAS, path, "is missing: say how many pods the role has");
    } else if (!json_is_integer(j)) {
        add_problem(f, API_PROBLEM_REPLICAS, path, "is not an integer");
    } else if (json_integer_value(j) < 0) {
        add_problem(f, API_PROBLEM_REPLICAS, path,
            "is %" JSON_INTEGER_FORMAT ": use 0 for no pods, or leave the role out",
            json_integer_value(j));
    } else if (json_integer_value(j) > API_REPLICAS_MAX) {
        add_problem(f, API_PROBLEM_REPLICAS, path, "is %" JSON_INTEGER_FORMAT ": the most is %d",
            json_integer_value(j), API_REPLICAS_MAX);
    }
}

static void check_role(struct problem_list *f, const json_t *role, const char *name) {
    char path[64]; /* long enough for "spec.worker.template" */
    (void)snprintf(path, sizeof(path), "spec.%s", name);
    if (is_absent(role)) {
        return;
    }
    if (!json_is_object(role)) {
        add_problem(
            f, API_PROBLEM_TYPE, path, "is not an object: it needs replicas and a template");
        return;
    }
    (void)snprintf(path, sizeof(path), "spec.%s.replicas", name);
    check_replicas(f, json_object_get(role, "replicas"), path);
    (void)snprintf(path, sizeof(path), "spec.%s.template", name);
    check_template(f, json_object_get(role, "template"), path);
    (void)snprintf(path, sizeof(path), "spec.%s", name);
    check_all(f, path, role, role_fields, CO_ARRAY_LEN(role_fields));
}

/* ---- the rest ------------------------------------------------------------------------------ */

/* An unknown word is a problem here, unlike in upstream's fields: a job must not run without the
 * protection that it asks for. */
static void check_peer_auth(struct problem_list *f, const json_t *spec) {
    const char *text = co_json_str(spec, "peerAuth");
    bool known = !text;
    for (enum api_peer_auth a = API_PEER_NONE; a < API_PEER_AUTHS; a++) {
        known = known || strcmp(text, api_peer_auths[a]) == 0;
    }
    if (!known) {
        add_problem(f, API_PROBLEM_TYPE, "spec.peerAuth",
            "is \"%.*s\": use None, Token or Encrypted", co_utf8_fit(text, 40), text);
    }
}

/* ---- failurePolicy ------------------------------------------------------------------------- */

static void check_rule(struct problem_list *f, const json_t *rule, const char *path) {
    const char *action = co_json_str(rule, "action");
    const char *role = co_json_str(rule, "role");
    const json_t *codes = json_object_get(rule, "exitCodes");
    const json_t *reasons = json_object_get(rule, "reasons");
    uint64_t set[4];
    if (!co_streq(action, "Fail") && !co_streq(action, "Restart") && !co_streq(action, "Ignore")) {
        add_problem(f, API_PROBLEM_TYPE, path, "needs an action: Fail, Restart or Ignore");
    }
    if (!is_absent(json_object_get(rule, "role")) && api_role_parse(role) == API_NO_ROLE) {
        add_problem(f, API_PROBLEM_TYPE, path, "has a role other than ps, worker and heter");
    }
    if (!is_absent(codes) &&
        (!json_is_string(codes) || !api_exit_codes_parse(json_string_value(codes), set))) {
        add_problem(f, API_PROBLEM_TYPE, path,
            "has exitCodes that are not numbers from 0 to 255 and ranges joined by commas, as "
            "\"1-127,137\"");
    }
    bool strings = json_is_array(reasons);
    size_t i;
    json_t *reason;
    json_array_foreach(reasons, i, reason) {
        strings = strings && json_is_string(reason);
    }
    if (!is_absent(reasons) && !strings) {
        add_problem(f, API_PROBLEM_TYPE, path, "has reasons that are not a list of strings");
    }
}

static void check_rules(struct problem_list *f, const json_t *list) {
    size_t i;
    json_t *rule;
    if (json_array_size(list) > API_RULES_MAX) {
        add_problem(
            f, API_PROBLEM_TYPE, "spec.failurePolicy", "has more than %d rules", API_RULES_MAX);
        return;
    }
    json_array_foreach(list, i, rule) {
        char path[64];
        (void)snprintf(path, sizeof(path), "spec.failurePolicy.%zu", i);
        check_rule(f, rule, path);
    }
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void check_spec(struct problem_list *f, const json_t *spec) {
    if (is_absent(spec)) {
        return;
    }
    if (!json_is_object(spec)) {
        add_problem(f, API_PROBLEM_TYPE, "spec", "is not an object");
        return;
    }
    check_all(f, "spec", spec, spec_fields, CO_ARRAY_LEN(spec_fields));
    check_all(f, "spec.schedulingPolicy", json_object_get(spec, "schedulingPolicy"), gang_fields,
        CO_ARRAY_LEN(gang_fields));
    check_quantities(f, "spec.schedulingPolicy.minResources",
        co_json_at(spec, "schedulingPolicy", "minResources"));
    check_peer_auth(f, spec);
    check_rules(f, json_object_get(spec, "failurePolicy"));
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        check_role(f, json_object_get(spec, api_role_name(r)), api_role_name(r));
    }
    if (!is_absent(json_object_get(spec, "elastic")) &&
        is_absent(json_object_get(spec, "worker"))) {
        add_problem(f, API_PROBLEM_ELASTIC, "spec.elastic",
            "is set, but there is no spec.worker: elastic training needs workers");
    }
    const json_t *worker = json_object_get(spec, "worker");
    const json_t *requests = json_object_get(worker, "requests");
    const json_t *limits = json_object_get(worker, "limits");
    if (!is_absent(json_object_get(spec, "elastic")) && json_is_integer(requests) &&
        json_integer_value(limits) > 0 &&
        json_integer_value(requests) > json_integer_value(limits)) {
        add_problem(f, API_PROBLEM_ELASTIC, "spec.worker.requests",
            "is greater than spec.worker.limits: no number of workers is within both");
    }
}

size_t api_job_validate(const json_t *obj, bool strict, struct api_problem *ret, size_t max) {
    struct problem_list f = {.rows = ret, .max = max};
    if (strict && !co_streq(co_json_str(obj, "apiVersion"), API_VERSION)) {
        add_problem(&f, API_PROBLEM_TYPE, "apiVersion", "is not %s", API_VERSION);
    }
    if (strict && !co_streq(co_json_str(obj, "kind"), API_KIND)) {
        add_problem(&f, API_PROBLEM_TYPE, "kind", "is not %s", API_KIND);
    }
    check_name(&f, obj);
    check_namespace(&f, obj);
    check_spec(&f, json_object_get(obj, "spec"));
    return f.n;
}

bool api_job_template_is_good(const json_t *tmpl) {
    struct api_problem first;
    struct problem_list f = {.rows = &first, .max = 1};
    check_template(&f, tmpl, "template");
    return f.n == 0;
}
