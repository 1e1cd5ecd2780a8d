#include "common/proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Python: hmac.new(b"purpose secret", b"what was said", "sha256").digest() */
static void a_proof_is_the_hmac_that_others_compute(void **state) {
    (void)state;
    static const unsigned char golden[CO_PROOF_BYTES] = {0x4b, 0xd2, 0x82, 0xbe, 0x10, 0x31, 0x05,
        0x3b, 0x2b, 0x67, 0x94, 0xa5, 0xb5, 0xb1, 0x00, 0x17, 0xa2, 0xc3, 0x84, 0xdc, 0xa9, 0xcf,
        0x3f, 0x54, 0x39, 0x75, 0x58, 0x26, 0x02, 0xf7, 0x6c, 0xe2};
    unsigned char proof[CO_PROOF_BYTES];
    co_proof_make("purpose", "secret", "what was said", 13, proof);
    assert_memory_equal(golden, proof, sizeof(proof));
}

static void a_proof_is_of_its_purpose_secret_and_text_only(void **state) {
    (void)state;
    static const struct {
        const char *purpose, *secret, *text;
        bool right;
    } rows[] = {
        {"door", "secret", "text", true},
        {"doors", "secret", "text", false},
        {"door", "Secret", "text", false},
        {"door", "secretsecret", "text", false},
        {"door", "", "text", false},
        {"door", "secret", "texT", false},
        {"door", "secret", "text ", false},
    };
    unsigned char proof[CO_PROOF_BYTES];
    co_proof_make("door", "secret", "text", 4, proof);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(rows[i].right, co_proof_check(rows[i].purpose, rows[i].secret,
                                            rows[i].text, strlen(rows[i].text), proof));
    }
    for (size_t i = 0; i < sizeof(proof); i++) {
        proof[i] ^= 1;
        assert_false(co_proof_check("door", "secret", "text", 4, proof));
        proof[i] ^= 1;
    }
    co_proof_make("door", "", "text", 4, proof);
    assert_true(co_proof_check("door", "", "text", 4, proof));
}

static void nonces_differ(void **state) {
    (void)state;
    unsigned char a[CO_NONCE_BYTES], b[CO_NONCE_BYTES];
    assert_int_equal(0, co_nonce_make(a, NULL));
    assert_int_equal(0, co_nonce_make(b, NULL));
    assert_memory_not_equal(a, b, sizeof(a));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_is_the_hmac_that_others_compute),
        cmocka_unit_test(a_proof_is_of_its_purpose_secret_and_text_only),
        cmocka_unit_test(nonces_differ),
    };
    return cmocka_run_group_tests_name("proof", tests, NULL, NULL);
}
