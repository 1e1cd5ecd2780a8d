/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/kube/text.h"

#include <string.h>

#include "common/buf.h"

static void objects_lose_their_managed_fields(void **state) {
    (void)state;
    static const struct {
        const char *text, *parsed; /* NULL: refused */
    } rows[] = {
        {"{\"a\":1}", "{\"a\":1}"},
        {"{\"managedFields\":[{\"f\":{\"]\":[\"}\\\"\"]}}],\"a\":1}", "{\"a\":1}"},
        {"{\"a\":1,\"managedFields\":[]}", "{\"a\":1}"},
        {"{\"managedFields\":[]}", "{}"},
        {"[{\"managedFields\":[1]},{\"b\":2,\"managedFields\":[2],\"c\":3}]",
            "[{},{\"b\":2,\"c\":3}]"},
        {"{\"a\":\"\\\"managedFields\\\":[\"}", "{\"a\":\"\\\"managedFields\\\":[\"}"},
        {"{\"managedFields\": [1]}", "{\"managedFields\":[1]}"},
        {"{\"a\":1,\"managedFields\":[", NULL},
        {"{\"a\":1,\"managedFields\":[\"\\", NULL},
        {"{\"managedFields\":[]", NULL},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        /* Nothing behind the text: whoever reads too far is seen by the sanitizers. */
        size_t len = strlen(rows[i].text);
        CO_AUTOFREE char *text = co_xmalloc(len);
        memcpy(text, rows[i].text, len);
        CO_AUTOJSON json_t *j = NULL;
        int r = kube_text_parse(text, len, &j, NULL);
        CO_AUTOFREE char *have = r ? NULL : co_json_dump(j);
        if (!co_streq(have, rows[i].parsed)) {
            fail_msg("row %zu: %s, expected %s", i, have, rows[i].parsed);
        }
    }
}

static void cached_texts_have_no_annotations(void **state) {
    (void)state;
    static const struct {
        const char *text, *kept;
    } rows[] = {
        {"{\"metadata\":{\"annotations\":{\"a\":\"}\"},\"managedFields\":[1],\"name\":\"x\"},\"s\":"
         "1}",
            "{\"metadata\":{\"annotations\":{},\"name\":\"x\"},\"s\":1}"},
        {"{\"spec\":{\"annotations\":{\"a\":1}},\"metadata\":{\"annotations\":{}}}",
            "{\"spec\":{\"annotations\":{\"a\":1}},\"metadata\":{\"annotations\":{}}}"},
        {"{\"metadata\":{\"labels\":{\"annotations\":{\"a\":1}},\"annotations\":null}}",
            "{\"metadata\":{\"labels\":{\"annotations\":{\"a\":1}},\"annotations\":null}}"},
        {"{\"metadata\":{\"annotations\":{\"a\":1}", "{\"metadata\":{\"annotations\":{}"},
        {"{\"metadata\":{\"annotations\":{\"a\":1", "{\"metadata\":{\"annotations\":{\"a\":1"},
        {"{\"metadata\":{\"annotations\":", "{\"metadata\":{\"annotations\":"},
        {"", ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].text), n;
        CO_AUTOFREE char *text = co_xmalloc(len);
        memcpy(text, rows[i].text, len);
        CO_AUTOFREE char *have = kube_text_slim(text, len, &n);
        if (n != strlen(rows[i].kept) || memcmp(have, rows[i].kept, n) != 0) {
            fail_msg("row %zu: %.*s, expected %s", i, (int)n, have, rows[i].kept);
        }
    }
}

static void a_list_is_split_into_its_items(void **state) {
    (void)state;
    static const struct {
        const char *text, *rest, *items;
    } rows[] = {
        {"{\"items\":[{\"a\":1},{\"items\":[{}]}],\"z\":2}", "{\"items\":[],\"z\":2}",
            "{\"a\":1} {\"items\":[{}]} "},
        {"{\"metadata\":{\"items\":[1]},\"items\":[]}",
            "{\"metadata\":{\"items\":[1]},\"items\":[]}", ""},
        {"{\"items\":null}", "{\"items\":null}", ""},
        {"{\"items\":[null,{\"a\":\"}]\"}]}", "{\"items\":[]}", "{\"a\":\"}]\"} "},
        {"{\"items\": [{\"a\":1}]}", "{\"items\":[{\"a\":1}]}", ""},
        {"{\"items\":[{\"a\":1}", NULL, ""},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
        const char *at = NULL;
        const char *end = NULL;
        CO_AUTOBUF struct co_buf items = CO_BUF(200);
        int r = kube_text_list(rows[i].text, strlen(rows[i].text), &doc, &at, &end, NULL);
        CO_AUTOJSON json_t *rest = r ? NULL : co_json_of_nodes(doc.node);
        CO_AUTOFREE char *have = r ? NULL : co_json_dump(rest);
        const char *item;
        size_t len;
        while (!r && !kube_text_item(&at, end, &item, &len)) {
            assert_int_equal(co_buf_addf(&items, NULL, "%.*s ", (int)len, item), 0);
        }
        if (!co_streq(have, rows[i].rest) ||
            strcmp(items.data ? items.data : "", rows[i].items) != 0) {
            fail_msg("row %zu: %s and %s", i, have, items.data);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_lose_their_managed_fields),
        cmocka_unit_test(cached_texts_have_no_annotations),
        cmocka_unit_test(a_list_is_split_into_its_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
