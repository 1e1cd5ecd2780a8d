/* The reference page, in Markdown, and the plain list of paths. */
#include <string.h>

#include "crd/crd.h"

enum { PATH_SIZE = 256, ANCHORS_MAX = 32 };

/* Objects whose fields have been printed: shared ones (a role, a container) only once. */
struct seen {
    const char *anchor[ANCHORS_MAX];
    size_t count;
};

static bool seen_before(struct seen *seen, const char *anchor) {
    for (size_t i = 0; i < seen->count; i++) {
        if (strcmp(seen->anchor[i], anchor) == 0) {
            return true;
        }
    }
    if (seen->count < ANCHORS_MAX) {
        seen->anchor[seen->count++] = anchor;
    }
    return false;
}

/* Text where "<job>" stays what it is rather than becoming an element. */
static void print_text(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '<') {
            fputs("&lt;", out);
        } else {
            fputc(*text, out);
        }
    }
}

static void print_row(FILE *out, const struct crd_field *field) {
    fprintf(out, "| `%s` | %s%s |", field->name, crd_type_name(field->type),
        field->required ? ", required" : "");
    fputc(' ', out);
    print_text(out, field->doc);
    if (field->anchor != NULL) {
        fprintf(out, " See [%s](#%s).", field->anchor, field->anchor);
    }
    fprintf(out, "%s |\n", field->added ? " *Not in paddle-operator v0.3.5.*" : "");
}

static void print_object(FILE *out, const struct crd_field *field, struct seen *seen) {
    const struct crd_field *child;

    if (field->anchor == NULL || seen_before(seen, field->anchor)) {
        return;
    }
    fprintf(out, "\n<a id=\"%s\"></a>\n## %s\n\n", field->anchor, field->anchor);
    fprintf(out, "| field | type | meaning |\n| --- | --- | --- |\n");
    for (child = field->fields; child->name != NULL; child++) {
        print_row(out, child);
    }
    if (field->open) {
        fprintf(out, "\nFields not listed here are kept and handed on to the pod.\n");
    }
    for (child = field->fields; child->name != NULL; child++) {
        print_object(out, child, seen);
    }
}

static void print_rules(FILE *out, const struct crd_field *field, const char *name) {
    for (const struct crd_rule *rule = field->rules; rule != NULL && rule->rule != NULL; rule++) {
        fprintf(out, "- `%s`: ", name);
        print_text(out, rule->message);
        fputs(".\n", out);
    }
    /* Roles share their fields: the first is shown for all. */
    for (const struct crd_field *child = field->fields; child != NULL && child->name != NULL;
         child++) {
        print_rules(out, child, child->name);
        if (child->anchor != NULL && strcmp(child->anchor, "role") == 0) {
            break;
        }
    }
}

void crd_print_docs(FILE *out) {
    struct seen seen = {.count = 0};

    fprintf(out, "# PaddleJob\n\n");
    fprintf(out, "`apiVersion: %s/%s`, `kind: %s`; `kubectl get %s`.\n\n", CRD_GROUP, CRD_VERSION,
        CRD_KIND, CRD_SHORT);
    fprintf(out, "%s\n\n", crd_job.doc);
    fprintf(out,
        "The same text in a terminal: `kubectl explain %s.spec`. This page and the files "
        "`deploy/v1/crd.yaml`\nand `deploy/v1beta1/crd.yaml` are printed from one table, "
        "in `crd/`.\n\n",
        CRD_SHORT);
    fprintf(out, "Anyone who may create or change PaddleJobs in a namespace can run any pod in it, "
                 "with any of "
                 "its service accounts\nand Secrets: `SECURITY.md`.\n\n");
    fprintf(out, "Unknown strings in a field are accepted, and mean what is said of that field. "
                 "The API server\nrejects these (by `deploy/v1/crd.yaml`, Kubernetes 1.25 and "
                 "later):\n\n");
    print_rules(out, &crd_job, "metadata.name");
    print_object(out, &crd_job, &seen);
    fprintf(out, "\n## Columns\n\n| column | shown by | value | meaning |\n"
                 "| --- | --- | --- | --- |\n");
    for (const struct crd_column *column = crd_columns; column->name != NULL; column++) {
        fprintf(out, "| %s | `kubectl get pdj%s` | `%s` | %s |\n", column->name,
            column->wide ? " -o wide" : "", column->path, column->doc);
    }
}

static void print_paths(FILE *out, const struct crd_field *fields, const char *above) {
    for (; fields->name != NULL; fields++) {
        char path[PATH_SIZE];

        snprintf(path, sizeof(path), "%s%s%s", above, above[0] != '\0' ? "." : "", fields->name);
        fprintf(out, "%s %s\n", path, crd_type_name(fields->type));
        if (fields->type == CRD_OBJECT_LIST && strlen(path) + 3 < sizeof(path)) {
            strncat(path, "[]", sizeof(path) - strlen(path) - 1);
        }
        if (fields->fields != NULL) {
            print_paths(out, fields->fields, path);
        }
    }
}

void crd_print_paths(FILE *out) {
    print_paths(out, crd_job.fields, "");
}
