#include "common/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base64.h"

static void a_token_is_32_random_bytes(void **state) {
    (void)state;
    CO_AUTOFREE char *one = NULL;
    CO_AUTOFREE char *two = NULL;
    assert_int_equal(co_token_new(&one, NULL), 0);
    assert_int_equal(co_token_new(&two, NULL), 0);
    assert_string_not_equal(one, two);
    CO_AUTOFREE char *a = NULL;
    CO_AUTOFREE char *b = NULL;
    size_t n = 0, m = 0, same = 0;
    assert_int_equal(co_base64_decode(one, &a, &n, NULL), 0);
    assert_int_equal(co_base64_decode(two, &b, &m, NULL), 0);
    assert_int_equal(n, 32);
    assert_int_equal(m, 32);
    for (size_t i = 0; i < n; i++) {
        same += a[i] == b[i];
    }
    assert_true(same < 16); /* of 32, by chance, once in 10^30 tries */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_token_is_32_random_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
