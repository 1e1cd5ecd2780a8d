#include "common/cert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

static void self_signed_certificates_have_different_keys(void **state) {
    (void)state;
    struct co_err err = {0};
    char *cert[2] = {NULL, NULL};
    char *key[2] = {NULL, NULL};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(co_cert_self_signed("paddle-operator", &cert[i], &key[i], &err), 0);
        assert_non_null(strstr(cert[i], "-----BEGIN CERTIFICATE-----\n"));
        assert_non_null(strstr(key[i], " PRIVATE KEY-----\n"));
    }
    assert_string_not_equal(cert[0], cert[1]);
    assert_string_not_equal(key[0], key[1]);
    for (size_t i = 0; i < 2; i++) {
        free(cert[i]);
        free(key[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_signed_certificates_have_different_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
