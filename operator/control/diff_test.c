/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include "operator/control/diff.h"

#include <string.h>

static const struct {
    const char *from, *to, *patch; /* patch NULL: equal */
} rows[] = {
    {"{\"a\":1}", "{\"a\":1}", NULL},
    {"{\"a\":1}", "{\"a\":2}", "{\"a\":2}"},
    {"{\"a\":1}", "{}", "{\"a\":null}"},
    {"{}", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
    {"{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":1,\"c\":3}}", "{\"a\":{\"c\":3}}"},
    {"{\"a\":[1,2]}", "{\"a\":[1]}", "{\"a\":[1]}"},
    {"{\"a\":[1]}", "{\"a\":[1]}", NULL},
    {"{\"a\":{}}", "{\"a\":null}", "{\"a\":null}"},
    {"{}", "{\"a\":null}", NULL},
    {"null", "{\"phase\":\"Pending\"}", "{\"phase\":\"Pending\"}"},
};

static void smallest_patch(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOJSON json_t *from = json_loads(rows[i].from, JSON_DECODE_ANY, NULL);
        CO_AUTOJSON json_t *to = json_loads(rows[i].to, 0, NULL);
        CO_AUTOJSON json_t *patch = op_merge_diff(from, to);
        CO_AUTOFREE char *text = patch ? co_json_dump(patch) : NULL;
        if (!co_streq(text, rows[i].patch)) {
            fail_msg("row %zu: %s, expected %s", i, text, rows[i].patch);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(smallest_patch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
