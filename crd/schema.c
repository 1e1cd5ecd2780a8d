/*
 * Prints the CustomResourceDefinitions. The v1beta1 one, for API servers up to 1.21, differs by
 * what those servers do not know or do not need: no extensions (x-kubernetes-*), thus no CEL rules,
 * no merge keys and no check of quantities; unknown fields are kept everywhere there.
 */
#include "crd/crd.h"
#include "crd/out.h"

struct dialect {
    bool extensions; /* x-kubernetes-* are known */
};

static const struct dialect dialect_v1 = {.extensions = true};
static const struct dialect dialect_v1beta1 = {.extensions = false};

/* What an OpenAPI schema says of a scalar type. */
static const struct {
    const char *type;
    const char *format;
    const char *name; /* in documentation */
} types[CRD_TYPES] = {
    [CRD_OBJECT] = {"object", NULL, "object"},
    [CRD_OBJECT_LIST] = {"array", NULL, "list of objects"},
    [CRD_STRING] = {"string", NULL, "string"},
    [CRD_STRING_LIST] = {"array", NULL, "list of strings"},
    [CRD_STRING_MAP] = {"object", NULL, "map of strings"},
    [CRD_QUANTITY_MAP] = {"object", NULL, "map of quantities"},
    [CRD_INTEGER] = {"integer", NULL, "integer"},
    [CRD_INT32] = {"integer", "int32", "integer"},
    [CRD_INT64] = {"integer", "int64", "integer"},
    [CRD_BOOLEAN] = {"boolean", NULL, "boolean"},
    [CRD_TIME] = {"string", "date-time", "time"},
};

/* Kubernetes' own form of a quantity. */
#define QUANTITY                                                                                   \
    "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|"                         \
    "([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"

const char *crd_type_name(enum crd_type type) {
    return types[type].name;
}

static void print_rules(
    const struct crd_out *out, const struct crd_rule *rules, const struct dialect *dialect) {
    struct crd_out item = {.file = out->file, .depth = out->depth + 1};

    if (rules == NULL || !dialect->extensions) {
        return;
    }
    crd_out_line(out, "x-kubernetes-validations:");
    for (; rules->rule != NULL; rules++) {
        crd_out_line(out, "-");
        crd_out_text(&item, "rule", rules->rule);
        crd_out_text(&item, "message", rules->message);
    }
}

static void print_schema(
    const struct crd_out *out, const struct crd_field *field, const struct dialect *dialect);

/* Root only: the fields that every object of the API has. */
static void print_type_meta(const struct crd_out *out) {
    struct crd_out in = {.file = out->file, .depth = out->depth + 1};

    crd_out_line(out, "apiVersion:");
    crd_out_text(&in, "description", "Always " CRD_GROUP "/" CRD_VERSION ".");
    crd_out_line(&in, "type: string");
    crd_out_line(out, "kind:");
    crd_out_text(&in, "description", "Always " CRD_KIND ".");
    crd_out_line(&in, "type: string");
    crd_out_line(out, "metadata:");
    crd_out_line(&in, "type: object");
}

static void print_required(const struct crd_out *out, const struct crd_field *fields) {
    bool any = false;

    for (; fields->name != NULL; fields++) {
        if (fields->required && !any) {
            crd_out_line(out, "required:");
            any = true;
        }
        if (fields->required) {
            crd_out_line(out, "- %s", fields->name);
        }
    }
}

/* What is in an object, be it a field or the item of a list. */
static void print_content(
    const struct crd_out *out, const struct crd_field *field, const struct dialect *dialect) {
    struct crd_out name = {.file = out->file, .depth = out->depth + 1};
    struct crd_out in = {.file = out->file, .depth = out->depth + 2};
    const struct crd_field *child = field->fields;

    if (child->name != NULL) {
        crd_out_line(out, "properties:");
    }
    if (field == &crd_job) {
        print_type_meta(&name);
    }
    for (; child->name != NULL; child++) {
        crd_out_line(&name, "%s:", child->name);
        print_schema(&in, child, dialect);
    }
    print_required(out, field->fields);
    if (field->open && dialect->extensions) {
        crd_out_line(out, "x-kubernetes-preserve-unknown-fields: true");
    }
    if (field->atomic && dialect->extensions) {
        crd_out_line(out, "x-kubernetes-map-type: atomic");
    }
}

static void print_list(
    const struct crd_out *out, const struct crd_field *field, const struct dialect *dialect) {
    struct crd_out in = {.file = out->file, .depth = out->depth + 1};

    crd_out_line(out, "items:");
    crd_out_line(&in, "type: object");
    print_content(&in, field, dialect);
    if (field->list_key != NULL && dialect->extensions) {
        crd_out_line(out, "x-kubernetes-list-type: map");
        crd_out_line(out, "x-kubernetes-list-map-keys:");
        crd_out_line(out, "- %s", field->list_key);
    }
}

static void print_quantity_map(const struct crd_out *out, const struct dialect *dialect) {
    struct crd_out in = {.file = out->file, .depth = out->depth + 1};

    if (!dialect->extensions) {
        return; /* "integer or string" cannot be said without them */
    }
    crd_out_line(out, "additionalProperties:");
    crd_out_line(&in, "anyOf:");
    crd_out_line(&in, "- type: integer");
    crd_out_line(&in, "- type: string");
    crd_out_line(&in, "pattern: '%s'", QUANTITY);
    crd_out_line(&in, "x-kubernetes-int-or-string: true");
}

static void print_schema(
    const struct crd_out *out, const struct crd_field *field, const struct dialect *dialect) {
    crd_out_text(out, "description", field->doc);
    if (field->opaque && dialect->extensions) {
        crd_out_line(out, "x-kubernetes-preserve-unknown-fields: true");
        return;
    }
    crd_out_line(out, "type: %s", types[field->type].type);
    if (types[field->type].format != NULL) {
        crd_out_line(out, "format: %s", types[field->type].format);
    }
    if (field->max) {
        crd_out_line(
            out, "%s: %u", field->type == CRD_STRING ? "maxLength" : "maxItems", field->max);
    }
    switch (field->type) {
    case CRD_OBJECT:
        print_content(out, field, dialect);
        break;
    case CRD_OBJECT_LIST:
        print_list(out, field, dialect);
        break;
    case CRD_STRING_LIST:
        crd_out_line(out, "items:");
        crd_out_line(out, "  type: string");
        break;
    case CRD_STRING_MAP:
        crd_out_line(out, "additionalProperties:");
        crd_out_line(out, "  type: string");
        break;
    case CRD_QUANTITY_MAP:
        print_quantity_map(out, dialect);
        break;
    case CRD_STRING:
    case CRD_INTEGER:
    case CRD_INT32:
    case CRD_INT64:
    case CRD_BOOLEAN:
    case CRD_TIME:
    case CRD_TYPES:
        break;
    }
    print_rules(out, field->rules, dialect);
}

static void print_subresources(const struct crd_out *out) {
    crd_out_line(out, "subresources:");
    crd_out_line(out, "  status: {}");
    crd_out_line(out, "  scale:");
    crd_out_line(out, "    specReplicasPath: %s", crd_scale.spec_replicas);
    crd_out_line(out, "    statusReplicasPath: %s", crd_scale.status_replicas);
    crd_out_line(out, "    labelSelectorPath: %s", crd_scale.selector);
}

static void print_columns(const struct crd_out *out, const char *path_key) {
    const struct crd_column *column;

    crd_out_line(out, "additionalPrinterColumns:");
    for (column = crd_columns; column->name != NULL; column++) {
        crd_out_line(out, "- name: %s", column->name);
        crd_out_line(out, "  type: %s", column->type);
        crd_out_line(out, "  description: %s", column->doc);
        crd_out_line(out, "  %s: %s", path_key, column->path);
        if (column->wide) {
            crd_out_line(out, "  priority: 1");
        }
    }
}

/* Down to the names: the same in both files. */
static void print_head(const struct crd_out *out, const char *api_version) {
    crd_out_line(out, "apiVersion: %s", api_version);
    crd_out_line(out, "kind: CustomResourceDefinition");
    crd_out_line(out, "metadata:");
    crd_out_line(out, "  name: %s.%s", CRD_PLURAL, CRD_GROUP);
    crd_out_line(out, "  annotations:");
    crd_out_line(out, "    controller-gen.kubebuilder.io/version: v0.6.1");
    crd_out_line(out, "spec:");
    crd_out_line(out, "  group: %s", CRD_GROUP);
    crd_out_line(out, "  names:");
    crd_out_line(out, "    kind: %s", CRD_KIND);
    crd_out_line(out, "    listKind: %sList", CRD_KIND);
    crd_out_line(out, "    plural: %s", CRD_PLURAL);
    crd_out_line(out, "    singular: %s", CRD_SINGULAR);
    crd_out_line(out, "    shortNames:");
    crd_out_line(out, "    - %s", CRD_SHORT);
    crd_out_line(out, "  scope: Namespaced");
}

void crd_print_v1(FILE *file) {
    struct crd_out top = {.file = file};
    struct crd_out version = {.file = file, .depth = 2};
    struct crd_out schema = {.file = file, .depth = 4};

    crd_out_line(&top, "# PaddleJob, for Kubernetes 1.16 and later (before 1.23 add");
    crd_out_line(&top, "# --validate=false, as those do not know its rules).");
    crd_out_line(&top, "# Printed from the table in crd/ by `crdgen v1`: change it there.");
    print_head(&top, "apiextensions.k8s.io/v1");
    crd_out_line(&top, "  versions:");
    crd_out_line(&top, "  - name: %s", CRD_VERSION);
    crd_out_line(&version, "served: true");
    crd_out_line(&version, "storage: true");
    print_subresources(&version);
    print_columns(&version, "jsonPath");
    crd_out_line(&version, "schema:");
    crd_out_line(&version, "  openAPIV3Schema:");
    print_schema(&schema, &crd_job, &dialect_v1);
}

void crd_print_v1beta1(FILE *file) {
    struct crd_out top = {.file = file};
    struct crd_out spec = {.file = file, .depth = 1};
    struct crd_out schema = {.file = file, .depth = 3};

    crd_out_line(&top, "# PaddleJob, for Kubernetes up to 1.18 (served up to 1.21).");
    crd_out_line(&top, "# Printed from the table in crd/ by `crdgen v1beta1`: change it there.");
    print_head(&top, "apiextensions.k8s.io/v1beta1");
    crd_out_line(&spec, "version: %s", CRD_VERSION);
    crd_out_line(&spec, "versions:");
    crd_out_line(&spec, "- name: %s", CRD_VERSION);
    crd_out_line(&spec, "  served: true");
    crd_out_line(&spec, "  storage: true");
    print_subresources(&spec);
    print_columns(&spec, "JSONPath");
    crd_out_line(&spec, "validation:");
    crd_out_line(&spec, "  openAPIV3Schema:");
    print_schema(&schema, &crd_job, &dialect_v1beta1);
}
