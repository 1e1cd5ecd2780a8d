/* Run from the top of the repository: compares the committed files with what is printed now. */
#include "common/buf.h"
#include "crd/crd.h"
#include "crd/rbac.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { FILE_MAX = 1 << 20 };

/* The caller frees. */
static char *printed(void (*print)(FILE *out)) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    print(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static char *file(const char *path) {
    struct co_buf buf = CO_BUF(FILE_MAX);
    struct co_err err = {0};

    if (co_file_read(path, FILE_MAX, &buf, &err) != 0) {
        fail_msg("%s", co_err_text(&err));
    }
    return co_buf_take(&buf);
}

/* Names the first line that differs, as whole files show nothing. */
static void assert_same_text(const char *path, const char *is, const char *should) {
    int line = 1;

    for (size_t i = 0; is[i] != '\0' || should[i] != '\0'; i++) {
        if (is[i] != should[i]) {
            fail_msg(
                "%s:%d is not what crd/ says: regenerate it with `make manifests`", path, line);
        }
        line += is[i] == '\n';
    }
}

static void job_rules(FILE *out) {
    crd_print_rules(out, CRD_SCOPE_CLUSTER);
}

static void operator_rules(FILE *out) {
    crd_print_rules(out, CRD_SCOPE_OPERATOR);
}

static void committed_files_are_those_printed(void **state) {
    static const struct {
        const char *path;
        void (*print)(FILE *out);
    } rows[] = {
        {"deploy/v1/crd.yaml", crd_print_v1},
        {"deploy/v1beta1/crd.yaml", crd_print_v1beta1},
        {"docs/api.md", crd_print_docs},
        {"deploy/charts/paddle-operator/crds/crd.yaml", crd_print_v1},
        {"deploy/charts/paddle-operator/files/job-rules.yaml", job_rules},
        {"deploy/charts/paddle-operator/files/operator-rules.yaml", operator_rules},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOFREE char *is = file(rows[i].path);
        CO_AUTOFREE char *should = printed(rows[i].print);

        assert_same_text(rows[i].path, is, should);
    }
}

static void operator_manifest_has_the_printed_roles_and_no_others(void **state) {
    CO_AUTOFREE char *manifest = file("deploy/v1/operator.yaml");
    CO_AUTOFREE char *roles = printed(crd_print_rbac);
    const char *found = strstr(manifest, roles);
    int rules = 0;

    (void)state;
    if (found == NULL) {
        fail_msg("deploy/v1/operator.yaml does not have the roles that `crdgen rbac` prints");
    }
    for (const char *at = manifest; (at = strstr(at, "\nrules:")) != NULL; at++) {
        rules++;
    }
    assert_int_equal(rules, 4);
}

/* seccompProfile came with 1.19, and kubectl refuses a field that its cluster does not know. */
static void operator_manifest_of_old_clusters_has_their_word_for_seccomp(void **state) {
    CO_AUTOFREE char *v1 = file("deploy/v1/operator.yaml");
    CO_AUTOFREE char *v1beta1 = file("deploy/v1beta1/operator.yaml");

    (void)state;
    assert_non_null(strstr(v1, "seccompProfile"));
    assert_null(strstr(v1beta1, "seccompProfile"));
    assert_non_null(strstr(v1beta1, "seccomp.security.alpha.kubernetes.io/pod: runtime/default"));
}

static void no_grant_is_wider_than_named_kinds_and_verbs(void **state) {
    static const char *const forbidden[] = {
        "*", "exec", "escalate", "bind", "impersonate", "nodes"};

    (void)state;
    for (const struct crd_grant *grant = crd_grants; grant->resources != NULL; grant++) {
        assert_true(strlen(grant->why) > 0);
        /* By label, in the namespace of a job that has ended; decisions.md says why that is safe.
         */
        bool users = grant->scope == CRD_SCOPE_EDIT || grant->scope == CRD_SCOPE_VIEW;
        assert_true(!users || strncmp(grant->resources, "paddlejobs", strlen("paddlejobs")) == 0);
        assert_true(users || !strstr(grant->verbs, "deletecollection") ||
                    strcmp(grant->resources, "pods") == 0);
        /* Made, never read: a right to read some is one to read all. */
        assert_true(
            !strstr(grant->resources, "secrets") ||
            (strcmp(grant->resources, "secrets") == 0 && strcmp(grant->verbs, "create") == 0));
        for (size_t i = 0; i < CO_ARRAY_LEN(forbidden); i++) {
            assert_null(strstr(grant->resources, forbidden[i]));
            assert_null(strstr(grant->verbs, forbidden[i]));
            assert_null(strstr(grant->group, forbidden[i]));
        }
    }
}

/*
 * What paddle-operator v0.3.5 has, written down apart from the table: a field that gets lost or
 * changes its type breaks jobs of users.
 */
static void fields_of_earlier_versions_are_all_there(void **state) {
    static const char *const top[] = {"spec object", "spec.cleanPodPolicy string",
        "spec.intranet string", "spec.withGloo integer", "spec.elastic integer",
        "spec.schedulingPolicy object", "spec.schedulingPolicy.minAvailable integer",
        "spec.schedulingPolicy.queue string", "spec.schedulingPolicy.priorityClass string",
        "spec.schedulingPolicy.minResources map of quantities", "status object",
        "status.phase string", "status.mode string", "status.startTime time",
        "status.completionTime time", "status.elastic string", "status.observedGeneration integer"};
    static const char *const role[] = {"spec.%s object", "spec.%s.replicas integer",
        "spec.%s.requests integer", "spec.%s.limits integer", "spec.%s.template object",
        "spec.%s.template.metadata object", "spec.%s.template.spec object", "status.%s object",
        "status.%s.pending integer", "status.%s.starting integer", "status.%s.running integer",
        "status.%s.failed integer", "status.%s.succeeded integer", "status.%s.unknown integer",
        "status.%s.refs list of objects", "status.%s.refs[].apiVersion string",
        "status.%s.refs[].kind string", "status.%s.refs[].namespace string",
        "status.%s.refs[].name string", "status.%s.refs[].uid string",
        "status.%s.refs[].resourceVersion string"};
    static const char *const roles[] = {"ps", "worker", "heter"};
    CO_AUTOFREE char *all = printed(crd_print_paths);
    CO_AUTOFREE char *paths = co_xasprintf("\n%s", all);

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(top); i++) {
        CO_AUTOFREE char *line = co_xasprintf("\n%s\n", top[i]);

        assert_non_null(strstr(paths, line));
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(role); i++) {
        const char *blank = strstr(role[i], "%s");

        for (size_t r = 0; r < CO_ARRAY_LEN(roles); r++) {
            CO_AUTOFREE char *line =
                co_xasprintf("\n%.*s%s%s\n", (int)(blank - role[i]), role[i], roles[r], blank + 2);

            if (strstr(paths, line) == NULL) {
                fail_msg("missing: %s", line + 1);
            }
        }
    }
}

/* `kubectl get` shows NAME and then these; scripts cut columns by number. */
static void columns_are_status_mode_age_and_then_wide_ones(void **state) {
    static const struct crd_column first[] = {
        {"Status", "string", ".status.phase", NULL, false},
        {"Mode", "string", ".status.mode", NULL, false},
        {"Age", "date", ".metadata.creationTimestamp", NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(first); i++) {
        assert_string_equal(crd_columns[i].name, first[i].name);
        assert_string_equal(crd_columns[i].type, first[i].type);
        assert_string_equal(crd_columns[i].path, first[i].path);
        assert_false(crd_columns[i].wide);
    }
    for (size_t i = CO_ARRAY_LEN(first); crd_columns[i].name != NULL; i++) {
        assert_true(crd_columns[i].wide);
    }
}

/* What printing relies on, so that no text breaks the YAML around it. */
static void assert_one_paragraph(const char *name, const char *text, bool sentence) {
    size_t length;

    if (text == NULL) {
        fail_msg("field '%s' has no text", name);
        return;
    }
    length = strlen(text);
    if (length < 3 || strpbrk(text, "\n\t") != NULL || strstr(text, "  ") != NULL ||
        text[0] == ' ' || text[length - 1] == ' ' || (sentence && text[length - 1] != '.')) {
        fail_msg("field '%s': text must be one paragraph, single blanks: '%s'", name, text);
    }
}

static void check_fields(const struct crd_field *field) {
    bool nested = field->type == CRD_OBJECT || field->type == CRD_OBJECT_LIST;

    assert_one_paragraph(field->name, field->doc, true);
    assert_true(nested == (field->fields != NULL));
    assert_true(nested || !field->open);
    assert_true(nested || !field->opaque);
    assert_true(field->type == CRD_OBJECT || !field->atomic);
    for (const struct crd_rule *rule = field->rules; rule != NULL && rule->rule != NULL; rule++) {
        assert_one_paragraph(field->name, rule->rule, false);
        assert_one_paragraph(field->name, rule->message, false);
    }
    if (field->fields == NULL) {
        return;
    }
    /* Documented where it is linked to, unless there is nothing to say. */
    assert_true((field->fields[0].name != NULL) == (field->anchor != NULL));
    for (const struct crd_field *child = field->fields; child->name != NULL; child++) {
        for (const struct crd_field *other = field->fields; other != child; other++) {
            assert_string_not_equal(other->name, child->name);
        }
        check_fields(child);
    }
}

static void every_field_is_well_formed_and_documented(void **state) {
    (void)state;
    check_fields(&crd_job);
}

static void template_keeps_unknown_fields_at_every_level(void **state) {
    CO_AUTOFREE char *v1 = printed(crd_print_v1);
    CO_AUTOFREE char *v1beta1 = printed(crd_print_v1beta1);

    (void)state;
    for (const struct crd_field *field = crd_template_fields; field->name != NULL; field++) {
        assert_true(field->open);
        for (const struct crd_field *child = field->fields; child->name != NULL; child++) {
            assert_true(child->fields == NULL || child->open);
        }
    }
    assert_non_null(strstr(v1, "x-kubernetes-preserve-unknown-fields: true"));
    assert_null(strstr(v1beta1, "x-kubernetes-"));
}

/* Only the operator writes them, and by the thousand. */
static void references_are_not_looked_at(void **state) {
    static const char open[] = "x-kubernetes-preserve-unknown-fields: true\n";
    CO_AUTOFREE char *v1 = printed(crd_print_v1);
    size_t roles = 0;

    (void)state;
    for (const char *at = v1; (at = strstr(at, " refs:\n")) != NULL; roles++) {
        at = strstr(at, "batch.paddlepaddle.org/job-name.\n");
        assert_non_null(at);
        at += strcspn(at, "\n");
        at += strspn(at, "\n ");
        assert_memory_equal(at, open, strlen(open));
    }
    assert_int_equal(roles, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_files_are_those_printed),
        cmocka_unit_test(operator_manifest_has_the_printed_roles_and_no_others),
        cmocka_unit_test(operator_manifest_of_old_clusters_has_their_word_for_seccomp),
        cmocka_unit_test(no_grant_is_wider_than_named_kinds_and_verbs),
        cmocka_unit_test(fields_of_earlier_versions_are_all_there),
        cmocka_unit_test(columns_are_status_mode_age_and_then_wide_ones),
        cmocka_unit_test(every_field_is_well_formed_and_documented),
        cmocka_unit_test(template_keeps_unknown_fields_at_every_level),
        cmocka_unit_test(references_are_not_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
