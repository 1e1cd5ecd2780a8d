#include "runtime/launch/rendezvous/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const good_hellos[] = {
    "1 0123456789abcdef join 0 2:2 10.0.0.1",
    "1 0123456789abcdef run 7 1:100000 [::1]",
    "1 a stop 1 1:2 host.name",
    "1 a done 1 1:2 -",
};

static const char *const bad_hellos[] = {
    "",
    "2 a join 0 2:2 h",
    "1 xyz join 0 2:2 h",
    "1 0123456789abcdef0 join 0 2:2 h",
    "1 a leave 0 2:2 h",
    "1 a join -1 2:2 h",
    "1 a join 0 0:2 h",
    "1 a join 0 3:2 h",
    "1 a join 0 2:100001 h",
    "1 a join 99999999999 2:2 h",
    "1 a join 0 2:2",
    "1 a join 0 2:2 h more",
};

static void hellos(void **state) {
    (void)state;
    for (size_t i = 0; i < CO_ARRAY_LEN(good_hellos); i++) {
        struct rdzv_wire_hello h;
        char text[RDZV_WIRE_TEXT];
        assert_int_equal(rdzv_wire_hello_parse(good_hellos[i], false, &h, NULL), 0);
        rdzv_wire_hello_format(&h, false, text);
        assert_string_equal(text, good_hellos[i]);
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(bad_hellos); i++) {
        struct rdzv_wire_hello h;
        if (rdzv_wire_hello_parse(bad_hellos[i], false, &h, NULL) != CO_INVALID) {
            fail_msg("accepted: %s", bad_hellos[i]);
        }
    }
    struct rdzv_wire_hello h;
    assert_int_equal(rdzv_wire_hello_parse("1 a leave -1 2:2 h", true, &h, NULL), 0);
    assert_int_equal(h.code, -1);
    assert_false(h.restart);
    assert_int_equal(rdzv_wire_hello_parse("1 a restart 7 2:2 h", true, &h, NULL), 0);
    assert_true(h.restart);
    assert_int_equal(h.round, 7);
    assert_int_equal(h.code, 0);
}

static void keys(void **state) {
    (void)state;
    char name[CO_HOST_MAX];
    int rank;
    assert_int_equal(rdzv_wire_key_parse("abc/-1", name, &rank, NULL), 0);
    assert_string_equal(name, "abc");
    assert_int_equal(rank, -1);
    static const char *const bad[] = {"", "/", "a", "a/", "/1", "a/x", "a/-2", "a/b/1", "a/100000"};
    for (size_t i = 0; i < CO_ARRAY_LEN(bad); i++) {
        if (rdzv_wire_key_parse(bad[i], name, &rank, NULL) != CO_INVALID) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
}

static void a_roster_arrives_whole(void **state) {
    (void)state;
    const struct rdzv_wire_peer peers[] = {{"a", "{\"x\": 1}"}, {"b", ""}, {"c", "{}"}};
    CO_AUTOBUF struct co_buf packed = CO_BUF(1 << 20), text = CO_BUF(1 << 20);
    struct rdzv_wire_answer a;
    size_t raw = 0;
    assert_int_equal(rdzv_wire_pack(peers, 3, &packed, &raw, NULL), 0);
    assert_int_equal(rdzv_wire_met(4, 2, 3, raw, &packed, &text, NULL), 0);
    assert_int_equal(rdzv_wire_answer_parse(text.data, text.len, &a, NULL), 0);
    assert_int_equal(a.kind, RDZV_WIRE_MET);
    assert_int_equal(a.round, 4);
    assert_int_equal(a.self, 2);
    assert_int_equal(a.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(a.peers[i].name, peers[i].name);
        assert_string_equal(a.peers[i].value, peers[i].value);
    }
    rdzv_wire_answer_done(&a);
    for (size_t cut = 0; cut < text.len; cut++) { /* damaged anywhere: refused */
        assert_int_not_equal(rdzv_wire_answer_parse(text.data, cut, &a, NULL), 0);
    }
    text.data[text.len - 1] ^= 1;
    assert_int_equal(rdzv_wire_answer_parse(text.data, text.len, &a, NULL), CO_INVALID);
}

static void answers(void **state) {
    (void)state;
    struct rdzv_wire_answer a;
    CO_AUTOBUF struct co_buf b = CO_BUF(4096);
    rdzv_wire_format(&b, RDZV_WIRE_OVER, CO_NORESOURCE, "node b is gone");
    assert_int_equal(rdzv_wire_answer_parse(b.data, b.len, &a, NULL), 0);
    assert_int_equal(a.kind, RDZV_WIRE_OVER);
    assert_int_equal(a.code, CO_NORESOURCE);
    assert_string_equal(a.text, "node b is gone");
    static const struct {
        const char *text;
        int code;
    } rows[] = {
        {"", CO_UNSUPPORTED}, /* as Paddle's service answers */
        {"ok\n", CO_UNSUPPORTED},
        {"<html>\n", CO_UNSUPPORTED},
        {"paddlerun\n", CO_UNSUPPORTED},
        {"paddlerun what 1 x\n", CO_INVALID},
        {"paddlerun wait x\n", CO_INVALID},
        {"paddlerun met 1 0\n", CO_INVALID},
        {"paddlerun met 1 2 2 4\n", CO_INVALID},
        {"paddlerun met 1 0 100001 300000\n", CO_INVALID},
        {"paddlerun met 1 0 2 999999999999\n", CO_INVALID},
        {"paddlerun met 0 0 2 4\n", CO_INVALID},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        int r = rdzv_wire_answer_parse(rows[i].text, strlen(rows[i].text), &a, NULL);
        if (r != rows[i].code) {
            fail_msg("%s: %d", rows[i].text, r);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hellos),
        cmocka_unit_test(keys),
        cmocka_unit_test(a_roster_arrives_whole),
        cmocka_unit_test(answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
