#include "common/json/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static json_t *parse(const char *text) {
    json_t *j = NULL;
    struct co_err err = {0};
    if (co_json_parse(text, strlen(text), &j, &err)) {
        fail_msg("%s: %s", text, err.msg);
    }
    return j;
}

static void texts_are_parsed_or_refused_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{}", NULL},
        {"[1, 2.5, \"\\u00e9\\u0000\", null, true]", NULL},
        {"5", NULL},
        {"{\"a\": 1, \"a\": 2}", NULL},
        {"", "line 1, column 0: "},
        {"{", "line 1, column 1: "},
        {"{\"a\":\n 1,}", "line 2, column 4: "},
        {"{} x", "line 1, column 4: "},
        {"nul", "line 1, column 3: "},
        {"\"\xff\"", "line 1, column 1: "},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        json_t *j = NULL;
        struct co_err err = {0};
        int r = co_json_parse(rows[i].text, strlen(rows[i].text), &j, &err);
        assert_int_equal(r, rows[i].error ? CO_INVALID : 0);
        assert_int_equal(j != NULL, r == 0);
        if (rows[i].error && strstr(err.msg, rows[i].error) != err.msg) {
            fail_msg("%s: %s", rows[i].text, err.msg);
        }
        json_decref(j);
    }
    json_t *j = NULL;
    assert_int_equal(co_json_parse(NULL, 0, &j, NULL), CO_INVALID);
    assert_int_equal(co_json_parse("1\0", 2, &j, NULL), CO_INVALID);
    assert_int_equal(co_json_parse_odd("[1\0]", 4, &j, NULL), CO_INVALID);
}

static void only_the_given_length_is_read(void **state) {
    (void)state;
    CO_AUTOJSON json_t *j = NULL;
    assert_int_equal(co_json_parse("[1]garbage", 3, &j, NULL), 0);
    assert_int_equal(json_array_size(j), 1);
}

static void nesting_is_bounded(void **state) {
    (void)state;
    enum { DEEP = 100000 };
    char *text = co_xmalloc(DEEP);
    memset(text, '[', DEEP);
    json_t *j = NULL;
    struct co_err err;
    assert_int_equal(co_json_parse(text, DEEP, &j, &err), CO_INVALID);
    free(text);
}

static void paths_of_keys_borrow_or_give_null(void **state) {
    (void)state;
    CO_AUTOJSON json_t *j =
        parse("{\"a\": {\"b.c\": {\"d\": \"x\"}, \"n\": 5, \"s\": \"t\", \"z\": null}}");
    assert_string_equal(co_json_str(j, "a", "b.c", "d"), "x");
    assert_ptr_equal(co_json_at(j, "a"), json_object_get(j, "a"));
    assert_true(json_is_null(co_json_at(j, "a", "z")));
    assert_null(co_json_at(j, "a", "none", "d"));
    assert_null(co_json_at(j, "a", "s", "d"));
    assert_null(co_json_at(NULL, "a"));
    assert_null(co_json_str(j, "a", "n"));
}

static void getters_name_path_type_and_expectation(void **state) {
    (void)state;
    CO_AUTOJSON json_t *j =
        parse("{\"spec\": {\"n\": 5, \"s\": \"x\", \"f\": 1.5, \"b\": true, \"z\": null, "
              "\"l\": [], \"o\": {}}}");
    static const struct {
        const char *path;
        json_type type;
        int code;
        const char *error;
    } rows[] = {
        {"spec.o", JSON_OBJECT, 0, NULL},
        {"spec.l", JSON_ARRAY, 0, NULL},
        {"spec.n", JSON_INTEGER, 0, NULL},
        {"spec.b", JSON_TRUE, 0, NULL},
        {"spec.none", JSON_STRING, CO_NOTFOUND, "spec.none is missing, expected a string"},
        {"spec.z", JSON_ARRAY, CO_NOTFOUND, "spec.z is missing, expected a list"},
        {"spec.n.x", JSON_OBJECT, CO_NOTFOUND, "spec.n.x is missing, expected an object"},
        {"spec.n", JSON_STRING, CO_INVALID, "spec.n is an integer, expected a string"},
        {"spec.f", JSON_INTEGER, CO_INVALID,
            "spec.f is a number with a fraction, expected an integer"},
        {"spec.o", JSON_ARRAY, CO_INVALID, "spec.o is an object, expected a list"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        json_t *got = NULL;
        struct co_err err = {0};
        assert_int_equal(co_json_get(j, rows[i].path, rows[i].type, &got, &err), rows[i].code);
        assert_int_equal(got != NULL, rows[i].code == 0);
        if (rows[i].error) {
            assert_string_equal(err.msg, rows[i].error);
        }
    }
}

static void typed_getters_set_their_result_only_on_success(void **state) {
    (void)state;
    CO_AUTOJSON json_t *j = parse("{\"n\": 5, \"s\": \"x\", \"t\": true, \"f\": false}");
    struct co_err err;
    int64_t n = 77;
    const char *s = "kept";
    assert_int_equal(co_json_get_i64(j, "n", 6, 10, &n, &err), CO_INVALID);
    assert_string_equal(err.msg, "n is 5, expected an integer from 6 to 10");
    assert_int_equal(co_json_get_i64(j, "s", 0, 10, &n, &err), CO_INVALID);
    assert_int_equal(n, 77);
    assert_int_equal(co_json_get_i64(j, "n", 5, 5, &n, &err), 0);
    assert_int_equal(n, 5);
    assert_int_equal(co_json_get_str(j, "n", &s, &err), CO_INVALID);
    assert_string_equal(s, "kept");
    assert_int_equal(co_json_get_str(j, "s", &s, &err), 0);
    assert_string_equal(s, "x");
}

static void a_path_step_longer_than_any_key_is_absent(void **state) {
    (void)state;
    CO_AUTOJSON json_t *j = parse("{\"a\": 1}");
    char path[1000];
    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    json_t *got = NULL;
    struct co_err err;
    assert_int_equal(co_json_get(j, path, JSON_INTEGER, &got, &err), CO_NOTFOUND);
}

static void dumps_are_compact_in_order_or_sorted(void **state) {
    (void)state;
    CO_AUTOJSON json_t *j = parse("{ \"b\" : [ 1 , 2 ], \"a\" : \"\\u0000\" }");
    CO_AUTOFREE char *plain = co_json_dump(j);
    CO_AUTOFREE char *sorted = co_json_dump_sorted(j);
    assert_string_equal(plain, "{\"b\":[1,2],\"a\":\"\\u0000\"}");
    assert_string_equal(sorted, "{\"a\":\"\\u0000\",\"b\":[1,2]}");
    CO_AUTOJSON json_t *text = json_string("x");
    CO_AUTOFREE char *scalar = co_json_dump(text);
    assert_string_equal(scalar, "\"x\"");
}

/* Ours against the library's. */
static void a_dump_has_the_bytes_of_jansson(void **state) {
    (void)state;
    static const char *const rows[] = {"{}", "[]", "[[],{}]", "{\"\":{\"a\":[]}}", "null", "true",
        "false", "[0,-1,9223372036854775807,-9223372036854775808]", "[0.1,1e300,-0.0,1.0,3e-7]",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\u0000\\u001f\\u007f\\u0080\\u20ac\\ud83d\\ude00\"",
        "{\"a\\u0001\\\"\":[1,{\"b\":\"c\"},\"\",null]}"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *j = parse(rows[i]);
        CO_AUTOFREE char *ours = co_json_dump(j);
        CO_AUTOFREE char *theirs = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
        assert_string_equal(ours, theirs);
    }
}

static void setting_takes_the_value_and_null_sets_nothing(void **state) {
    (void)state;
    CO_AUTOJSON json_t *j = json_object();
    CO_AUTOJSON json_t *arr = json_array();
    co_json_set(j, "a", json_integer(1));
    co_json_set(j, "b", NULL);
    co_json_append(arr, json_integer(1));
    co_json_append(arr, NULL);
    assert_int_equal(json_object_size(j), 1);
    assert_int_equal(json_array_size(arr), 1);
}

static void strings_that_are_no_utf8_become_question_marks(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {{"", ""}, {"\xc3\xa9", "\xc3\xa9"}, {"a\xff", "a?"}, {"\xed\xa0\x80", "???"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *j = co_json_string(rows[i].in);
        assert_string_equal(json_string_value(j), rows[i].out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_parsed_or_refused_with_their_place),
        cmocka_unit_test(only_the_given_length_is_read),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(paths_of_keys_borrow_or_give_null),
        cmocka_unit_test(getters_name_path_type_and_expectation),
        cmocka_unit_test(typed_getters_set_their_result_only_on_success),
        cmocka_unit_test(a_path_step_longer_than_any_key_is_absent),
        cmocka_unit_test(dumps_are_compact_in_order_or_sorted),
        cmocka_unit_test(a_dump_has_the_bytes_of_jansson),
        cmocka_unit_test(setting_takes_the_value_and_null_sets_nothing),
        cmocka_unit_test(strings_that_are_no_utf8_become_question_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
