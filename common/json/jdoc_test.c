#include "common/json/jdoc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* What was read, written again; numbers as they stand. */
static void write_node(const struct co_jnode *n, char *out, size_t room) {
    static const char *const words[] = {
        [CO_J_NULL] = "null", [CO_J_FALSE] = "false", [CO_J_TRUE] = "true"};
    const struct co_jnode *end = n + n->size;
    char *at = out;
#define PUT(...) at += snprintf(at, room - (size_t)(at - out), __VA_ARGS__)
    switch ((enum co_jtype)n->type) {
    case CO_J_LIST:
        PUT("[");
        for (const struct co_jnode *i = NULL; (i = co_jnode_next(n, i));) {
            write_node(i, at, room - (size_t)(at - out));
            at += strlen(at);
            PUT(",");
        }
        PUT("]");
        break;
    case CO_J_OBJECT:
        PUT("{");
        for (const struct co_jnode *k = n + 1; k < end; k += 1 + k[1].size) {
            PUT("%s=", k->text);
            write_node(k + 1, at, room - (size_t)(at - out));
            at += strlen(at);
            PUT(",");
        }
        PUT("}");
        break;
    case CO_J_NUMBER:
        PUT("%.*s", (int)strspn(n->text, "0123456789+-.eE"), n->text);
        break;
    case CO_J_STRING:
        PUT("<%s>", n->text);
        break;
    default:
        PUT("%s", words[n->type]);
        break;
    }
#undef PUT
}

static void each_text_is_read_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *want; /* NULL: refused */
    } rows[] = {
        {"{}", "{}"},
        {" [ ] ", "[]"},
        {"{\"a\":1,\"b\":[true,false,null,{\"c\":\"d\"}],\"e\":{}}",
            "{a=1,b=[true,false,null,{c=<d>,},],e={},}"},
        {"\t{ \"a\" : [ -1.5e+3 , 0 ] }\r\n", "{a=[-1.5e+3,0,],}"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"[[[[[[]]]]]]", "[[[[[[],],],],],]"},
        /* strings */
        {"\"\"", "<>"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "<\"\\/\b\f\n\r\t>"},
        {"\"\\u0041\\u00e4\\u20ac\\ud83d\\ude00\"", "<A\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80>"},
        {"\"a\\u0026b\\u0026c\"", "<a&b&c>"},
        {"\"\\ud83dx\\ude00\\ud83d\"", "<\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD>"},
        {"\"\\u0000\"", "<\xEF\xBF\xBD>"},
        {"{\"\\u0061\":1}", "{a=1,}"},
        {"\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\"", "<\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80>"},
        {"\"\xC0\x80\"", NULL},
        {"\"\xE0\x80\x80\"", NULL},
        {"\"\xED\xA0\x80\"", NULL},
        {"\"\xF4\x90\x80\x80\"", NULL},
        {"\"\xC3\"", NULL},
        {"\"\x80\"", NULL},
        {"\"a\nb\"", NULL},
        {"\"abc", NULL},
        {"\"\\", NULL},
        {"\"\\x\"", NULL},
        {"\"\\u12\"", NULL},
        {"\"\\u12g4\"", NULL},
        /* what is left out */
        {"{\"skip\":{\"x\":[\"}]\\\"\"]},\"a\":1}", "{a=1,}"},
        {"{\"a\":{\"skip\":[1,2],\"b\":2},\"skip\":null}", "{a={b=2,},}"},
        {"{\"skip\":\"x\"}", "{}"},
        {"{\"skip\":12}", "{}"},
        {"[\"skip\"]", "[<skip>,]"},
        {"{\"skip\":{\"x\":1", NULL},
        {"{\"skip\":\"x", NULL},
        {"{\"skip\":", NULL},
        /* no JSON */
        {"", NULL},
        {" ", NULL},
        {"{", NULL},
        {"[", NULL},
        {"{]", NULL},
        {"[}", NULL},
        {"[1,]", NULL},
        {"{\"a\":1,}", NULL},
        {"{\"a\"}", NULL},
        {"{\"a\" 1}", NULL},
        {"{1:2}", NULL},
        {"{,}", NULL},
        {"[1 2]", NULL},
        {"1 2", NULL},
        {"{}}", NULL},
        {"01", NULL},
        {"-", NULL},
        {"+1", NULL},
        {"1.", NULL},
        {".5", NULL},
        {"1e", NULL},
        {"nul", NULL},
        {"nulll", NULL},
        {"True", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJDOC struct co_jdoc doc = {0};
        struct co_err err = {0};
        char got[256] = "";
        int r = co_jdoc_read(rows[i].text, strlen(rows[i].text), "skip", &doc, &err);
        if (!r) {
            write_node(doc.node, got, sizeof(got));
        }
        if (!r != (rows[i].want != NULL) || (r && !err.msg[0]) ||
            strcmp(got, rows[i].want ? rows[i].want : "") != 0) {
            fail_msg("%s: got %s, want %s (%s)", rows[i].text, got,
                rows[i].want ? rows[i].want : "an error", err.msg);
        }
    }
}

static void only_the_given_length_is_read(void **state) {
    (void)state;
    CO_AUTOJDOC struct co_jdoc doc = {0};
    assert_int_equal(co_jdoc_read("[1]]", 3, NULL, &doc, NULL), 0);
    struct co_jdoc none;
    assert_int_equal(co_jdoc_read("[1]\0]", 5, NULL, &none, NULL), CO_INVALID);
}

static void values_are_found_by_their_keys(void **state) {
    (void)state;
    static const char text[] =
        "{\"a\":{\"b\":\"x\",\"n\":-7,\"f\":1.5,\"big\":9223372036854775808},"
        "\"l\":[1,[2,3],4],\"d\":1,\"d\":2}";
    CO_AUTOJDOC struct co_jdoc doc = {0};
    assert_int_equal(co_jdoc_read(text, sizeof(text) - 1, NULL, &doc, NULL), 0);
    const struct co_jnode *whole = doc.node;
    int64_t v = 0;
    assert_string_equal(co_jnode_str(whole, "a", "b"), "x");
    assert_null(co_jnode_str(whole, "a", "n"));
    assert_null(co_jnode_str(whole, "a", "b", "c"));
    assert_null(co_jnode_str(NULL, "a"));
    assert_true(co_jnode_int(co_jnode_at(whole, "a", "n"), &v));
    assert_int_equal(v, -7);
    assert_false(co_jnode_int(co_jnode_at(whole, "a", "f"), &v));
    assert_false(co_jnode_int(co_jnode_at(whole, "a", "big"), &v));
    assert_false(co_jnode_int(co_jnode_at(whole, "a", "b"), &v));
    assert_true(co_jnode_int(co_jnode_get(whole, "d"), &v));
    assert_int_equal(v, 2);
    const struct co_jnode *list = co_jnode_get(whole, "l");
    const struct co_jnode *item = co_jnode_next(list, co_jnode_next(list, NULL));
    assert_true(co_jnode_is(item, CO_J_LIST));
    item = co_jnode_next(list, item);
    assert_true(co_jnode_int(item, &v));
    assert_int_equal(v, 4);
    assert_null(co_jnode_next(list, item));
    assert_null(co_jnode_next(whole, NULL));
}

static void nesting_of_any_depth_is_read(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    CO_AUTOFREE char *text = co_xmalloc((size_t)2 * DEPTH);
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    CO_AUTOJDOC struct co_jdoc doc = {0};
    assert_int_equal(co_jdoc_read(text, (size_t)2 * DEPTH, NULL, &doc, NULL), 0);
    assert_int_equal(doc.node->size, DEPTH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_is_read_or_refused),
        cmocka_unit_test(only_the_given_length_is_read),
        cmocka_unit_test(values_are_found_by_their_keys),
        cmocka_unit_test(nesting_of_any_depth_is_read),
    };
    return cmocka_run_group_tests_name("jdoc", tests, NULL, NULL);
}
