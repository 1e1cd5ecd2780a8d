#include "runtime/launch/rendezvous/etcd_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base64.h"
#include "common/buf.h"

static const struct rdzv_options me = {
    .name = (char *)"b", .host = (char *)"h", .value = (char *)"{}", .rank = -1};

static void add_text(struct co_buf *b, const json_t *base64) {
    CO_AUTOFREE char *text = NULL;
    size_t len = 0;
    assert_int_equal(co_base64_decode(json_string_value(base64), &text, &len, NULL), 0);
    assert_int_equal(co_buf_adds(b, text, NULL), 0);
}

/* "key=value lease" a put, lines; takes the operations. */
static void expect(json_t *ops_own, const char *text) {
    CO_AUTOJSON json_t *ops = ops_own;
    CO_AUTOBUF struct co_buf b = CO_BUF(1 << 16);
    size_t i;
    json_t *op;
    json_array_foreach(ops, i, op) {
        const json_t *put = json_object_get(op, "request_put");
        const json_t *gone = json_object_get(op, "request_delete_range");
        if (gone) {
            assert_null(json_object_get(gone, "range_end"));
            add_text(&b, json_object_get(gone, "key"));
            assert_int_equal(co_buf_adds(&b, " deleted\n", NULL), 0);
            continue;
        }
        assert_non_null(put);
        const char *lease = co_json_str(put, "lease");
        add_text(&b, json_object_get(put, "key"));
        assert_int_equal(co_buf_adds(&b, "=", NULL), 0);
        add_text(&b, json_object_get(put, "value"));
        assert_int_equal(co_buf_addf(&b, NULL, " %s\n", lease ? lease : "-"), 0);
    }
    assert_string_equal(b.data ? b.data : "", text);
}

static struct rdzv_etcd_view view_of_round(int round) {
    struct rdzv_etcd_view v;
    rdzv_etcd_view_init(&v, "j");
    v.round = round;
    v.round_mod = 17;
    return v;
}

static void a_node_is_there_as_long_as_its_lease(void **state) {
    (void)state;
    static const struct {
        bool joins;
        const char *ready;
    } rows[] = {{true, "4"}, {false, "3"}};
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v = view_of_round(3);
        CO_AUTOFREE char *text = co_xasprintf(
            "/paddle/j/heartbeat/b=b L\n/j/info/b/-1={} L\n"
            "/paddlerun/j/node/b={\"id\":\"1\",\"host\":\"h\",\"port\":7,\"ready\":%s} L\n",
            rows[i].ready);
        expect(rdzv_etcd_write_node(&v, &me, "1", 7, rows[i].joins, "L"), text);
    }
}

static void final_messages_name_the_round_that_was_met(void **state) {
    (void)state;
    static const struct {
        struct rdzv_etcd_messages messages;
        const char *text;
    } rows[] = {
        {{.what = 0, .round = 2}, ""},
        {{.what = RDZV_ETCD_SEND_DONE, .round = 2}, "/paddlerun/j/done/b={\"round\":2} M\n"},
        {{.what = RDZV_ETCD_SEND_AGAIN, .round = 2, .why = "oom"},
            "/paddlerun/j/again={\"round\":2,\"why\":\"node b starts again: oom\"} M\n"},
        {{.what = RDZV_ETCD_SEND_WHY, .round = 2, .code = -1, .why = "SIGTERM"},
            "/paddlerun/j/why/b={\"round\":2,\"code\":-1,\"why\":\"SIGTERM\"} M\n"},
        {{.what = RDZV_ETCD_SEND_DONE | RDZV_ETCD_SEND_STATUS, .round = 2},
            "/paddlerun/j/done/b={\"round\":2} M\n/paddle/j=completed M\n"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v = view_of_round(9);
        expect(rdzv_etcd_write_messages(&v, &me, &rows[i].messages, "M"), rows[i].text);
    }
}

static void a_dead_nodes_keys_go_before_its_lease_ends(void **state) {
    (void)state;
    CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v = view_of_round(3);
    const struct rdzv_etcd_node n = {.name = (char *)"c", .rank = 2, .key_mod = 12};
    expect(rdzv_etcd_write_gone(&v, &n, "M"),
        "/paddlerun/j/why/c={\"round\":3,\"code\":1,\"why\":\"its launcher ended without a word\","
        "\"gone\":true} M\n/paddle/j/heartbeat/c deleted\n/j/info/c/2 deleted\n"
        "/paddlerun/j/node/c deleted\n");
    CO_AUTOJSON json_t *compare = rdzv_etcd_node_unchanged(&v, &n);
    assert_string_equal(co_json_str(json_array_get(compare, 0), "mod_revision"), "12");
    CO_AUTOJSON json_t *ended = json_pack("{s:{s:i}}", "c", "round", 3);
    expect(rdzv_etcd_write_ended(&v, ended, "M"), "/paddlerun/j/done/c={\"round\":3} M\n");
    expect(rdzv_etcd_write_late(&v, "c", true, "L"), "/paddlerun/j/mute/c={\"round\":3} L\n");
    expect(rdzv_etcd_write_late(&v, "c", false, "L"), "/paddlerun/j/mute/c deleted\n");
}

static void a_round_names_its_nodes_by_rank_and_outlives_them(void **state) {
    (void)state;
    CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v = view_of_round(3);
    struct rdzv_etcd_node nodes[] = {{.name = (char *)"a"}, {.name = (char *)"b", .ours = true}};
    size_t order[] = {1, 0};
    const struct rdzv_etcd_decision d = {.order = order, .n = 2, .restarts = 5};
    v.nodes = nodes;
    v.n = 2;
    expect(rdzv_etcd_write_round(&v, rdzv_etcd_next_round(&v, &d)),
        "/paddlerun/j/round={\"round\":4,\"restarts\":5,\"nodes\":[\"b\",\"a\"],"
        "\"paddles\":[\"a\"]} -\n");
    v.nodes = NULL;
    v.n = 0;
    CO_AUTOJSON json_t *compare = rdzv_etcd_round_unchanged(&v);
    assert_string_equal(co_json_str(json_array_get(compare, 0), "mod_revision"), "17");
}

static void ranges_are_read_in_the_order_of_the_view(void **state) {
    (void)state;
    static const char *const keys[] = {
        "/paddle/j/heartbeat/", "/j/info/", "/paddlerun/j/", "/paddle/j"};
    CO_CLEANUP(rdzv_etcd_view_done) struct rdzv_etcd_view v = view_of_round(0);
    CO_AUTOJSON json_t *ops = rdzv_etcd_read_all(&v);
    assert_int_equal(json_array_size(ops), CO_ARRAY_LEN(keys));
    for (size_t i = 0; i < CO_ARRAY_LEN(keys); i++) {
        CO_AUTOBUF struct co_buf b = CO_BUF(1 << 10);
        const json_t *range = json_object_get(json_array_get(ops, i), "request_range");
        add_text(&b, json_object_get(range, "key"));
        assert_string_equal(b.data, keys[i]);
        assert_int_equal(json_object_get(range, "range_end") != NULL, i < 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_there_as_long_as_its_lease),
        cmocka_unit_test(final_messages_name_the_round_that_was_met),
        cmocka_unit_test(a_dead_nodes_keys_go_before_its_lease_ends),
        cmocka_unit_test(a_round_names_its_nodes_by_rank_and_outlives_them),
        cmocka_unit_test(ranges_are_read_in_the_order_of_the_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
