/* A job is walked beside the tree of fields; a name that a row has not is looked for among those of
 * relatives, then among those that stand beside it.  The API server drops such a field, or refuses
 * it where the client asks for that; the operator never sees it. */
#include "crd/unknown.h"

#include <math.h>
#include <string.h>

#include "common/mem.h"
#include "common/near.h"
#include "common/utf8.h"
#include "crd/crd.h"

/* What others call it: operators that came before, Kubeflow's PaddleJob, and schedulers' jobs. */
static const struct {
    const char *name, *instead;
} relatives[] = {
    {"cleanPolicy", "it is called cleanPodPolicy"},
    {"sampleSetRef",
        "mount the data in the template: spec.volumes and volumeMounts of a container"},
    {"paddleReplicaSpecs", "roles are spec.ps, spec.worker and spec.heter"},
    {"runPolicy", "its fields are spec's own, as spec.cleanPodPolicy and spec.backoffLimit"},
    {"elasticPolicy",
        "set spec.elastic, and bounds as spec.worker.requests and spec.worker.limits"},
    {"minReplicas", "it is called spec.worker.requests"},
    {"maxReplicas", "it is called spec.worker.limits"},
    {"minAvailable", "it is called spec.schedulingPolicy.minAvailable"},
    {"queue", "it is called spec.schedulingPolicy.queue"},
    {"restartPolicy", "it belongs to template.spec; spec.backoffLimit restarts the whole group"},
    {"trainer", "it is called spec.worker"},
    {"pserver", "it is called spec.ps"},
    {"Master", "Kubeflow makes its Masters parameter servers: they are spec.ps"},
    {"containers", "it belongs to template.spec"},
    {"image", "it belongs to template.spec.containers"},
};

static const struct crd_field *find_field(const struct crd_field *fields, const char *name) {
    const struct crd_field *f = fields;
    while (f->name && strcmp(f->name, name) != 0) {
        f++;
    }
    return f->name ? f : NULL;
}

static const char *of_relative(const char *name) {
    for (size_t i = 0; i < CO_ARRAY_LEN(relatives); i++) {
        if (strcmp(relatives[i].name, name) == 0) {
            return relatives[i].instead;
        }
    }
    return NULL;
}

static void say(
    struct co_findings *to, const struct crd_field *fields, const char *path, const char *name) {
    const char *instead = of_relative(name), *meant = NULL;
    struct co_near near = co_near_begin(name, strlen(name));
    for (const struct crd_field *f = fields; f->name; f++) {
        meant = co_near_try(&near, f->name) ? f->name : meant;
    }
    co_finding(to, path, "is not a field of a PaddleJob%s%s%s",
        instead ? ": "
        : meant ? ": did you mean "
                : "",
        instead ? instead
        : meant ? meant
                : "",
        !instead && meant ? "?" : "");
}

static void walk_object(
    struct co_findings *to, const json_t *obj, const struct crd_field *of, const char *path);

static void walk_value(/* NOLINT(misc-no-recursion) */
    struct co_findings *to, const json_t *j, const struct crd_field *f, const char *path) {
    if (!f->fields || f->opaque) {
        return;
    }
    if (f->type == CRD_OBJECT) {
        walk_object(to, j, f, path);
        return;
    }
    size_t i;
    json_t *item;
    json_array_foreach(j, i, item) {
        CO_AUTOFREE char *below = co_xasprintf("%s.%zu", path, i);
        walk_object(to, item, f, below);
    }
}

/* As deep as the tree of fields. */
static void walk_object(/* NOLINT(misc-no-recursion) */
    struct co_findings *to, const json_t *obj, const struct crd_field *of, const char *path) {
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)obj, name, j) {
        const struct crd_field *f = find_field(of->fields, name);
        CO_AUTOFREE char *below =
            co_xasprintf("%s%s%.*s", path, *path ? "." : "", co_utf8_fit(name, 60), name);
        if (f) {
            walk_value(to, j, f, below);
        } else if (!of->open) {
            say(to, of->fields, below, name);
        }
    }
}

/* What every object has. */
static bool is_of_any_kind(const char *name) {
    return strcmp(name, "apiVersion") == 0 || strcmp(name, "kind") == 0 ||
           strcmp(name, "metadata") == 0;
}

void crd_find_unknown(const json_t *job, struct co_findings *to) {
    CO_AUTOJSON json_t *own = json_object();
    const char *name;
    json_t *j;
    json_object_foreach((json_t *)(uintptr_t)job, name, j) {
        co_json_set(own, name, is_of_any_kind(name) ? NULL : json_incref(j));
    }
    walk_object(to, own, &crd_job, "");
}

/* ---- types ---------------------------------------------------------------------------------- */

static bool has_type(const json_t *j, enum crd_type type) {
    switch (type) {
    case CRD_STRING:
    case CRD_TIME:
        return json_is_string(j);
    case CRD_STRING_LIST:
    case CRD_OBJECT_LIST:
        return json_is_array(j);
    case CRD_STRING_MAP:
    case CRD_QUANTITY_MAP:
    case CRD_OBJECT:
        return json_is_object(j);
    case CRD_INTEGER:
    case CRD_INT32:
    case CRD_INT64: /* 2.0 and 1e3 are integers to the API server, 2.5 is none */
        return json_is_number(j) && floor(json_number_value(j)) == json_number_value(j);
    case CRD_BOOLEAN:
        return json_is_boolean(j);
    case CRD_TYPES:
    default:
        return true;
    }
}

static void say_mistyped(
    struct co_findings *to, const char *path, const json_t *j, enum crd_type type) {
    enum { SHOWN = 40 };
    CO_AUTOFREE char *given = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT);
    bool quotes = type == CRD_STRING && (json_is_number(j) || json_is_boolean(j));
    const char *hint = quotes                                         ? ": write it in quotes"
                       : type == CRD_STRING_LIST && json_is_string(j) ? ": write it as [...]"
                       : type == CRD_OBJECT_LIST && json_is_object(j)
                           ? ": write each as a list item"
                           : "";
    const char *name = crd_type_name(type);
    co_finding(to, path, "is %.*s, expected %s %s%s", given ? co_utf8_fit(given, SHOWN) : 0,
        given ? given : "", strchr("aeio", *name) ? "an" : "a", name, hint);
}

/* What is in a list or a map of strings. */
static void check_texts(struct co_findings *to, const json_t *j, const char *path) {
    size_t i;
    json_t *item;
    const char *name;
    json_array_foreach(j, i, item) {
        CO_AUTOFREE char *at = co_xasprintf("%s.%zu", path, i);
        if (!json_is_string(item)) {
            say_mistyped(to, at, item, CRD_STRING);
        }
    }
    json_object_foreach((json_t *)(uintptr_t)j, name, item) {
        CO_AUTOFREE char *at = co_xasprintf("%s.%.*s", path, co_utf8_fit(name, 60), name);
        if (!json_is_string(item)) {
            say_mistyped(to, at, item, CRD_STRING);
        }
    }
}

/* As deep as the tree of fields. */
static void check_fields(/* NOLINT(misc-no-recursion) */
    struct co_findings *to, const json_t *obj, const struct crd_field *fields, const char *path) {
    for (const struct crd_field *f = fields; f && f->name; f++) {
        const json_t *j = json_object_get(obj, f->name);
        CO_AUTOFREE char *at = co_xasprintf("%s%s%s", path, *path ? "." : "", f->name);
        if (!j || json_is_null(j)) {
            continue;
        }
        if (!has_type(j, f->type)) {
            say_mistyped(to, at, j, f->type);
        } else if (f->type == CRD_STRING_LIST || f->type == CRD_STRING_MAP) {
            check_texts(to, j, at);
        } else if (f->type == CRD_OBJECT) {
            check_fields(to, j, f->fields, at);
        }
        size_t i;
        json_t *item;
        json_array_foreach(f->type == CRD_OBJECT_LIST ? j : NULL, i, item) {
            CO_AUTOFREE char *below = co_xasprintf("%s.%zu", at, i);
            if (!json_is_object(item)) {
                say_mistyped(to, below, item, CRD_OBJECT);
            }
            check_fields(to, item, f->fields, below);
        }
    }
}

void crd_find_mistyped(const json_t *tmpl, const char *path, struct co_findings *to) {
    check_fields(to, tmpl, crd_template_fields, path);
}
