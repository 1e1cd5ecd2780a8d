#include "operator/kube/proto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "operator/kube/fake_proto_testing.h"

enum { EVENT_MAX = 1000 };

#define BYTES(s) s, sizeof(s) - 1
#define POD(name, version)                                                                         \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"

/* An object's tree, then its items'. */
static int read_all(const char *data, size_t len, struct co_buf *out, struct co_err *err) {
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    const char *at, *end, *item;
    size_t n;
    CO_TRY(kube_proto_read(&fake_object, data, len, &doc, err));
    CO_TRY(kube_proto_items(data, len, &at, &end, err));
    CO_AUTOJSON json_t *tree = co_json_of_nodes(doc.node);
    CO_AUTOFREE char *text = co_json_dump(tree);
    CO_TRY(co_buf_adds(out, text, err));
    int r;
    while (!(r = kube_proto_item(&at, end, &item, &n, err))) {
        CO_AUTOJDOC struct co_jdoc part = {.text = NULL};
        CO_TRY(co_proto_read(&fake_object, item, n, &part, err));
        CO_TRY(co_buf_addf(out, err, " %s", co_jnode_str(part.node, "metadata", "name")));
    }
    return r == CO_GONE ? 0 : r;
}

static void answers_are_the_nodes_of_their_json(void **state) {
    (void)state;
    static const struct {
        const char *json, *expected;
    } rows[] = {
        {POD("a", "3"), POD("a", "3")},
        {"{\"metadata\":{}}", "{\"metadata\":{}}"},
        {"{\"items\":[" POD("a", "3") "," POD("b", "4") "],\"metadata\":{\"resourceVersion\":\"9\","
                                                        "\"continue\":\"t\"}}",
            "{\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"t\"}} a b"},
        {"{\"items\":[]}", "{\"metadata\":{}}"},
        {"{\"message\":\"no\",\"reason\":\"Conflict\",\"details\":{\"retryAfterSeconds\":2},"
         "\"code\":409}",
            "{\"message\":\"no\",\"reason\":\"Conflict\",\"details\":{\"retryAfterSeconds\":2},"
            "\"code\":409}"},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf proto = CO_BUF(4096), out = CO_BUF(4096);
        fake_proto(&proto, rows[i].json);
        assert_true(kube_proto_is(proto.data, proto.len));
        assert_int_equal(read_all(proto.data, proto.len, &out, NULL), 0);
        assert_string_equal(out.data, rows[i].expected);
    }
}

static void malformed_objects_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
    } rows[] = {
        {BYTES("")},
        {BYTES("{\"kind\":\"Pod\"}")},
        {BYTES("k8s\0")},
        {BYTES("k8s\0\x0a")},
        {BYTES("k8s\0\x0a\x02\x0a\x00\x12\x00")},                /* no kind */
        {BYTES("k8s\0\x0a\x05\x12\x03Pod")},                     /* no content */
        {BYTES("k8s\0\x0a\x05\x12\x03Pod\x12\x02\x0a\x07")},     /* content that is cut */
        {BYTES("k8s\0\x0a\x09\x12\x07PodList\x12\x02\x12\x07")}, /* in a list */
        {BYTES("k8s\0\x0a\x09\x12\x07PodList\x12\x04\x12\x02\x0a\x07")},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        CO_AUTOBUF struct co_buf out = CO_BUF(4096);
        assert_int_equal(read_all(rows[i].data, rows[i].len, &out, NULL), CO_INVALID);
    }
}

#define EVENT(type, name) "{\"type\":\"" type "\",\"object\":" POD(name, "3") "}\n"

static int on_event(void *arg, const char *type, size_t type_len, const char *object, size_t len,
    struct co_err *err) {
    struct co_buf *out = arg;
    CO_AUTOJDOC struct co_jdoc doc = {.text = NULL};
    CO_TRY(kube_proto_read(&fake_object, object, len, &doc, err));
    return co_buf_addf(
        out, err, "%.*s %s ", (int)type_len, type, co_jnode_str(doc.node, "metadata", "name"));
}

/* Wherever it is cut in three, the events are the same. */
static void events_are_reported_however_they_come(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf all = CO_BUF(4096);
    fake_proto(&all, EVENT("ADDED", "a") EVENT("DELETED", "bcd"));
    for (size_t one = 0; one <= all.len; one++) {
        for (size_t two = one; two <= all.len; two++) {
            const size_t cuts[] = {0, one, two, all.len};
            CO_AUTOBUF struct co_buf out = CO_BUF(4096);
            struct kube_proto_stream s = {0};
            for (size_t i = 0; i < 3; i++) {
                const char *piece = all.data + cuts[i];
                size_t len = cuts[i + 1] - cuts[i];
                assert_true(kube_proto_stream_is(&s, piece, len) || !cuts[i + 1]);
                assert_int_equal(
                    kube_proto_feed(&s, EVENT_MAX, piece, len, on_event, &out, NULL), 0);
            }
            assert_string_equal(out.data, "ADDED a DELETED bcd ");
            assert_int_equal(s.part.len, 0);
            kube_proto_stream_done(&s);
        }
    }
}

static int and_away(void *arg, const char *type, size_t type_len, const char *object, size_t len,
    struct co_err *err) {
    (void)type;
    (void)type_len;
    (void)object;
    (void)len;
    (void)err;
    kube_proto_stream_done(arg);
    return 7;
}

/* What is behind the event that ended it is not reported. */
static void a_stream_may_be_freed_in_its_event_callback(void **state) {
    (void)state;
    CO_AUTOBUF struct co_buf all = CO_BUF(4096);
    fake_proto(&all, EVENT("ADDED", "a") EVENT("DELETED", "bcd"));
    for (size_t cut = 0; cut <= all.len; cut++) {
        struct kube_proto_stream s = {0};
        int r = kube_proto_feed(&s, EVENT_MAX, all.data, cut, and_away, &s, NULL);
        if (!r) {
            r = kube_proto_feed(&s, EVENT_MAX, all.data + cut, all.len - cut, and_away, &s, NULL);
        }
        assert_int_equal(r, 7);
        assert_null(s.part.data);
    }
}

static void a_json_stream_is_not_taken_for_protobuf(void **state) {
    (void)state;
    struct kube_proto_stream s = {0};
    assert_false(kube_proto_stream_is(&s, "", 0));
    assert_false(kube_proto_stream_is(&s, "{", 1));
    assert_false(kube_proto_stream_is(&s, "\0", 1)); /* the first byte decides */
}

static void malformed_events_end_the_stream(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t len;
        int code;
    } rows[] = {
        {BYTES("\0\0\x03\xe9"), CO_NORESOURCE},
        {BYTES("\xff\xff\xff\xff"), CO_NORESOURCE},
        {BYTES("\0\0\0\0"), CO_INVALID}, /* without type and object */
        {BYTES("\0\0\0\x02\x0a\x09"), CO_INVALID},
        {BYTES("\0\0\0\x07\x0a\x05"
               "ADDED"),
            CO_INVALID},
        {BYTES("\0\0\0\x0f\x0a\x05"
               "ADDED\x12\x06\x0a\x04k8s\0"),
            CO_INVALID},
        {BYTES("\0\0\x03\xe8"), 0}, /* not whole yet */
        {BYTES("\0"), 0},
    };
    for (size_t i = 0; i < CO_ARRAY_LEN(rows); i++) {
        for (size_t cut = 0; cut <= rows[i].len; cut++) {
            CO_AUTOBUF struct co_buf out = CO_BUF(4096);
            struct kube_proto_stream s = {0};
            int r = kube_proto_feed(&s, EVENT_MAX, rows[i].data, cut, on_event, &out, NULL);
            if (!r) {
                r = kube_proto_feed(
                    &s, EVENT_MAX, rows[i].data + cut, rows[i].len - cut, on_event, &out, NULL);
            }
            assert_int_equal(r, rows[i].code);
            kube_proto_stream_done(&s);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_nodes_of_their_json),
        cmocka_unit_test(malformed_objects_are_refused),
        cmocka_unit_test(events_are_reported_however_they_come),
        cmocka_unit_test(a_stream_may_be_freed_in_its_event_callback),
        cmocka_unit_test(a_json_stream_is_not_taken_for_protobuf),
        cmocka_unit_test(malformed_events_end_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
