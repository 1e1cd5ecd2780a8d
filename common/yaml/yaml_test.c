#include "common/yaml/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int read_one(const char *text, json_t **ret, struct co_err *err) {
    struct co_yaml *y CO_CLEANUP(co_yaml_closep) = NULL;
    CO_TRY(co_yaml_open("x.yaml", text, strlen(text), &y, err));
    return co_yaml_next(y, ret, err);
}

/* The values are those that sigs.k8s.io/yaml 1.6.0, which kubectl uses, gives; NULL: it reports
 * an error.  Numbers beyond 64 bits, which it writes without a point, have one here. */
static const struct {
    const char *yaml, *json;
} as_kubectl[] = {
    {"a: y", "{\"a\":true}"},
    {"a: Y", "{\"a\":true}"},
    {"a: n", "{\"a\":false}"},
    {"a: yes", "{\"a\":true}"},
    {"a: oN", "{\"a\":\"oN\"}"},
    {"a: Off", "{\"a\":false}"},
    {"y: 1", "{\"true\":1}"},
    {"yes: 1", "{\"true\":1}"},
    {"1: a", "{\"1\":\"a\"}"},
    {"1.5: a", "{\"1.5\":\"a\"}"},
    {"1e3: a", "{\"1000\":\"a\"}"},
    {"0x10: a", "{\"16\":\"a\"}"},
    {"~: a", NULL},
    {"null: 1", NULL},
    {"a: 010", "{\"a\":8}"},
    {"a: 0o17", "{\"a\":15}"},
    {"a: 0x1F", "{\"a\":31}"},
    {"a: -0x1f", "{\"a\":-31}"},
    {"a: +12", "{\"a\":12}"},
    {"a: 1_000", "{\"a\":1000}"},
    {"a: 0b101", "{\"a\":5}"},
    {"a: 1e3", "{\"a\":1000}"},
    {"a: .5", "{\"a\":0.5}"},
    {"a: 1.", "{\"a\":1}"},
    {"a: 1.0", "{\"a\":1}"},
    {"a: 08", "{\"a\":8}"},
    {"a: 0o8", "{\"a\":\"0o8\"}"},
    {"a: 12345678901234567890", "{\"a\":12345678901234567890.0}"},
    {"a: 18446744073709551616", "{\"a\":18446744073709552000.0}"},
    {"a: 123456789012345678901234567890", "{\"a\":1.2345678901234568e+29}"},
    {"a: -9223372036854775808", "{\"a\":-9223372036854775808}"},
    {"a: .inf", NULL},
    {"a: .nan", NULL},
    {"a: 2021-02-08", "{\"a\":\"2021-02-08\"}"},
    {"a: 2021-02-08T07:43:24Z", "{\"a\":\"2021-02-08T07:43:24Z\"}"},
    {"a: 2021-2-8 1:2:3", "{\"a\":\"2021-2-8 1:2:3\"}"},
    {"a: 190:20:30", "{\"a\":\"190:20:30\"}"},
    {"a: 12:30", "{\"a\":\"12:30\"}"},
    {"a: !!str 12", "{\"a\":\"12\"}"},
    {"a: !!int 12", "{\"a\":12}"},
    {"a: !!int \"12\"", "{\"a\":12}"},
    {"a: !!float 12", "{\"a\":12}"},
    {"a: !!float \"12.5\"", "{\"a\":12.5}"},
    {"a: !!bool yes", "{\"a\":true}"},
    {"a: !!bool \"yes\"", "{\"a\":true}"},
    {"a: !!bool x", NULL},
    {"a: !!null x", NULL},
    {"a: !!null ''", "{\"a\":null}"},
    {"a: !foo bar", "{\"a\":\"bar\"}"},
    {"a: !foo 12", "{\"a\":\"12\"}"},
    {"a: !!foo bar", "{\"a\":\"bar\"}"},
    {"a: ! 12", "{\"a\":\"12\"}"},
    {"a: ! {x: 1}", "{\"a\":{\"x\":1}}"},
    {"a: !!map {x: 1}", "{\"a\":{\"x\":1}}"},
    {"a: !!seq [1]", "{\"a\":[1]}"},
    {"a: !!str [1]", "{\"a\":[1]}"},
    {"a: !!set {x, y}", "{\"a\":{\"true\":null,\"x\":null}}"},
    {"a: !!omap [x: 1]", "{\"a\":[{\"x\":1}]}"},
    {"a: !!timestamp 2021-02-08", "{\"a\":\"2021-02-08\"}"},
    {"a: !foo {x: 1}", "{\"a\":{\"x\":1}}"},
    {"a: &x {b: 1}\nc: {<<: *x, d: 2}", "{\"a\":{\"b\":1},\"c\":{\"b\":1,\"d\":2}}"},
    {"a: &x {b: 1}\nc: {d: 2, <<: *x, b: 3}", "{\"a\":{\"b\":1},\"c\":{\"b\":3,\"d\":2}}"},
    {"a: &x {b: 1}\nc: {b: 3, <<: *x}", "{\"a\":{\"b\":1},\"c\":{\"b\":1}}"},
    {"a: [&x {b: 1}, &y {b: 2, e: 3}]\nc: {<<: [*x, *y]}",
        "{\"a\":[{\"b\":1},{\"b\":2,\"e\":3}],\"c\":{\"b\":1,\"e\":3}}"},
    {"c: {<<: 1}", NULL},
    {"c: {<<: [1]}", NULL},
    {"c: {<<: {a: 1}}", "{\"c\":{\"a\":1}}"},
    {"c: {\"<<\": {a: 1}}", "{\"c\":{\"<<\":{\"a\":1}}}"},
    {"a: &x [*x]", NULL},
    {"a: &x 1\nb: *x", "{\"a\":1,\"b\":1}"},
    {"a: *x", NULL},
    {"a:", "{\"a\":null}"},
    {"[a]: b", NULL},
    {"{a: b}: c", NULL},
    {"? [a]\n: b", NULL},
    {"- 1\n- [2, {x: y}]", "[1,[2,{\"x\":true}]]"},
    {"just text", "\"just text\""},
    {"12", "12"},
    {"''", "\"\""},
    {"a: \"\\u0000\"", "{\"a\":\"\\u0000\"}"},
    {"a: \"\\x00b\"", "{\"a\":\"\\u0000b\"}"},
    {"a: +.5", "{\"a\":0.5}"},
    {"a: -.5", "{\"a\":-0.5}"},
    {"a: 1e400", "{\"a\":\"1e400\"}"},
    {"a: 1e-400", "{\"a\":0}"},
    {"a: 0x", "{\"a\":\"0x\"}"},
    {"a: 1__0", "{\"a\":10}"},
    {"a: _1", "{\"a\":\"_1\"}"},
    {"a: 1_", "{\"a\":1}"},
    {"a: 0_7", "{\"a\":7}"},
    {"a: 07_7", "{\"a\":63}"},
    {"a: -010", "{\"a\":-8}"},
    {"a: 0.1", "{\"a\":0.1}"},
    {"a: 100000000000000000000.0", "{\"a\":100000000000000000000.0}"},
    {"a: 1.0e21", "{\"a\":1e+21}"},
    {"a: 123456789.123", "{\"a\":123456789.123}"},
    {"a: 1e20", "{\"a\":100000000000000000000.0}"},
    {"a: 1e21", "{\"a\":1e+21}"},
    {"a: 1.5e300", "{\"a\":1.5e+300}"},
    {"a: 5e-324", "{\"a\":5e-324}"},
    {"a: 0.000001", "{\"a\":0.000001}"},
    {"a: 0.0000001", "{\"a\":1e-7}"},
    {"a: -0", "{\"a\":0}"},
    {"a: -0.0", "{\"a\":0}"},
    {"a: 0", "{\"a\":0}"},
    {"a: |\n  x\n  y", "{\"a\":\"x\\ny\"}"},
    {"a: >-\n  x\n  y", "{\"a\":\"x y\"}"},
    {"a: 0B11", "{\"a\":3}"},
    {"a: 0X1f", "{\"a\":31}"},
    {"a: 0O17", "{\"a\":15}"},
    {"a: 1e5x", "{\"a\":\"1e5x\"}"},
    {"a: NaN", "{\"a\":\"NaN\"}"},
    {"a: Infinity", "{\"a\":\"Infinity\"}"},
    {"a: inf", "{\"a\":\"inf\"}"},
    {"a: .Inf", NULL},
    {"a: +.INF", NULL},
    {"a: True", "{\"a\":true}"},
    {"a: tRUE", "{\"a\":\"tRUE\"}"},
    {"a: NULL", "{\"a\":null}"},
    {"a: nULL", "{\"a\":\"nULL\"}"},
    {"a: 0x1p4", "{\"a\":\"0x1p4\"}"},
    {"a: 1_0.5", "{\"a\":10.5}"},
    {"a: 1_0e1", "{\"a\":100}"},
    {"a: .5_0", "{\"a\":0.5}"},
    {"a: ._5", "{\"a\":\"._5\"}"},
    {"a: .", "{\"a\":\".\"}"},
    {"a: -", NULL},
    {"a: +", "{\"a\":\"+\"}"},
    {"1.10: a", "{\"1.1\":\"a\"}"},
    {"2021-02-08: a", "{\"2021-02-08\":\"a\"}"},
    {"!!str 12: a", "{\"12\":\"a\"}"},
    {"a: .1e", "{\"a\":\".1e\"}"},
    {"a: .0x1", "{\"a\":\".0x1\"}"},
    {"a: !!float .inf", NULL},
    {"a: !!int 1.5", NULL},
    {"a: !!str", "{\"a\":\"\"}"},
    {"a: !!null", "{\"a\":null}"},
    {"a: !!int yes", NULL},
    {"a: !!bool 1", NULL},
    {"a: !!merge <<", "{\"a\":\"<<\"}"},
    {"a: <<", "{\"a\":\"<<\"}"},
    {"a: !!float 0x10", "{\"a\":16}"},
    {"\\ta: 1", "{\"\\\\ta\":1}"},
    {"a: &x {b: 1}\nc: {<<: *x, <<: {z: 1}}", "{\"a\":{\"b\":1},\"c\":{\"b\":1,\"z\":1}}"},
    {"c: {!!merge <<: {a: 1}}", "{\"c\":{\"a\":1}}"},
    {"c: {!!str <<: {a: 1}}", "{\"c\":{\"<<\":{\"a\":1}}}"},
    {"a: \"é\"", "{\"a\":\"é\"}"},
    {"{\"a\": 1, \"b\": [true, null, \"y\"]}", "{\"a\":1,\"b\":[true,null,\"y\"]}"},
    {"a: 'y'", "{\"a\":\"y\"}"},
    {"a: \"010\"", "{\"a\":\"010\"}"},
    {"a: |\n  010", "{\"a\":\"010\"}"},
    {"a: 123456.0", "{\"a\":123456}"},
    {"1234567.5: a", "{\"1.2345675e+06\":\"a\"}"},
    {"0.00001: a", "{\"1e-05\":\"a\"}"},
    {"100000.0: a", "{\"100000\":\"a\"}"},
    {"1000000.0: a", "{\"1e+06\":\"a\"}"},
    {"1e304: a", "{\".inf\":\"a\"}"},
    {"-1e304: a", "{\"-.inf\":\"a\"}"},
    {"16777217.0: a", "{\"1.6777216e+07\":\"a\"}"},
    {"-1.5: a", "{\"-1.5\":\"a\"}"},
    {"a: -0b101", "{\"a\":-5}"},
    {"a: 0777777777777777777777777", "{\"a\":7.777777777777778e+23}"},
    {"a: 0x7fffffffffffffff", "{\"a\":9223372036854775807}"},
    {"a: 0x8000000000000000", "{\"a\":9223372036854775808.0}"},
    {"a: 9223372036854775807", "{\"a\":9223372036854775807}"},
    {"a: 9223372036854775808", "{\"a\":9223372036854775808.0}"},
    {"a: - 1", NULL},
    {"a: 1e+3", "{\"a\":1000}"},
    {"a: 1E3", "{\"a\":1000}"},
    {"a: +1.5e-3", "{\"a\":0.0015}"},
    {"a: 1e", "{\"a\":\"1e\"}"},
    {"a: 1.e5", "{\"a\":100000}"},
    {"a: 1.5.5", "{\"a\":\"1.5.5\"}"},
    {"a: 0x_1F", "{\"a\":31}"},
    {"a: 012345678", "{\"a\":12345678}"},
    {"a: 00", "{\"a\":0}"},
    {"a: 0_", "{\"a\":0}"},
    {"a: [a, b, ]", "{\"a\":[\"a\",\"b\"]}"},
    {"a: {b: , c}", "{\"a\":{\"b\":null,\"c\":null}}"},
    {"&x a: 1\nb: *x", "{\"a\":1,\"b\":\"a\"}"},
    {"? a\n: b", "{\"a\":\"b\"}"},
    {"%YAML 1.1\n---\na: 1", "{\"a\":1}"},
};

static void values_are_those_of_kubectl(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(as_kubectl); i++) {
        struct co_err err = {0};
        CO_AUTOJSON json_t *got = NULL;
        CO_AUTOJSON json_t *want = NULL;
        int r = read_one(as_kubectl[i].yaml, &got, &err);
        if (!as_kubectl[i].json) {
            if (r != CO_INVALID) {
                fail_msg("\"%s\" must be an error", as_kubectl[i].yaml);
            }
            assert_ptr_equal(strstr(err.msg, "x.yaml:"), err.msg);
            continue;
        }
        if (r) {
            fail_msg("\"%s\": %s", as_kubectl[i].yaml, err.msg);
        }
        want = json_loads(as_kubectl[i].json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(want);
        if (!json_equal(want, got)) {
            CO_AUTOFREE char *text = json_dumps(got, JSON_ENCODE_ANY);
            fail_msg("\"%s\": %s instead of %s", as_kubectl[i].yaml, text, as_kubectl[i].json);
        }
    }
}

static void errors_say_where_and_why(void **state) {
    (void)state;
    static const struct {
        const char *yaml, *error;
    } rows[] = {
        {"a: 1\nb: 2\na: 3\n", "x.yaml:3:1: duplicate key \"a\" (first on line 1)"},
        {"1: a\n\"1\": b", "x.yaml:2:1: duplicate key \"1\" (first on line 1)"},
        {"true: a\nyes: b", "x.yaml:2:1: duplicate key \"true\""},
        {"a:\n  b: {c: 1, d: 2, c: 3}", "x.yaml:2:19: duplicate key \"c\" (first on line 2)"},
        {"b: &x {c: 1}\na: {c: 1, <<: *x, c: 2, c: 3}", "x.yaml:2:25: duplicate key \"c\""},
        {"a: !!binary aGk=", "x.yaml:1:4: !!binary is not supported"},
        {"a: .inf", "x.yaml:1:4: .inf cannot be written in JSON"},
        {".nan: a", "x.yaml:1:1: .nan cannot be written in JSON"},
        {"a: !!int x", "x.yaml:1:4: \"x\" is not an integer as its tag says"},
        {"a: 1\n~: b", "x.yaml:2:1: a key is null: put it in quotes"},
        {"\"a\\0b\": 1", "x.yaml:1:1: a key holds a NUL character"},
        {"? [a]\n: 1", "x.yaml:1:3: a key must be a string"},
        {"a: *b", "x.yaml:1:4: no anchor \"b\" before this alias"},
        {"a: &b [1, *b]", "x.yaml:1:11: the anchor \"b\" contains itself"},
        {"a:\n  <<: 5", "x.yaml:2:3: \"<<\" takes a mapping or a list of mappings"},
        {"a: 1\n b: 2", "x.yaml:2:3: mapping values are not allowed in this context"},
        {"a: [1, 2\nb: 3", "x.yaml:2:"},
        {"a:\n\t- b", "x.yaml:2:1: found character that cannot start any token"},
        {"a: \"\xff\"", "x.yaml:1:5: "},
        {"a: 1\nb: \x01", "x.yaml:2:4: control characters are not allowed"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        json_t *got = NULL;
        assert_int_equal(read_one(rows[i].yaml, &got, &err), CO_INVALID);
        if (strstr(err.msg, rows[i].error) != err.msg) {
            fail_msg("\"%s\": %s", rows[i].yaml, err.msg);
        }
    }
}

static void documents_come_one_by_one_without_empty_ones(void **state) {
    (void)state;
    static const char text[] = "# nothing\n---\na: 1\n---\n---\n# nothing\n---\nnull\n---\n"
                               "a: 2\nb:\n  c: 3\n...\n--- 5\n";
    static const struct {
        const char *json;
        int line;
    } want[] = {{"{\"a\":1}", 3}, {"{\"a\":2,\"b\":{\"c\":3}}", 10}, {"5", 14}};
    struct co_err err;
    struct co_yaml *y CO_CLEANUP(co_yaml_closep) = NULL;
    assert_int_equal(co_yaml_open("x", text, strlen(text), &y, &err), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(want); i++) {
        CO_AUTOJSON json_t *j = NULL;
        assert_int_equal(co_yaml_next(y, &j, &err), 0);
        CO_AUTOFREE char *got = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
        assert_string_equal(got, want[i].json);
        assert_int_equal(co_yaml_line(y, ""), want[i].line);
    }
    json_t *j = NULL;
    assert_int_equal(co_yaml_next(y, &j, &err), CO_NOTFOUND);
    assert_int_equal(co_yaml_next(y, &j, &err), CO_NOTFOUND);
    assert_null(j);
}

static void an_empty_document_is_not_found(void **state) {
    (void)state;
    static const char *const rows[] = {"", "\n", "# x", "---", "---\n...\n", "~", "null\n"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err;
        json_t *j = NULL;
        assert_int_equal(read_one(rows[i], &j, &err), CO_NOTFOUND);
    }
}

static void an_error_in_a_later_document_keeps_the_earlier_ones(void **state) {
    (void)state;
    static const char text[] = "a: 1\n---\nb: [\n---\nc: 1\n";
    struct co_err err, again;
    struct co_yaml *y CO_CLEANUP(co_yaml_closep) = NULL;
    assert_int_equal(co_yaml_open("x", text, strlen(text), &y, &err), 0);
    CO_AUTOJSON json_t *j = NULL;
    assert_int_equal(co_yaml_next(y, &j, &err), 0);
    json_t *none = NULL;
    assert_int_equal(co_yaml_next(y, &none, &err), CO_INVALID);
    assert_ptr_equal(strstr(err.msg, "x:"), err.msg);
    assert_int_equal(co_yaml_next(y, &none, &again), CO_INVALID);
    assert_string_equal(err.msg, again.msg);
}

static void lines_are_found_by_path(void **state) {
    (void)state;
    static const char text[] = "# a comment\n"                   /* 1 */
                               "kind: PaddleJob\n"               /* 2 */
                               "metadata:\n"                     /* 3 */
                               "  labels:\n"                     /* 4 */
                               "    app: x\n"                    /* 5 */
                               "    app.kubernetes.io/name: y\n" /* 6 */
                               "spec:\n"                         /* 7 */
                               "  containers:\n"                 /* 8 */
                               "  - name: a\n"                   /* 9 */
                               "    image: b\n"                  /* 10 */
                               "  - {name: c,\n"                 /* 11 */
                               "     image: d}\n"                /* 12 */
                               "  copy: &x\n"                    /* 13 */
                               "    deep: 1\n"                   /* 14 */
                               "  more: *x\n"                    /* 15 */
                               "  8080: {\"\": {z: 1}}\n"        /* 16 */
                               "---\n"                           /* 17 */
                               "spec: 1\n";                      /* 18 */
    static const struct {
        const char *path;
        int line;
    } rows[] = {
        {"", 2},
        {"kind", 2},
        {"metadata", 3},
        {"metadata.labels.app", 5},
        {"metadata.labels.app.kubernetes.io/name", 6},
        {"metadata.labels.ap", 4},
        {"spec.containers", 8},
        {"spec.containers.0", 9},
        {"spec.containers.0.image", 10},
        {"spec.containers[0].image", 10},
        {"spec.containers.1.name", 11},
        {"spec.containers[1].image", 12},
        {"spec.containers.1.imag", 11},
        {"spec.containers.2.image", 8},
        {"spec.containers.10", 8},
        {"spec.copy.deep", 14},
        {"spec.more.deep", 15},
        {"spec.8080..z", 16},
        {"nothing.there", 2},
        {".", 2},
        {"[0]", 2},
    };
    struct co_err err;
    struct co_yaml *y CO_CLEANUP(co_yaml_closep) = NULL;
    assert_int_equal(co_yaml_open("x", text, strlen(text), &y, &err), 0);
    assert_int_equal(co_yaml_line(y, "kind"), 1);
    CO_AUTOJSON json_t *j = NULL;
    assert_int_equal(co_yaml_next(y, &j, &err), 0);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int line = co_yaml_line(y, rows[i].path);
        if (line != rows[i].line) {
            fail_msg("%s: line %d instead of %d", rows[i].path, line, rows[i].line);
        }
    }
    CO_AUTOJSON json_t *second = NULL;
    assert_int_equal(co_yaml_next(y, &second, &err), 0);
    assert_int_equal(co_yaml_line(y, "spec"), 18);
    assert_int_equal(co_yaml_line(y, "kind"), 18);
}

static void an_alias_is_a_copy(void **state) {
    (void)state;
    struct co_err err;
    CO_AUTOJSON json_t *j = NULL;
    assert_int_equal(read_one("a: &x {b: 1}\nc: *x\nd: {<<: *x}\n", &j, &err), 0);
    co_json_set(json_object_get(j, "a"), "b", json_integer(2));
    assert_int_equal(json_integer_value(co_json_at(j, "c", "b")), 1);
    assert_int_equal(json_integer_value(co_json_at(j, "d", "b")), 1);
}

static void anchors_end_with_their_document(void **state) {
    (void)state;
    static const char text[] = "a: &x 1\n---\nb: *x\n";
    struct co_err err;
    struct co_yaml *y CO_CLEANUP(co_yaml_closep) = NULL;
    assert_int_equal(co_yaml_open("x", text, strlen(text), &y, &err), 0);
    CO_AUTOJSON json_t *j = NULL;
    assert_int_equal(co_yaml_next(y, &j, &err), 0);
    json_t *none = NULL;
    assert_int_equal(co_yaml_next(y, &none, &err), CO_INVALID);
}

static void expansion_of_aliases_is_bounded(void **state) {
    (void)state;
    char text[4096];
    size_t len = (size_t)snprintf(text, sizeof(text), "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++) {
            len += (size_t)snprintf(text + len, sizeof(text) - len, "*a%d,", i - 1);
        }
        len += (size_t)snprintf(text + len, sizeof(text) - len, "]\n");
    }
    struct co_err err;
    json_t *j = NULL;
    assert_int_equal(read_one(text, &j, &err), CO_NORESOURCE);
    assert_non_null(strstr(err.msg, "the document is too large"));
}

static void bytes_of_copies_are_bounded(void **state) {
    (void)state;
    enum { BIG = 1000 * 1000, COPIES = 100 };
    char *text = co_xmalloc(BIG + 16 + 3 * COPIES);
    size_t len = (size_t)snprintf(text, BIG, "[&x ");
    memset(text + len, 'a', BIG);
    len += BIG;
    for (int i = 0; i < COPIES; i++) {
        len += (size_t)snprintf(text + len, 8, ",*x");
    }
    (void)snprintf(text + len, 8, "]");
    struct co_err err;
    json_t *j = NULL;
    assert_int_equal(read_one(text, &j, &err), CO_NORESOURCE);
    free(text);
}

static void anchors_are_bounded(void **state) {
    (void)state;
    static const int rows[][2] = {{1000, 0}, {1001, CO_NORESOURCE}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        char *text = co_xcalloc((size_t)rows[i][0], 16);
        size_t len = 0;
        for (int k = 0; k < rows[i][0]; k++) {
            len += (size_t)snprintf(text + len, 16, "- &a%d x\n", k);
        }
        struct co_err err;
        json_t *j = NULL;
        assert_int_equal(read_one(text, &j, &err), rows[i][1]);
        json_decref(j);
        free(text);
    }
}

static void depth_is_bounded(void **state) {
    (void)state;
    static const int rows[][2] = {{150, 0}, {250, CO_NORESOURCE}, {100000, CO_NORESOURCE}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        size_t n = (size_t)rows[i][0];
        char *text = co_xcalloc(2 * n + 1, 1);
        memset(text, '[', n);
        memset(text + n, ']', n);
        struct co_err err;
        json_t *j = NULL;
        assert_int_equal(read_one(text, &j, &err), rows[i][1]);
        json_decref(j);
        free(text);
    }
}

static void json_that_libyaml_refuses_is_read_all_the_same(void **state) {
    (void)state;
    struct co_err err;
    CO_AUTOJSON json_t *j = NULL;
    assert_int_equal(read_one("\n{\"a\": \"\\ud83d\\ude00\", \"b\":\t1}\n", &j, &err), 0);
    assert_string_equal(co_json_str(j, "a"), "\xf0\x9f\x98\x80");
    json_t *none = NULL;
    assert_int_equal(read_one("{\"a\": 1, \"a\": 2}", &none, &err), CO_INVALID);
    assert_int_equal(read_one("{\"a\": 1", &none, &err), CO_INVALID);
    assert_string_equal(err.msg, "x.yaml:2:1: did not find expected ',' or '}' (while parsing a "
                                 "flow mapping that starts on line 1)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_kubectl),
        cmocka_unit_test(errors_say_where_and_why),
        cmocka_unit_test(documents_come_one_by_one_without_empty_ones),
        cmocka_unit_test(an_empty_document_is_not_found),
        cmocka_unit_test(an_error_in_a_later_document_keeps_the_earlier_ones),
        cmocka_unit_test(lines_are_found_by_path),
        cmocka_unit_test(an_alias_is_a_copy),
        cmocka_unit_test(anchors_end_with_their_document),
        cmocka_unit_test(expansion_of_aliases_is_bounded),
        cmocka_unit_test(bytes_of_copies_are_bounded),
        cmocka_unit_test(anchors_are_bounded),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(json_that_libyaml_refuses_is_read_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
