#include "runtime/launch/rendezvous/seal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/mem.h"

#define H64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void a_header_says_the_same_when_it_is_written_again(void **state) {
    (void)state;
    static const char *const rows[] = {
        "1 " H64, "1 " H64 " " H64 " 1 " H64, "1 " H64 " " H64 " 9999999999999999999 " H64};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rdzv_seal s;
        char text[RDZV_SEAL_TEXT];
        assert_int_equal(0, rdzv_seal_parse(rows[i], &s, NULL));
        assert_int_equal(i > 0, s.proven);
        assert_int_equal(0x11, s.client[1]);
        rdzv_seal_format(&s, text);
        assert_string_equal(rows[i], text);
    }
}

static void malformed_headers_are_refused(void **state) {
    (void)state;
    static const char *const rows[] = {"", "1", "1 ", "2 " H64, "1 00", "1 " H64 "0", "1 " H64 " ",
        "1 " H64 " " H64, "1 " H64 " " H64 " 1", "1 " H64 " " H64 " 1 " H64 "0",
        "1 " H64 " " H64 " -1 " H64, "1 " H64 " 00 1 " H64, "1 " H64 " " H64 " 1 " H64 " x",
        "1 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF"};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct rdzv_seal s;
        struct co_err err = {0};
        if (rdzv_seal_parse(rows[i], &s, &err) != CO_INVALID) {
            fail_msg("row %zu: \"%s\"", i, rows[i]);
        }
    }
}

static void a_challenge_is_read_as_it_was_written(void **state) {
    (void)state;
    static const char *const rows[] = {"", "paddlerun wait 1", "paddlerun challenge 1 00\n",
        "paddlerun challenge 2 " H64 "\n", "paddlerun challenge 1 " H64 "0\n",
        ("paddlerun challenge 1 " H64)};
    unsigned char nonce[CO_NONCE_BYTES], got[CO_NONCE_BYTES];
    char text[RDZV_SEAL_TEXT];
    assert_int_equal(0, co_nonce_make(nonce, NULL));
    rdzv_seal_challenge_format(nonce, text);
    assert_non_null(strstr(text, "PADDLE_JOB_TOKEN"));
    assert_true(rdzv_seal_challenge_parse(text, got));
    assert_memory_equal(nonce, got, sizeof(got));
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        assert_false(rdzv_seal_challenge_parse(rows[i], got));
    }
}

static const struct rdzv_seal_request usual = {
    .method = "POST", .path = "/j/info/a/-1", .said = "1 a join", .body = "{}", .len = 2};

static void a_proof_is_of_all_that_a_request_says(void **state) {
    (void)state;
    static const struct rdzv_seal_request others[] = {
        {.method = "PUT", .path = "/j/info/a/-1", .said = "1 a join", .body = "{}", .len = 2},
        {.method = "POST", .path = "/j/info/b/-1", .said = "1 a join", .body = "{}", .len = 2},
        {.method = "POST", .path = "/j/info/a/-1", .said = "1 a leave", .body = "{}", .len = 2},
        {.method = "POST", .path = "/j/info/a/-1", .said = "", .body = "{}", .len = 2},
        {.method = "POST", .path = "/j/info/a/-1", .said = "1 a join", .body = "[]", .len = 2},
        {.method = "POST", .path = "/j/info/a/-1", .said = "1 a join", .body = "{}", .len = 1},
        /* the same bytes, cut elsewhere */
        {.method = "POST/j", .path = "/info/a/-1", .said = "1 a join", .body = "{}", .len = 2},
        {.method = "POST", .path = "/j/info/a/-11", .said = " a join", .body = "{}", .len = 2},
    };
    struct rdzv_seal s = {.client = {1}, .nonce = {2}, .number = 3};
    rdzv_seal_request(&s, "secret", &usual);
    assert_true(rdzv_seal_request_right(&s, "secret", &usual));
    assert_false(rdzv_seal_request_right(&s, "Secret", &usual));
    for (size_t i = 0; i < CO_ARRAY_LEN(others); i++) {
        if (rdzv_seal_request_right(&s, "secret", &others[i])) {
            fail_msg("row %zu", i);
        }
    }
    struct rdzv_seal changed[] = {s, s, s};
    changed[0].client[31] ^= 1;
    changed[1].nonce[31] ^= 1;
    changed[2].number++;
    for (size_t i = 0; i < CO_ARRAY_LEN(changed); i++) {
        assert_false(rdzv_seal_request_right(&changed[i], "secret", &usual));
    }
}

static void a_proof_is_of_all_that_an_answer_says(void **state) {
    (void)state;
    struct rdzv_seal s = {.client = {1}, .nonce = {2}, .number = 3};
    unsigned char proof[CO_PROOF_BYTES];
    char text[RDZV_SEAL_TEXT];
    rdzv_seal_answer(&s, "secret", 200, "met", 3, proof);
    rdzv_seal_proof_format(proof, text);
    assert_true(rdzv_seal_answer_right(&s, "secret", 200, "met", 3, text));
    assert_false(rdzv_seal_answer_right(&s, "Secret", 200, "met", 3, text));
    assert_false(rdzv_seal_answer_right(&s, "secret", 404, "met", 3, text));
    assert_false(rdzv_seal_answer_right(&s, "secret", 200, "mat", 3, text));
    assert_false(rdzv_seal_answer_right(&s, "secret", 200, "met", 2, text));
    assert_false(rdzv_seal_answer_right(&s, "secret", 200, "met", 3, ""));
    s.number++;
    assert_false(rdzv_seal_answer_right(&s, "secret", 200, "met", 3, text));
    s.number--;
    (void)strncat(text, "0", 2);
    assert_false(rdzv_seal_answer_right(&s, "secret", 200, "met", 3, text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_says_the_same_when_it_is_written_again),
        cmocka_unit_test(malformed_headers_are_refused),
        cmocka_unit_test(a_challenge_is_read_as_it_was_written),
        cmocka_unit_test(a_proof_is_of_all_that_a_request_says),
        cmocka_unit_test(a_proof_is_of_all_that_an_answer_says),
    };
    return cmocka_run_group_tests_name("seal", tests, NULL, NULL);
}
