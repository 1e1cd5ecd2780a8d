/* Both ends of the handshake, byte for byte and without a connection. */
#include "runtime/net/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/bytes.h"
#include "common/mem.h"

static const char *const own[] = {"it is full", "it is closed"};
static const struct net_protocol cats = {.magic = 0x53544143,
    .purpose = "cats",
    .accepts = "house",
    .dials = "cat",
    .all = "all cats",
    .own = own,
    .n_own = CO_ARRAY_LEN(own)};
static const struct net_auth clear = {&cats, "secret", false}, encrypted = {&cats, "secret", true},
                             other = {&cats, "guess", false};
static const unsigned char cat[NET_CALLER_BYTES] = "a cat", house[NET_CALLER_BYTES] = "a house";

/* Hello and answer between two ends that agree. */
static void open_with(const struct net_auth *auth, struct net_handshake *h) {
    assert_int_equal(0, net_hello_write(auth, cat, h, NULL));
    assert_int_equal(NET_REFUSAL_NONE, net_hello_read(auth, h));
    assert_true(net_hello_check(auth, h));
    assert_int_equal(0, net_answer_write(auth, NET_REFUSAL_NONE, house, h, NULL));
}

static void both_ends_read_caller_bytes_and_verify_proofs(void **state) {
    (void)state;
    struct net_handshake h = {0};
    unsigned char proof[NET_PROOF_BYTES], welcome[NET_WELCOME_BYTES];
    open_with(&clear, &h);
    assert_memory_equal(cat, net_caller_bytes(h.hello), NET_CALLER_BYTES);
    assert_memory_equal(house, net_caller_bytes(h.answer), NET_CALLER_BYTES);
    assert_int_equal(NET_REFUSAL_NONE, net_answer_read(&clear, &h));
    net_proof_write(&clear, &h, proof);
    assert_true(net_proof_check(&clear, &h, proof));
    net_welcome_write(&clear, NET_REFUSAL_NONE, welcome);
    assert_int_equal(NET_REFUSAL_NONE, net_welcome_read(&clear, welcome));
}

static void a_peer_without_the_token_is_detected_on_either_end(void **state) {
    (void)state;
    struct net_handshake h = {0};
    unsigned char proof[NET_PROOF_BYTES];
    assert_int_equal(0, net_hello_write(&other, cat, &h, NULL));
    assert_false(net_hello_check(&clear, &h));
    open_with(&clear, &h);
    net_proof_write(&other, &h, proof);
    assert_false(net_proof_check(&clear, &h, proof));
    /* who accepts, says yes, and has no proof but the other end's own */
    assert_int_equal(0, net_answer_write(&other, NET_REFUSAL_NONE, house, &h, NULL));
    assert_int_equal(NET_REFUSAL_TOKEN, net_answer_read(&clear, &h));
    net_proof_write(&clear, &h, proof);
    memcpy(h.answer + NET_ANSWER_BYTES - NET_PROOF_BYTES, proof, sizeof(proof));
    assert_int_equal(NET_REFUSAL_TOKEN, net_answer_read(&clear, &h));
    memcpy(h.answer + NET_ANSWER_BYTES - NET_PROOF_BYTES,
        h.hello + NET_HELLO_BYTES - NET_PROOF_BYTES, NET_PROOF_BYTES);
    assert_int_equal(NET_REFUSAL_TOKEN, net_answer_read(&clear, &h));
}

/* Nobody in between changes a byte of what the two have said. */
static void proofs_cover_every_byte(void **state) {
    (void)state;
    struct net_handshake h = {0};
    unsigned char proof[NET_PROOF_BYTES];
    open_with(&clear, &h);
    net_proof_write(&clear, &h, proof);
    for (size_t i = 0; i < NET_HELLO_BYTES; i++) {
        h.hello[i] ^= 1;
        assert_false(net_hello_check(&clear, &h));
        assert_false(net_proof_check(&clear, &h, proof));
        assert_int_not_equal(NET_REFUSAL_NONE, net_answer_read(&clear, &h));
        h.hello[i] ^= 1;
    }
    for (size_t i = 0; i < NET_ANSWER_BYTES; i++) {
        h.answer[i] ^= 1;
        assert_int_not_equal(NET_REFUSAL_NONE, net_answer_read(&clear, &h));
        /* its own proof is not what the other end signs */
        assert_int_equal(
            i >= NET_ANSWER_BYTES - NET_PROOF_BYTES, net_proof_check(&clear, &h, proof));
        h.answer[i] ^= 1;
    }
    assert_true(net_proof_check(&clear, &h, proof));
}

static void a_recorded_proof_is_wrong_for_another_answer(void **state) {
    (void)state;
    struct net_handshake h = {0};
    unsigned char proof[NET_PROOF_BYTES];
    open_with(&clear, &h);
    net_proof_write(&clear, &h, proof);
    assert_int_equal(0, net_answer_write(&clear, NET_REFUSAL_NONE, house, &h, NULL));
    assert_false(net_proof_check(&clear, &h, proof));
}

static void proofs_of_another_protocol_are_wrong(void **state) {
    (void)state;
    struct net_protocol dogs = cats;
    struct net_auth auth = {&dogs, "secret", false};
    struct net_handshake h = {0};
    dogs.purpose = "dogs";
    open_with(&clear, &h);
    assert_false(net_hello_check(&auth, &h));
    assert_int_equal(NET_REFUSAL_TOKEN, net_answer_read(&auth, &h));
    dogs.magic = 7;
    assert_int_equal(NET_REFUSAL_FORM, net_hello_read(&auth, &h));
    assert_int_equal(NET_REFUSAL_FORM, net_answer_read(&auth, &h));
}

/* What each refusal says at the end that accepts, and at the one that dials. */
static void every_refusal_is_a_sentence_on_both_ends(void **state) {
    (void)state;
    static const struct {
        const struct net_auth *auth;
        enum net_refusal why;
        int code;
        const char *accepts, *dials;
    } rows[] = {
        {&clear, NET_REFUSAL_FORM, CO_INVALID, "this library's protocol", "this library's protoc"},
        {&clear, NET_REFUSAL_VERSION, CO_INVALID, "version 9 of the protocol, expected 4: all cats",
            "must have the same version of the library"},
        {&clear, NET_REFUSAL_ENCRYPTION, CO_INVALID, "the cat encrypts, this house does not",
            "the house encrypts, this cat does not: PADDLE_JOB_ENCRYPT must be the same"},
        {&encrypted, NET_REFUSAL_ENCRYPTION, CO_INVALID,
            "the cat does not encrypt, this house does", "the house does not encrypt, this cat"},
        {&clear, NET_REFUSAL_TOKEN, CO_PERMISSION, "the token is not this job's (PADDLE_JOB_TOKEN",
            "PADDLE_JOB_TOKEN must be the same everywhere"},
        {&clear, NET_REFUSAL_OWN + 1, CO_INVALID, "it is closed", "it is closed"},
        {&clear, NET_REFUSAL_OWN + 2, CO_INVALID, "an unknown refusal", "an unknown refusal"},
        {&clear, 255, CO_INVALID, "an unknown refusal", "an unknown refusal"},
    };
    unsigned char head[NET_HEAD_BYTES] = {0};
    co_put_u16(head + 4, 9);
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        struct co_err err = {0};
        assert_int_equal(
            rows[i].code, net_refusal_error(rows[i].auth, rows[i].why, head, true, &err));
        assert_non_null(strstr(err.msg, rows[i].accepts));
        (void)net_refusal_error(rows[i].auth, rows[i].why, head, false, &err);
        assert_non_null(strstr(err.msg, rows[i].dials));
    }
}

static void a_refusal_reaches_the_other_end_without_a_proof(void **state) {
    (void)state;
    struct net_handshake h = {0};
    unsigned char zero[NET_ANSWER_BYTES - NET_HEAD_BYTES] = {0}, welcome[NET_WELCOME_BYTES];
    open_with(&clear, &h);
    assert_int_equal(0, net_answer_write(&clear, NET_REFUSAL_OWN, house, &h, NULL));
    assert_memory_equal(zero, h.answer + NET_HEAD_BYTES, sizeof(zero));
    assert_int_equal(NET_REFUSAL_OWN, net_answer_read(&clear, &h));
    net_welcome_write(&clear, NET_REFUSAL_TOKEN, welcome);
    assert_int_equal(NET_REFUSAL_TOKEN, net_welcome_read(&clear, welcome));
}

static void ends_that_disagree_about_encryption_or_version_refuse(void **state) {
    (void)state;
    struct net_handshake h = {0};
    unsigned char welcome[NET_WELCOME_BYTES];
    assert_int_equal(0, net_hello_write(&encrypted, cat, &h, NULL));
    assert_int_equal(NET_REFUSAL_ENCRYPTION, net_hello_read(&clear, &h));
    assert_int_equal(0, net_hello_write(&clear, cat, &h, NULL));
    assert_int_equal(NET_REFUSAL_ENCRYPTION, net_hello_read(&encrypted, &h));
    open_with(&clear, &h);
    net_welcome_write(&clear, NET_REFUSAL_NONE, welcome);
    h.hello[4]++;
    h.answer[4]++;
    welcome[4]++;
    assert_int_equal(NET_REFUSAL_VERSION, net_hello_read(&clear, &h));
    assert_int_equal(NET_REFUSAL_VERSION, net_answer_read(&clear, &h));
    assert_int_equal(NET_REFUSAL_VERSION, net_welcome_read(&clear, welcome));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_read_caller_bytes_and_verify_proofs),
        cmocka_unit_test(a_peer_without_the_token_is_detected_on_either_end),
        cmocka_unit_test(proofs_cover_every_byte),
        cmocka_unit_test(a_recorded_proof_is_wrong_for_another_answer),
        cmocka_unit_test(proofs_of_another_protocol_are_wrong),
        cmocka_unit_test(every_refusal_is_a_sentence_on_both_ends),
        cmocka_unit_test(a_refusal_reaches_the_other_end_without_a_proof),
        cmocka_unit_test(ends_that_disagree_about_encryption_or_version_refuse),
    };
    return cmocka_run_group_tests_name("handshake", tests, NULL, NULL);
}
