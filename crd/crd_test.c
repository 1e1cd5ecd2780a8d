/* Run from the top of the repository: compares the committed files with what is printed now. */
#include "crd/crd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "crd/rbac.h"

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

/* ---- the pages ----------------------------------------------------------------------------- */

/* A bar in a text would be a column more than the table's head has. */
static void rows_of_the_page_have_the_columns_of_their_head(void **state) {
    CO_AUTOFREE char *page = printed(crd_print_docs);
    size_t rows = 0, head = 0;

    (void)state;
    for (const char *line = page; *line != '\0'; line += strcspn(line, "\n") + 1) {
        const size_t len = strcspn(line, "\n");
        size_t bars = 0;

        for (size_t i = 0; i < len && line[0] == '|'; i++) {
            bars += line[i] == '|';
        }
        head = bars && head ? head : bars;
        if (bars != head || (bars && line[len - 1] != '|')) {
            fail_msg("%zu bars, and %zu in the head, in \"%.*s\"", bars, head, (int)len, line);
        }
        rows += bars > 0;
    }
    assert_true(rows > 100);
}

static size_t count(const char *text, const char *of) {
    size_t n = 0;

    for (const char *at = strstr(text, of); at != NULL; at = strstr(at + 1, of)) {
        n++;
    }
    return n;
}

static void links_of_the_page_lead_to_one_place(void **state) {
    static const char link[] = "](#";
    CO_AUTOFREE char *page = printed(crd_print_docs);
    size_t links = 0;

    (void)state;
    for (const char *at = page; (at = strstr(at, link)) != NULL; links++) {
        at += strlen(link);
        CO_AUTOFREE char *place = co_xasprintf("<a id=\"%.*s\"></a>", (int)strcspn(at, ")"), at);
        if (count(page, place) != 1) {
            fail_msg("'%s' is %zu times in docs/api.md", place, count(page, place));
        }
    }
    assert_true(links > 10);
}

static void each_path_is_printed_once(void **state) {
    CO_AUTOFREE char *paths = printed(crd_print_paths);

    (void)state;
    for (const char *line = paths; *line != '\0'; line += strcspn(line, "\n") + 1) {
        CO_AUTOFREE char *whole = co_xasprintf("\n%.*s\n", (int)strcspn(line, "\n"), line);
        CO_AUTOFREE char *all = co_xasprintf("\n%s", paths);
        if (count(all, whole) != 1) {
            fail_msg("%zu times: %s", count(all, whole), whole);
        }
        assert_non_null(strchr(whole, ' '));
        assert_null(strstr(whole, ".."));
    }
}

/* A rule on what has no bound costs the API server too much: it refuses such a CRD. */
static void check_bounds(const struct crd_field *field, bool in_list) {
    const bool sized = field->type == CRD_OBJECT_LIST || field->type == CRD_STRING_LIST ||
                       field->type == CRD_STRING;

    assert_true(field->max == 0 || sized);
    if (field->rules != NULL && in_list) {
        assert_true(!sized || field->max > 0);
    }
    for (const struct crd_field *child = field->fields; child != NULL && child->name != NULL;
         child++) {
        check_bounds(child, in_list || field->type == CRD_OBJECT_LIST);
        assert_true(child->list_key == NULL || child->type == CRD_OBJECT_LIST);
    }
    if (field->list_key != NULL) {
        const struct crd_field *key = field->fields;

        while (key != NULL && key->name != NULL && strcmp(key->name, field->list_key) != 0) {
            key++;
        }
        assert_true(key != NULL && key->name != NULL && key->type == CRD_STRING && key->required);
    }
}

static void schema_rules_and_merge_keys_have_bounds_and_required_fields(void **state) {
    (void)state;
    check_bounds(&crd_job, false);
}

/* ---- roles --------------------------------------------------------------------------------- */

static bool is_word(const char *word, size_t len, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strlen(*words) == len && strncmp(*words, word, len) == 0) {
            return true;
        }
    }
    return false;
}

static void verbs_are_kubernetes_own_sorted_and_once(void **state) {
    static const char *const verbs[] = {
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch", NULL};

    (void)state;
    for (const struct crd_grant *grant = crd_grants; grant->resources != NULL; grant++) {
        const char *before = "";

        for (const char *verb = grant->verbs; *verb != '\0';) {
            const size_t len = strcspn(verb, ",");

            assert_true(is_word(verb, len, verbs));
            assert_true(strncmp(before, verb, len) < 0);
            before = verb;
            verb += len + (verb[len] == ',');
        }
        assert_null(strpbrk(grant->resources, " \n"));
        for (const struct crd_grant *other = crd_grants; other != grant; other++) {
            const bool names = other->names == NULL
                                   ? grant->names == NULL
                                   : grant->names && strcmp(other->names, grant->names) == 0;
            assert_false(names && other->scope == grant->scope &&
                         strcmp(other->group, grant->group) == 0 &&
                         strcmp(other->resources, grant->resources) == 0);
        }
    }
}

static void a_gang_has_its_rights_and_other_words_have_none(void **state) {
    static const struct {
        const char *word, *group; /* NULL: no word of --scheduling that needs a right */
    } rows[] = {
        {"volcano", "scheduling.volcano.sh"},
        {"coscheduling", "scheduling.x-k8s.io"},
        {"native", "scheduling.k8s.io"},
        {"kueue", "kueue.x-k8s.io"},
        {"none", NULL},
        {"", NULL},
        {"Volcano", NULL},
        {"volcano ", NULL},
    };

    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char *text = NULL, *rules = NULL;
        size_t length = 0, rules_length = 0;
        FILE *out = open_memstream(&text, &length);
        FILE *rules_out = open_memstream(&rules, &rules_length);
        const bool is = crd_print_gang(out, rows[i].word);

        assert_int_equal(crd_print_gang_rules(rules_out, rows[i].word), is);
        assert_int_equal(fclose(out), 0);
        assert_int_equal(fclose(rules_out), 0);
        assert_int_equal(is, rows[i].group != NULL);
        assert_int_equal(length > 0, is);
        assert_int_equal(rules_length > 0, is);
        if (is) {
            CO_AUTOFREE char *flag = co_xasprintf(" --scheduling=%s\n", rows[i].word);
            CO_AUTOFREE char *group = co_xasprintf("apiGroups: [\"%s\"]\n", rows[i].group);

            assert_int_equal(count(text, flag), 1);
            assert_int_equal(count(text, group), 1);
            assert_int_equal(count(rules, group), 1);
        }
        free(text);
        free(rules);
    }
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
        cmocka_unit_test(rows_of_the_page_have_the_columns_of_their_head),
        cmocka_unit_test(links_of_the_page_lead_to_one_place),
        cmocka_unit_test(each_path_is_printed_once),
        cmocka_unit_test(schema_rules_and_merge_keys_have_bounds_and_required_fields),
        cmocka_unit_test(verbs_are_kubernetes_own_sorted_and_once),
        cmocka_unit_test(a_gang_has_its_rights_and_other_words_have_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
