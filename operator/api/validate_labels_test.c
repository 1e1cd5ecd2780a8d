/* What `validate` says of keys and values of labels, row by row.  tests/integration/test_labels.py
 * asks a kube-apiserver the same. */
#include "operator/api/validate_labels.h"

#include "operator/api/api_testing.h"

struct findings {
    size_t n;
    char *path, *message; /* owned: the first */
};

static void collect(void *arg, const char *path, const char *message) {
    struct findings *h = arg;
    if (h->n++ == 0) {
        h->path = co_xstrdup(path);
        h->message = co_xstrdup(message);
    }
}

#define X9 "xxxxxxxxx"
#define X63 X9 X9 X9 X9 X9 X9 X9
#define CHARACTERS                                                                                 \
    ", expected letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
#define DNS                                                                                        \
    ", expected a DNS name: small letters, digits and '-', parts joined by '.', each beginning "   \
    "and ending with a letter or digit"

static const struct {
    const char *obj, *path, *message; /* path: NULL: nothing is wrong */
} rows[] = {
    {"{'labels':{'app':'a','A_b.c-9':'','x.io/a':'B_c.d-1','" X63 "':'" X63 "'}}", NULL, NULL},
    {"{'labels':null,'annotations':{'X.io/a':'any text: ä\\n'}}", NULL, NULL},
    {"{'labels':7,'annotations':'a','matchExpressions':[7,{'key':7,'values':[7]}]}", NULL, NULL},
    /* keys */
    {"{'labels':{'a b':'c'}}", "m.labels.a b",
        "m.labels[\"a b\"] has a key whose name is \"a b\"" CHARACTERS},
    {"{'labels':{'-a':'c'}}", "m.labels.-a",
        "m.labels[\"-a\"] has a key whose name is \"-a\"" CHARACTERS},
    {"{'labels':{'':'c'}}", "m.labels.",
        "m.labels[\"\"] has a key whose name is empty, expected 1 to 63 characters"},
    {"{'labels':{'x" X63 "':'c'}}", "m.labels.x" X63,
        "m.labels[\"x" X63 "\"] has a key whose name has 64 characters, expected at most 63"},
    {"{'labels':{'x.io/':'c'}}", "m.labels.x.io/",
        "m.labels[\"x.io/\"] has a key whose name, after '/', is empty, expected 1 to 63 "
        "characters"},
    {"{'labels':{'/a':'c'}}", "m.labels./a",
        "m.labels[\"/a\"] has a key whose prefix, before '/', is empty, expected 1 to 253 "
        "characters"},
    {"{'labels':{'a/b/c':'d'}}", "m.labels.a/b/c",
        "m.labels[\"a/b/c\"] has a key with more than one '/', expected NAME or PREFIX/NAME"},
    {"{'labels':{'X.io/a':'c'}}", "m.labels.X.io/a",
        "m.labels[\"X.io/a\"] has a key whose prefix, before '/', is \"X.io\"" DNS},
    {"{'labels':{'x..io/a':'c'}}", "m.labels.x..io/a",
        "m.labels[\"x..io/a\"] has a key whose prefix, before '/', is \"x..io\"" DNS},
    {"{'labels':{'x.-io/a':'c'}}", "m.labels.x.-io/a",
        "m.labels[\"x.-io/a\"] has a key whose prefix, before '/', is \"x.-io\"" DNS},
    /* values */
    {"{'labels':{'app':'a b'}}", "m.labels.app", "m.labels[\"app\"] is \"a b\"" CHARACTERS},
    {"{'labels':{'app':'a.'}}", "m.labels.app", "m.labels[\"app\"] is \"a.\"" CHARACTERS},
    {"{'labels':{'app':'ä'}}", "m.labels.app", "m.labels[\"app\"] is \"ä\"" CHARACTERS},
    {"{'labels':{'app':'x" X63 "'}}", "m.labels.app",
        "m.labels[\"app\"] has 64 characters, expected at most 63"},
    {"{'labels':{'app':'a\\nb'}}", "m.labels.app", "m.labels[\"app\"] is \"a?b\"" CHARACTERS},
    /* elsewhere */
    {"{'annotations':{'a b':'c'}}", "m.annotations.a b",
        "m.annotations[\"a b\"] has a key whose name is \"a b\"" CHARACTERS},
    {"{'nodeSelector':{'disk':'a/b'}}", "m.nodeSelector.disk",
        "m.nodeSelector[\"disk\"] is \"a/b\"" CHARACTERS},
    {"{'list':[{},{'labelSelector':{'matchLabels':{'app':'a b'}}}]}",
        "m.list.1.labelSelector.matchLabels.app",
        "m.list.1.labelSelector.matchLabels[\"app\"] is \"a b\"" CHARACTERS},
    {"{'matchExpressions':[{'key':'a b'}]}", "m.matchExpressions.0.key",
        "m.matchExpressions.0.key has a key whose name is \"a b\"" CHARACTERS},
    {"{'matchExpressions':[{'key':'a','values':['b','c d']}]}", "m.matchExpressions.0.values.1",
        "m.matchExpressions.0.values.1 is \"c d\"" CHARACTERS},
    {"{'a':[{'topologyKey':'x.io/rack','matchLabelKeys':['a','x.io/b'],'mismatchLabelKeys':[]}]}",
        NULL, NULL},
    {"{'a':[{'topologyKey':7,'matchLabelKeys':[7]}]}", NULL, NULL},
    {"{'a':[{'topologyKey':'a b'}]}", "m.a.0.topologyKey",
        "m.a.0.topologyKey has a key whose name is \"a b\"" CHARACTERS},
    {"{'a':[{'topologyKey':''}]}", "m.a.0.topologyKey",
        "m.a.0.topologyKey has a key whose name is empty, expected 1 to 63 characters"},
    {"{'matchLabelKeys':['a','b c']}", "m.matchLabelKeys.1",
        "m.matchLabelKeys.1 has a key whose name is \"b c\"" CHARACTERS},
    {"{'mismatchLabelKeys':['b c']}", "m.mismatchLabelKeys.0",
        "m.mismatchLabelKeys.0 has a key whose name is \"b c\"" CHARACTERS},
};

static void invalid_label_keys_and_values_are_reported(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *obj = tk_json(rows[i].obj);
        struct findings h = {0};
        api_labels_validate(obj, "m", &(struct co_findings){collect, &h, 16});
        if (h.n != (rows[i].path != NULL) ||
            (h.n &&
                (strcmp(h.path, rows[i].path) != 0 || strcmp(h.message, rows[i].message) != 0))) {
            fail_msg("row %zu (%s): %zu messages, the first \"%s\" at \"%s\"", i, rows[i].obj, h.n,
                h.n ? h.message : "", h.n ? h.path : "");
        }
        free(h.path);
        free(h.message);
    }
}

/* Keys count as well. */
static void annotations_have_a_size(void **state) {
    (void)state;
    enum { MOST = 256 * 1024 };
    for (size_t more = 0; more < 2; more++) {
        CO_AUTOFREE char *text = co_xcalloc(1, MOST + 1);
        memset(text, 'x', MOST - 2 + more);
        CO_AUTOJSON json_t *obj = json_pack("{s:{s:s,s:s}}", "annotations", "a", text, "b", "");
        struct findings h = {0};
        api_labels_validate(obj, "m", &(struct co_findings){collect, &h, 16});
        assert_int_equal(h.n, more);
        assert_true(!more || strcmp(h.message, "m.annotations has 262145 bytes of keys and values, "
                                               "expected at most 262144") == 0);
        free(h.path);
        free(h.message);
    }
}

static void findings_stop_at_the_given_maximum(void **state) {
    (void)state;
    CO_AUTOJSON json_t *obj = tk_json("{'labels':{'a':' ','b':' ','c':' '}}");
    struct findings h = {0};
    api_labels_validate(obj, "m", &(struct co_findings){collect, &h, 2});
    assert_int_equal(h.n, 2);
    free(h.path);
    free(h.message);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_label_keys_and_values_are_reported),
        cmocka_unit_test(annotations_have_a_size),
        cmocka_unit_test(findings_stop_at_the_given_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
