#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/json/jdoc.h"
#include "common/json/json.h"

static void nodes_become_the_tree_of_their_text(void **state) {
    (void)state;
    static const struct {
        const char *text, *tree; /* NULL: the same */
    } rows[] = {
        {"{\"a\":[1,-2,{}],\"b\":{\"c\":[]},\"d\":null,\"e\":true,\"f\":false}", NULL},
        {"{\"a\":\"\\u00e4\\\"\"}", "{\"a\":\"\xc3\xa4\\\"\"}"},
        {"{\"a\":1,\"a\":2}", "{\"a\":2}"},
        {"[1.5,9223372036854775807,9223372036854775808]",
            "[1.5,9223372036854775807,9.223372036854775808e18]"},
        {"7", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
        CO_AUTOJSON json_t *want = NULL;
        const char *tree = rows[i].tree ? rows[i].tree : rows[i].text;
        assert_int_equal(co_jdoc_read(rows[i].text, strlen(rows[i].text), NULL, &doc, NULL), 0);
        assert_int_equal(co_json_parse(tree, strlen(tree), &want, NULL), 0);
        CO_AUTOJSON json_t *have = co_json_of_nodes(doc.node);
        if (!json_equal(have, want)) {
            CO_AUTOFREE char *text = co_json_dump(have);
            fail_msg("%s", text);
        }
    }
}

static void values_nested_too_deep_become_null(void **state) {
    (void)state;
    enum { DEEP = 100000, KEPT = 1000 };
    CO_AUTOFREE char *text = co_xmalloc(2 * DEEP);
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    assert_int_equal(co_jdoc_read(text, (size_t)2 * DEEP, NULL, &doc, NULL), 0);
    CO_AUTOJSON json_t *tree = co_json_of_nodes(doc.node);
    const json_t *j = tree;
    int depth = 0;
    for (; json_is_array(j); j = json_array_get(j, 0)) {
        depth++;
    }
    assert_int_equal(depth, KEPT);
    assert_true(json_is_null(j));
}

/* What jansson has, each block as malloc rounds it. */
static size_t has;

static size_t block_size(size_t size) {
    return (size + 8 + 15) / 16 * 16;
}

static void *count_alloc(size_t size) {
    size_t *p = co_xmalloc(size + 16);
    *p = size;
    has += block_size(size);
    return p + 2;
}

static void count_free(void *data) {
    size_t *p = data ? (size_t *)data - 2 : NULL;
    has -= p ? block_size(*p) : 0;
    free(p);
}

static void the_memory_of_a_tree_is_estimated_before_it_is_built(void **state) {
    (void)state;
    static const char *const items[] = {"{}", "[]", "0", "1.5", "\"\"",
        "\"a longer text than most\"", "{\"a\":0}", "[[[0]]]", "{\"name\":\"A\",\"value\":\"\"}",
        "{\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{},\"f\":{},\"g\":{},\"h\":{},\"i\":{}}"};
    enum { TIMES = 10000, ROOM = TIMES * 80 };
    json_set_alloc_funcs(count_alloc, count_free);
    for (size_t i = 0; i < CO_ARRAY_LEN(items); i++) {
        CO_AUTOFREE char *text = co_xmalloc(ROOM);
        char *end = text;
        for (int k = 0; k < TIMES; k++) {
            *end++ = k ? ',' : '[';
            memcpy(end, items[i], strlen(items[i]));
            end += strlen(items[i]);
        }
        *end++ = ']';
        CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
        assert_int_equal(co_jdoc_read(text, (size_t)(end - text), NULL, &doc, NULL), 0);
        has = 0;
        CO_AUTOJSON json_t *tree = co_json_of_nodes(doc.node);
        size_t counted = co_json_nodes_bytes(doc.node);
        if (counted < has || counted > has * 3 / 2) {
            fail_msg("%s: %zu bytes, %zu were told", items[i], has, counted);
        }
        co_json_decref(&tree);
        assert_int_equal(has, 0);
    }
    json_set_alloc_funcs(malloc, free);
    assert_int_equal(co_json_nodes_bytes(NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_become_the_tree_of_their_text),
        cmocka_unit_test(values_nested_too_deep_become_null),
        cmocka_unit_test(the_memory_of_a_tree_is_estimated_before_it_is_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
